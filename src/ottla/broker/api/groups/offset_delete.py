"""OffsetDelete (47): delete committed offsets of a group."""

from __future__ import annotations

from ottla.broker.api.groups.group_api import group_api
from ottla.groups.shard import GroupShard
from ottla.protocol.api_keys import ApiKey

API = group_api(ApiKey.OFFSET_DELETE, GroupShard.decide_offset_delete)
