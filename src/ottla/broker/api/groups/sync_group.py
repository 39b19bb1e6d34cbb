"""SyncGroup (14): the group leader sends the assignment, every member receives its part.

The response may take minutes: later requests of the connection are handled, and their responses wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.api.refusal import refuse_whole
from ottla.broker.api.request_context import request_context
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request
    from ottla.protocol.messages.sync_group_request import SyncGroupRequest


def create(parts: ApiParts) -> Handler:
    groups = parts.groups

    def handle(request: Request, message: SyncGroupRequest) -> Any:
        if not message.group_id:
            return refuse_whole(message, ErrorCode.INVALID_GROUP_ID, "")
        return groups.sync_group(message, request_context(request), lambda code: refuse_whole(message, code))

    return handle


API = ApiDeclaration(ApiKey.SYNC_GROUP, create, refuse=refuse_whole)
