"""Expire offsets that have been unused for long, and remove groups that have nothing left.

The scan proceeds in small steps: a shard may hold a million offsets, checking them blocks the shard, and each
expired offset is a record to write.
"""

from __future__ import annotations

from collections import deque

from ottla.groups.classic.group import ClassicGroup
from ottla.groups.context import ShardContext
from ottla.groups.group import Group
from ottla.groups.offset_table import COMMIT_MS, EXPIRE_MS, CommittedOffset, GroupOffsets
from ottla.groups.offsets.commit import Commit
from ottla.machines.outcome import Outcome
from ottla.machines.timers import Timer

# Offsets checked per step. A group is not split, so a step may check more.
LOOKS_MAX = 5_000
TOMBSTONES_MAX = 1_000
PAUSE_MS = 10


class Expiry:
    __slots__ = ("_commit", "_queue", "_timer", "context")

    def __init__(self, context: ShardContext, commit: Commit) -> None:
        self.context = context
        self._commit = commit
        self._queue: deque[str] = deque()
        self._timer = Timer(self._step)

    def start(self, now_ms: int) -> None:
        self.context.timers.arm(self._timer, now_ms + self.context.config.offsets_retention_check_interval_ms)

    def _step(self, outcome: Outcome, now_ms: int) -> None:
        queue = self._queue
        if not queue:
            queue.extend(self.context.groups)
        looks = 0
        while queue and looks < LOOKS_MAX and len(outcome.records) < TOMBSTONES_MAX:
            group_id = queue.popleft()
            looks += 1 + self._clean(outcome, group_id, now_ms)
        if queue:
            self.context.timers.arm(self._timer, now_ms + PAUSE_MS)
        else:
            self.start(now_ms)

    def _clean(self, outcome: Outcome, group_id: str, now_ms: int) -> int:
        """Return the number of checked offsets."""
        group = self.context.groups.get(group_id)
        if group is None:
            return 0
        looks = 0
        offsets = self.context.offsets.get(group_id)
        if offsets is not None:
            looks = len(offsets)
            expired = self._expired(group, offsets, now_ms)
            for topic, partition in expired[:TOMBSTONES_MAX]:
                self._commit.delete_offset(outcome, group_id, topic, partition, now_ms)
            if len(expired) > TOMBSTONES_MAX:
                self._queue.appendleft(group_id)
        # The last offset may have been removed, and the table with it.
        if group_id not in self.context.offsets and self._is_abandoned(group):
            for key, value in group.tombstones():
                self.context.write(outcome, key, value, now_ms)
        return looks

    def _expired(self, group: Group, offsets: GroupOffsets, now_ms: int) -> list[tuple[str, int]]:
        retention_ms = self.context.config.offsets_retention_ms
        found = []
        for topic, partitions in offsets.topics.items():
            for partition, committed in partitions.items():
                since_ms = group.offsets_expire_from_ms(topic, committed[COMMIT_MS])
                if since_ms is None:
                    continue
                is_over = _is_over(committed, since_ms, retention_ms, now_ms)
                # A pending offset counts as use.
                if is_over and not offsets.is_pending(topic, partition):
                    found.append((topic, partition))
        return found

    def _is_abandoned(self, group: Group) -> bool:
        if isinstance(group, ClassicGroup) and group.pending_members:
            return False
        return group.is_empty


def _is_over(committed: CommittedOffset, since_ms: int, retention_ms: int, now_ms: int) -> bool:
    if committed[EXPIRE_MS] >= 0:
        return now_ms >= committed[EXPIRE_MS]
    return now_ms - since_ms >= retention_ms
