"""Which partition a record goes to."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.client.core.cluster import no_such_partition
from ottla.client.core.metadata import TopicInfo
from ottla.client.core.retry import Clock
from ottla.client.options import Partitioner
from ottla.records.partitions import murmur2

__all__ = ["PartitionChooser", "murmur2", "partition_for_key"]


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition that the Java client chooses: murmur2 of the key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class PartitionChooser:
    """In this order: the partition given with a record, the partitioner, the key, a sticky partition.

    Records without a key stay with one partition until its batch is full: fewer and fuller batches than with
    a partition per record.
    """

    def __init__(self, partitioner: Partitioner | None, clock: Clock) -> None:
        self._partitioner = partitioner
        self._random = clock.random
        self._sticky: dict[str, int] = {}

    def choose(self, info: TopicInfo, key: bytes | None, partition: int | None) -> int:
        """Raises UnknownTopicError for a partition that does not exist."""
        count = len(info.partitions)
        if partition is None and self._partitioner is not None:
            partition = custom_partition(self._partitioner, info.name, key, count)
        if partition is not None:
            if partition not in info.partitions:
                raise no_such_partition(info, partition)
            return partition
        if key is not None:
            return partition_for_key(key, count)
        sticky = self._sticky.get(info.name)
        if sticky is None or sticky >= count:
            led = [row.partition for row in info.partitions.values() if row.leader >= 0]
            sticky = self._sticky[info.name] = self._pick(led or list(info.partitions))
        return sticky

    def batch_is_full(self, topic: str) -> None:
        """The next record without a key goes to another partition."""
        self._sticky.pop(topic, None)

    def _pick(self, partitions: Sequence[int]) -> int:
        return partitions[int(self._random() * len(partitions))]


def custom_partition(partitioner: Partitioner, topic: str, key: bytes | None, count: int) -> int | None:
    """What the user's partitioner returns. Raises TypeError unless it is an int or None."""
    chosen = partitioner(topic, key, count)
    if chosen is not None and (not isinstance(chosen, int) or isinstance(chosen, bool)):
        raise TypeError(f"partitioner: returned {chosen!r} for topic {topic!r}, expected an int or None")
    return chosen
