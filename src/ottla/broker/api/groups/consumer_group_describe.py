"""ConsumerGroupDescribe (69): state, members and assignments of groups of the consumer protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.api.groups.describing import describe_groups
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import consumer_group_describe_response as wire

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request
    from ottla.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest


def refuse(
    message: ConsumerGroupDescribeRequest, code: int, reason: str = ""
) -> wire.ConsumerGroupDescribeResponse:
    return wire.ConsumerGroupDescribeResponse(
        groups=[wire.DescribedGroup(group_id=group_id, error_code=code) for group_id in message.group_ids]
    )


def create(parts: ApiParts) -> Handler:
    groups = parts.groups

    def handle(request: Request, message: ConsumerGroupDescribeRequest) -> Any:
        if not groups.has_consumer_protocol:
            return refuse(message, ErrorCode.UNSUPPORTED_VERSION)
        return describe_groups(
            groups.shards,
            message,
            message.group_ids,
            lambda shard, group_id: shard.describe_consumer_group(group_id),
            lambda described: wire.ConsumerGroupDescribeResponse(groups=described),
            wire,
        )

    return handle


API = ApiDeclaration(ApiKey.CONSUMER_GROUP_DESCRIBE, create, refuse=refuse)
