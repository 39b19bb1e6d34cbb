"""DeleteGroups (42): delete empty groups and their offsets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.coordinators.groups import context_of, together
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.coordinators.writing import Ticket
    from ottla.broker.net.request import Request
    from ottla.groups.shard import GroupShard
    from ottla.machines.outcome import Outcome


def refuse(message: DeleteGroupsRequest, code: int, reason: str) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=code) for group_id in message.groups_names
        ]
    )


def create(parts: ApiParts) -> Handler:
    groups = parts.groups

    def handle(request: Request, message: DeleteGroupsRequest) -> Any:
        def delete(group_id: str, machine: GroupShard, ticket: Ticket, now_ms: int) -> Outcome:
            return machine.decide_delete_groups([group_id], context_of(request, ticket), now_ms)

        responses: list[Any] = []
        for group_id in dict.fromkeys(message.groups_names):
            refuse_one = partial(_refused, group_id)
            shard = groups.shard_of(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
            if isinstance(shard, ErrorCode):
                responses.append(refuse_one(shard))
            else:
                responses.append(shard.submit(partial(delete, group_id), refuse_one))
        return together(
            responses,
            lambda parts: DeleteGroupsResponse(results=[result for part in parts for result in part.results]),
        )

    return handle


def _refused(group_id: str, code: int) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=group_id, error_code=code)])


API = ApiDeclaration(ApiKey.DELETE_GROUPS, create, refuse=refuse)
