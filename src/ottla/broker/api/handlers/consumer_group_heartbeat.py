"""ConsumerGroupHeartbeat (68): a member of the consumer protocol joins, lives, changes and leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.refusals import refused
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node

API_KEY = 68


def handle(broker: Node, request: Request, message: ConsumerGroupHeartbeatRequest) -> Any:
    if not broker.groups.has_consumer_protocol:
        text = "the consumer protocol is not enabled: feature group.version is 0"
        return refused(message, ErrorCode.UNSUPPORTED_VERSION, text)
    if not message.group_id:
        return refused(message, ErrorCode.INVALID_REQUEST, "a group needs a name")
    return broker.groups.ask(request, message, "decide_consumer_group_heartbeat", writes=False)
