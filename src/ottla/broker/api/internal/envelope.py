"""Envelope (58): a broker forwards the request of a client to the active controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.declaration import THIS_NODE, ApiDeclaration
from ottla.broker.api.refusal import refuse_whole
from ottla.broker.api.registry import declaration, served_modules
from ottla.broker.metadata.controller_loop import NotController
from ottla.protocol.api import API_BY_KEY
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.frames import SIZE_BYTES, encode_response, read_request_header
from ottla.protocol.messages.envelope_request import EnvelopeRequest
from ottla.protocol.messages.envelope_response import EnvelopeResponse
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.metadata.controller_channel import ControllerChannel
    from ottla.broker.net.request import Request


class Envelope:
    def __init__(self, controller: ControllerChannel) -> None:
        self._controller = controller

    async def handle(self, request: Request, message: EnvelopeRequest) -> EnvelopeResponse:
        head = read_request_header(message.request_data)
        declared = declaration(head.api_key) if head.api_key in served_modules() else None
        if declared is None or declared.decided_by == THIS_NODE:
            return _failed(ErrorCode.UNSUPPORTED_VERSION)
        api = API_BY_KEY[head.api_key]
        if not api.min_version <= head.api_version <= api.max_version:
            return _failed(ErrorCode.UNSUPPORTED_VERSION)
        inner, _ = api.request_class().read(head.api_version, message.request_data, head.body_pos)
        try:
            response = await self._controller.decide_here(inner)
        except NotController:
            return _failed(ErrorCode.NOT_CONTROLLER)
        except StorageError as error:
            assert declared.refuse is not None
            response = declared.refuse(inner, error.code, error.reason)
        if declared.adapt is not None:
            declared.adapt(response, head.api_version)
        parts = encode_response(head.api_key, head.api_version, head.correlation_id, response)
        return EnvelopeResponse(
            response_data=b"".join(part for part in parts if isinstance(part, bytes))[SIZE_BYTES:]
        )


def _failed(code: ErrorCode) -> EnvelopeResponse:
    return EnvelopeResponse(response_data=None, error_code=code)


def create(parts: ApiParts) -> Handler:
    return Envelope(parts.controller).handle


API = ApiDeclaration(ApiKey.ENVELOPE, create, refuse=refuse_whole)
