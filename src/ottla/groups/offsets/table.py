"""The committed offsets of one group, kept small: there may be a million of them in a shard."""

from __future__ import annotations

from typing import NamedTuple


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int  # -1 unless an old client named it
    topic_id: bytes


# A transaction's offset that a later commit has overtaken: unstable until the marker comes, then nothing.
OVERTAKEN = None


class GroupOffsets:
    """`topics` holds what is committed; `pending` what transactions have written and not yet ended."""

    __slots__ = ("pending", "topics")

    def __init__(self) -> None:
        self.topics: dict[str, dict[int, CommittedOffset]] = {}
        # By producer id, then topic and partition.
        self.pending: dict[int, dict[tuple[str, int], CommittedOffset | None]] = {}

    @property
    def is_empty(self) -> bool:
        return not self.topics and not self.pending

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        partitions = self.topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def put(self, topic: str, partition: int, committed: CommittedOffset) -> None:
        partitions = self.topics.get(topic)
        if partitions is None:
            partitions = self.topics[topic] = {}
        partitions[partition] = committed
        if self.pending:
            self._overtake(topic, partition)

    def remove(self, topic: str, partition: int) -> None:
        partitions = self.topics.get(topic)
        if partitions is not None and partitions.pop(partition, None) is not None and not partitions:
            del self.topics[topic]
        if self.pending:
            self._overtake(topic, partition)

    def _overtake(self, topic: str, partition: int) -> None:
        key = (topic, partition)
        for offsets in self.pending.values():
            if key in offsets:
                offsets[key] = OVERTAKEN

    def put_pending(
        self, producer_id: int, topic: str, partition: int, committed: CommittedOffset | None
    ) -> None:
        self.pending.setdefault(producer_id, {})[topic, partition] = committed

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """The marker of a producer's transaction: its offsets count from here, or never."""
        offsets = self.pending.pop(producer_id, None)
        if offsets is None or not committed:
            return
        for (topic, partition), offset in offsets.items():
            if offset is not OVERTAKEN:
                self.put(topic, partition, offset)

    def is_pending(self, topic: str, partition: int) -> bool:
        if not self.pending:
            return False
        key = (topic, partition)
        return any(key in offsets for offsets in self.pending.values())

    def __len__(self) -> int:
        return sum(len(partitions) for partitions in self.topics.values())
