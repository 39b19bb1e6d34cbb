"""DescribeGroups (15): state and members of classic groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.api.groups.describing import describe_groups
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import describe_groups_response as wire

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request
    from ottla.protocol.messages.describe_groups_request import DescribeGroupsRequest


def refuse(message: DescribeGroupsRequest, code: int, reason: str) -> wire.DescribeGroupsResponse:
    return wire.DescribeGroupsResponse(
        groups=[wire.DescribedGroup(group_id=group_id, error_code=code) for group_id in message.groups]
    )


def create(parts: ApiParts) -> Handler:
    groups = parts.groups

    def handle(request: Request, message: DescribeGroupsRequest) -> Any:
        return describe_groups(
            groups.shards,
            message,
            message.groups,
            lambda shard, group_id: shard.describe_group(group_id, request.version),
            lambda described: wire.DescribeGroupsResponse(groups=described),
            wire,
        )

    return handle


API = ApiDeclaration(ApiKey.DESCRIBE_GROUPS, create, refuse=refuse)
