"""SyncGroup (14): the group leader sends the assignment, every member receives its part.

The response may take minutes: later requests of the connection are handled, and their responses wait.
"""

from __future__ import annotations

from ottla.broker.api.groups.group_api import group_api
from ottla.groups.shard import GroupShard
from ottla.protocol.api_keys import ApiKey

API = group_api(ApiKey.SYNC_GROUP, GroupShard.decide_sync_group)
