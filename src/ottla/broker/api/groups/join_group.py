"""JoinGroup (11): a member joins a classic group, or rejoins it for a rebalance.

The response may take minutes: later requests of the connection are handled, and their responses wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.api.request_context import request_context
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group_response import JoinGroupResponse

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request
    from ottla.protocol.messages.join_group_request import JoinGroupRequest


def refuse(message: JoinGroupRequest, code: int, reason: str) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=message.member_id)


def create(parts: ApiParts) -> Handler:
    groups = parts.groups

    def handle(request: Request, message: JoinGroupRequest) -> Any:
        if not message.group_id:
            return refuse(message, ErrorCode.INVALID_GROUP_ID, "")
        return groups.join_group(message, request_context(request), lambda code: refuse(message, code, ""))

    return handle


API = ApiDeclaration(ApiKey.JOIN_GROUP, create, refuse=refuse)
