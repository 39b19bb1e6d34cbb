"""Heartbeat (12): a member of a classic group reports that it is alive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.api.request_context import request_context
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat_response import HeartbeatResponse

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request
    from ottla.protocol.messages.heartbeat_request import HeartbeatRequest


def refuse(message: HeartbeatRequest, code: int, reason: str) -> HeartbeatResponse:
    """Succeeds while the group is loading, as in Kafka: some clients fail on an error here."""
    loading = code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if loading else code)


def create(parts: ApiParts) -> Handler:
    groups = parts.groups

    def handle(request: Request, message: HeartbeatRequest) -> Any:
        if not message.group_id:
            return refuse(message, ErrorCode.INVALID_GROUP_ID, "")
        return groups.heartbeat(message, request_context(request), lambda code: refuse(message, code, ""))

    return handle


API = ApiDeclaration(ApiKey.HEARTBEAT, create, refuse=refuse)
