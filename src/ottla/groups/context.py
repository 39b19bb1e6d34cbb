"""State that the parts of a group shard share: groups, offsets, settings, timers and appliers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ottla.groups.config import GroupsConfig
from ottla.groups.group import Group
from ottla.groups.history import RebalanceHistory
from ottla.groups.offset_table import GroupOffsets
from ottla.groups.topics_view import TopicsView
from ottla.machines.outcome import Outcome
from ottla.machines.timers import Timers
from ottla.protocol.message import Message

# Applies one record: key, value or None, and the time of its batch.
Applier: TypeAlias = Callable[[Message, Message | None, int], None]


class ShardContext:
    """`groups` and `offsets` are changed by appliers alone, except for groups without a record."""

    __slots__ = (
        "appliers",
        "config",
        "groups",
        "new_uuid",
        "offsets",
        "open_transactions",
        "timers",
        "topics",
    )

    def __init__(self, config: GroupsConfig, topics: TopicsView, new_uuid: Callable[[], str]) -> None:
        self.config = config
        self.topics = topics
        self.new_uuid = new_uuid  # as text, for member ids
        self.timers = Timers()
        self.groups: dict[str, Group] = {}
        self.offsets: dict[str, GroupOffsets] = {}
        # Groups in which a producer's transaction has pending offsets.
        self.open_transactions: dict[int, dict[str, None]] = {}
        # By record type (API_KEY of the key). Every part of the shard adds its own.
        self.appliers: dict[int, Applier] = {}

    def write(self, outcome: Outcome, key: Message, value: Message | None, now_ms: int) -> None:
        """Add a record to the outcome and apply it at once: later decisions build on it."""
        outcome.records.append((key, value))
        self.appliers[key.API_KEY](key, value, now_ms)

    def new_history(self) -> RebalanceHistory:
        return RebalanceHistory(self.config.rebalance_history_length)
