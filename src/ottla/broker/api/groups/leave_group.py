"""LeaveGroup (13): members leave a classic group."""

from __future__ import annotations

from ottla.broker.api.groups.group_api import group_api
from ottla.groups.shard import GroupShard
from ottla.protocol.api_keys import ApiKey

API = group_api(ApiKey.LEAVE_GROUP, GroupShard.decide_leave_group)
