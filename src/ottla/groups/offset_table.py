"""The committed offsets of one group, kept small: there may be a million of them in a shard."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

# offset, leader epoch, metadata, commit time, expiry time (-1 unless an old client set one), topic id.
# A plain tuple: the garbage collector stops tracking tuples of atoms, but would repeatedly traverse a million
# instances of a class.
CommittedOffset: TypeAlias = tuple[int, int, str, int, int, bytes]
COMMIT_MS: Final = 3
EXPIRE_MS: Final = 4
TOPIC_ID: Final = 5


class PendingOffset(NamedTuple):
    """An offset committed in an open transaction. `order` distinguishes which of several is the newest."""

    order: int
    committed: CommittedOffset | None  # None: superseded by a later commit


class GroupOffsets:
    """`topics` holds committed offsets; `pending` holds those of open transactions.

    Of all commits of a partition that take effect, the one written last counts: a transaction may end after
    a plain commit, or a commit of another transaction, that was written after its own.
    """

    __slots__ = ("_order", "pending", "topics")

    def __init__(self) -> None:
        self.topics: dict[str, dict[int, CommittedOffset]] = {}
        # By producer id, then topic and partition.
        self.pending: dict[int, dict[tuple[str, int], PendingOffset]] = {}
        self._order = 0

    @property
    def is_empty(self) -> bool:
        return not self.topics and not self.pending

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        partitions = self.topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def put(self, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Store a commit outside transactions, which is the newest."""
        self._put(topic, partition, committed)
        if self.pending:
            self._overtake(topic, partition, self._order + 1)

    def remove(self, topic: str, partition: int) -> None:
        """Remove the offset, and pending commits of it."""
        partitions = self.topics.get(topic)
        if partitions is not None and partitions.pop(partition, None) is not None and not partitions:
            del self.topics[topic]
        for producer_id in [*self.pending]:
            offsets = self.pending[producer_id]
            offsets.pop((topic, partition), None)
            if not offsets:
                del self.pending[producer_id]

    def put_pending(self, producer_id: int, topic: str, partition: int, committed: CommittedOffset) -> None:
        self._order += 1
        self.pending.setdefault(producer_id, {})[topic, partition] = PendingOffset(self._order, committed)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Apply the marker of a producer's transaction: commit or drop its pending offsets."""
        offsets = self.pending.pop(producer_id, None)
        if offsets is None or not committed:
            return
        for (topic, partition), (order, offset) in offsets.items():
            if offset is not None:
                self._put(topic, partition, offset)
                self._overtake(topic, partition, order)

    def _put(self, topic: str, partition: int, committed: CommittedOffset) -> None:
        partitions = self.topics.get(topic)
        if partitions is None:
            partitions = self.topics[topic] = {}
        partitions[partition] = committed

    def _overtake(self, topic: str, partition: int, order: int) -> None:
        key = (topic, partition)
        for offsets in self.pending.values():
            pending = offsets.get(key)
            if pending is not None and pending.order < order:
                offsets[key] = PendingOffset(pending.order, None)

    def is_pending(self, topic: str, partition: int) -> bool:
        if not self.pending:
            return False
        key = (topic, partition)
        return any(key in offsets for offsets in self.pending.values())

    def partitions_of(self, topic: str) -> list[int]:
        """Return the partitions of a topic with a committed or pending offset."""
        found = dict.fromkeys(self.topics.get(topic, ()))
        for offsets in self.pending.values():
            found.update({partition: None for name, partition in offsets if name == topic})
        return [*found]

    def partitions(self) -> dict[tuple[str, int], None]:
        """Return all partitions with a committed or pending offset."""
        found: dict[tuple[str, int], None] = {}
        for topic, partitions in self.topics.items():
            for partition in partitions:
                found[topic, partition] = None
        for offsets in self.pending.values():
            found.update(dict.fromkeys(offsets))
        return found

    def __len__(self) -> int:
        return sum(len(partitions) for partitions in self.topics.values())
