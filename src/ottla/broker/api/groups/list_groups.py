"""ListGroups (16): the groups that this broker coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.api.refusal import refuse_whole
from ottla.broker.coordinators.replies import merge_replies
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from ottla.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request


def create(parts: ApiParts) -> Handler:
    shards = parts.groups.shards

    def handle(request: Request, message: ListGroupsRequest) -> Any:
        lists = shards.read_all(
            lambda shard, _: shard.list_groups(message.states_filter, message.types_filter)
        )
        if isinstance(lists, ErrorCode):
            return ListGroupsResponse(error_code=lists)
        return merge_replies(lists, _merged)

    return handle


def _merged(parts: list[list[ListedGroup] | None]) -> Message:
    if None in parts:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return ListGroupsResponse(groups=[group for part in parts for group in part or ()])


API = ApiDeclaration(ApiKey.LIST_GROUPS, create, refuse=refuse_whole)
