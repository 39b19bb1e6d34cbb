"""JoinGroup (11): a member joins a classic group, or rejoins it for a rebalance.

The response may take minutes: later requests of the connection are handled, and their responses wait.
"""

from __future__ import annotations

from ottla.broker.api.groups.group_api import group_api
from ottla.groups.shard import GroupShard
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.join_group_request import JoinGroupRequest
from ottla.protocol.messages.join_group_response import JoinGroupResponse


def refuse(message: JoinGroupRequest, code: int, reason: str) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=message.member_id)


API = group_api(ApiKey.JOIN_GROUP, GroupShard.decide_join_group, refuse=refuse)
