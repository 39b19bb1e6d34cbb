"""Requests about one group, decided by its shard: OffsetCommit (8), JoinGroup (11), Heartbeat (12),
LeaveGroup (13), SyncGroup (14), OffsetDelete (47).

JoinGroup and SyncGroup may be answered minutes later: what the client sends meanwhile on this connection is
done, and its answers wait in line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.refusals import refused
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node

OFFSET_COMMIT, HEARTBEAT = 8, 12
_METHODS = {
    OFFSET_COMMIT: "decide_offset_commit",
    11: "decide_join_group",
    HEARTBEAT: "decide_heartbeat",
    13: "decide_leave_group",
    14: "decide_sync_group",
    47: "decide_offset_delete",
}
API_KEYS = tuple(_METHODS)


def handle(broker: Node, request: Request, message: Any) -> Any:
    api_key = request.api_key
    # Offsets may be kept without a name: old clients did so. Membership needs one.
    if not message.group_id and api_key != OFFSET_COMMIT:
        return refused(message, ErrorCode.INVALID_GROUP_ID)
    return broker.groups.ask(request, message, _METHODS[api_key], writes=api_key != HEARTBEAT)
