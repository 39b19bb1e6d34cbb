"""DeleteGroups (42): empty groups go, and their offsets with them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.groups import context_of, together
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.coordinators.writing import Ticket
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node
    from ottla.groups.shard import GroupShard
    from ottla.machines.outcome import Outcome

API_KEY = 42


def handle(broker: Node, request: Request, message: DeleteGroupsRequest) -> Any:
    def delete(group_id: str, machine: GroupShard, ticket: Ticket, now_ms: int) -> Outcome:
        return machine.decide_delete_groups([group_id], context_of(request, ticket), now_ms)

    answers: list[Any] = []
    for group_id in dict.fromkeys(message.groups_names):
        refuse = partial(_refused, group_id)
        shard = broker.groups.shard_of(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if isinstance(shard, ErrorCode):
            answers.append(refuse(shard))
        else:
            answers.append(shard.submit(partial(delete, group_id), refuse))
    return together(
        answers,
        lambda parts: DeleteGroupsResponse(results=[result for part in parts for result in part.results]),
    )


def _refused(group_id: str, code: int) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=group_id, error_code=code)])
