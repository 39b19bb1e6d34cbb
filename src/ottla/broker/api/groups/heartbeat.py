"""Heartbeat (12): a member of a classic group reports that it is alive."""

from __future__ import annotations

from ottla.broker.api.groups.group_api import group_api
from ottla.groups.shard import GroupShard
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.heartbeat_response import HeartbeatResponse


def refuse(message: HeartbeatRequest, code: int, reason: str) -> HeartbeatResponse:
    """Succeeds while the group is loading, as in Kafka: some clients fail on an error here."""
    loading = code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if loading else code)


API = group_api(ApiKey.HEARTBEAT, GroupShard.decide_heartbeat, refuse=refuse, writes=False)
