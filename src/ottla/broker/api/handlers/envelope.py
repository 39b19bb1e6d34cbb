"""Envelope (58): a client's command that a broker hands on to the active controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.fitting import fitted
from ottla.broker.api.refusals import refused
from ottla.broker.metadata.controller_commands import COMMAND_KEYS, QUORUM_KEYS
from ottla.broker.metadata.controller_loop import NotController
from ottla.protocol.api import API_BY_KEY
from ottla.protocol.errors import ErrorCode
from ottla.protocol.frames import SIZE_BYTES, encode_response, read_request_header
from ottla.protocol.messages.envelope_request import EnvelopeRequest
from ottla.protocol.messages.envelope_response import EnvelopeResponse
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node

API_KEY = 58


async def handle(broker: Node, request: Request, message: EnvelopeRequest) -> EnvelopeResponse:
    head = read_request_header(message.request_data)
    if head.api_key not in COMMAND_KEYS and head.api_key not in QUORUM_KEYS:
        return EnvelopeResponse(response_data=None, error_code=ErrorCode.UNSUPPORTED_VERSION)
    api = API_BY_KEY[head.api_key]
    if not api.min_version <= head.api_version <= api.max_version:
        return EnvelopeResponse(response_data=None, error_code=ErrorCode.UNSUPPORTED_VERSION)
    inner, _ = api.request_class().read(head.api_version, message.request_data, head.body_pos)
    try:
        answer = await broker.controller.decide_here(inner)
    except NotController:
        return EnvelopeResponse(response_data=None, error_code=ErrorCode.NOT_CONTROLLER)
    except StorageError as error:
        answer = refused(inner, error.code, error.reason)
    answer = fitted(answer, head.api_version)
    parts = encode_response(head.api_key, head.api_version, head.correlation_id, answer)
    return EnvelopeResponse(
        response_data=b"".join(part for part in parts if isinstance(part, bytes))[SIZE_BYTES:]
    )
