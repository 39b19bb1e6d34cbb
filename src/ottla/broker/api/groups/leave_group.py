"""LeaveGroup (13): members leave a classic group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.api.refusal import refuse_whole
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request
    from ottla.protocol.messages.leave_group_request import LeaveGroupRequest


def create(parts: ApiParts) -> Handler:
    groups = parts.groups

    def handle(request: Request, message: LeaveGroupRequest) -> Any:
        if not message.group_id:
            return refuse_whole(message, ErrorCode.INVALID_GROUP_ID, "")
        return groups.ask(
            request,
            message.group_id,
            lambda machine, context, now_ms: machine.decide_leave_group(message, context, now_ms),
            lambda code: refuse_whole(message, code, ""),
        )

    return handle


API = ApiDeclaration(ApiKey.LEAVE_GROUP, create, refuse=refuse_whole)
