"""DeleteGroups (42): delete empty groups and their offsets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.api.request_context import request_context
from ottla.broker.coordinators.replies import merge_replies
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request


def refuse(message: DeleteGroupsRequest, code: int, reason: str) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=code, error_message=reason or None)
            for group_id in message.groups_names
        ]
    )


def create(parts: ApiParts) -> Handler:
    shards = parts.groups.shards

    def handle(request: Request, message: DeleteGroupsRequest) -> Any:
        context = request_context(request)

        def delete(group_id: str) -> Any:
            refuse_one = partial(_refused, group_id)
            if not group_id:
                return refuse_one(ErrorCode.INVALID_GROUP_ID, "The group id is empty.")
            return shards.submit(
                group_id,
                lambda shard, now_ms: shard.decide_delete_groups([group_id], context, now_ms),
                refuse_one,
            )

        responses = [delete(group_id) for group_id in dict.fromkeys(message.groups_names)]
        return merge_replies(
            responses,
            lambda parts: DeleteGroupsResponse(results=[result for part in parts for result in part.results]),
        )

    return handle


def _refused(group_id: str, code: int, reason: str | None = None) -> DeleteGroupsResponse:
    result = DeletableGroupResult(group_id=group_id, error_code=code, error_message=reason)
    return DeleteGroupsResponse(results=[result])


API = ApiDeclaration(ApiKey.DELETE_GROUPS, create, refuse=refuse)
