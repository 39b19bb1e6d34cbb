"""ConsumerGroupHeartbeat (68): a member of the consumer protocol joins, stays alive, changes and leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.api.refusal import refuse_whole
from ottla.broker.api.request_context import request_context
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request
    from ottla.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest

DISABLED = "the consumer protocol is not enabled: feature group.version is 0"


def create(parts: ApiParts) -> Handler:
    groups = parts.groups

    def handle(request: Request, message: ConsumerGroupHeartbeatRequest) -> Any:
        if not groups.has_consumer_protocol:
            return refuse_whole(message, ErrorCode.UNSUPPORTED_VERSION, DISABLED)
        if not message.group_id:
            return refuse_whole(message, ErrorCode.INVALID_REQUEST, "the group id is empty")
        context = request_context(request)
        return groups.shards.submit(
            message.group_id,
            lambda shard, now_ms: shard.decide_consumer_group_heartbeat(message, context, now_ms),
            lambda code: refuse_whole(message, code),
            context,
            writes=False,
        )

    return handle


API = ApiDeclaration(ApiKey.CONSUMER_GROUP_HEARTBEAT, create, refuse=refuse_whole)
