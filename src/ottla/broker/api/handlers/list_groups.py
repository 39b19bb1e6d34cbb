"""ListGroups (16): the groups that this broker looks after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.groups import together
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from ottla.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node

API_KEY = 16


def handle(broker: Node, request: Request, message: ListGroupsRequest) -> Any:
    answers = broker.groups.look_everywhere(
        lambda shard: shard.list_groups(message.states_filter, message.types_filter)
    )
    if isinstance(answers, ErrorCode):
        return ListGroupsResponse(error_code=answers)
    return together(answers, _merged)


def _merged(parts: list[list[ListedGroup] | None]) -> Message:
    if None in parts:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return ListGroupsResponse(groups=[group for part in parts for group in part or ()])
