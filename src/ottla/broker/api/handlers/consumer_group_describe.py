"""ConsumerGroupDescribe (69): state, members and assignments of groups of the consumer protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.refusals import refused
from ottla.broker.coordinators.describing import describe_groups
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import consumer_group_describe_response as wire
from ottla.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node

API_KEY = 69


def handle(broker: Node, request: Request, message: ConsumerGroupDescribeRequest) -> Any:
    if not broker.groups.has_consumer_protocol:
        return refused(message, ErrorCode.UNSUPPORTED_VERSION)
    return describe_groups(
        broker,
        message,
        message.group_ids,
        lambda shard, group_id: shard.describe_consumer_group(group_id),
        lambda groups: wire.ConsumerGroupDescribeResponse(groups=groups),
        wire,
    )
