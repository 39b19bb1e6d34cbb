"""DescribeGroups (15): state and members of classic groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.describing import describe_groups
from ottla.protocol.messages import describe_groups_response as wire
from ottla.protocol.messages.describe_groups_request import DescribeGroupsRequest

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node

API_KEY = 15


def handle(broker: Node, request: Request, message: DescribeGroupsRequest) -> Any:
    return describe_groups(
        broker,
        message,
        message.groups,
        lambda shard, group_id: shard.describe_group(group_id, request.version),
        lambda groups: wire.DescribeGroupsResponse(groups=groups),
        wire,
    )
