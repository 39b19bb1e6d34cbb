"""The partitions that this broker hosts, found by topic name or topic id."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.replicas.partition import Partition


class PartitionTable:
    __slots__ = ("_by_id", "_by_name")

    def __init__(self) -> None:
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[bytes, dict[int, Partition]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_name.values()))

    def __iter__(self) -> Iterator[Partition]:
        for partitions in list(self._by_name.values()):
            yield from list(partitions.values())

    def add(self, partition: Partition) -> None:
        same_topic = self._by_name.setdefault(partition.topic, {})
        assert partition.index not in same_topic, f"{partition} is hosted already"
        same_topic[partition.index] = partition
        self._by_id[partition.topic_id] = same_topic

    def remove(self, partition: Partition) -> None:
        same_topic = self._by_name[partition.topic]
        assert same_topic[partition.index] is partition
        del same_topic[partition.index]
        if not same_topic:
            del self._by_name[partition.topic]
            del self._by_id[partition.topic_id]

    def remove_topic(self, topic: str) -> list[Partition]:
        partitions = list(self._by_name.pop(topic, {}).values())
        for partition in partitions:
            self._by_id.pop(partition.topic_id, None)
        return partitions

    def of_topic(self, topic: str) -> dict[int, Partition]:
        return self._by_name.get(topic, {})

    def by_name(self, topic: str, index: int) -> Partition | None:
        partitions = self._by_name.get(topic)
        return None if partitions is None else partitions.get(index)

    def by_id(self, topic_id: bytes, index: int) -> Partition | None:
        partitions = self._by_id.get(topic_id)
        return None if partitions is None else partitions.get(index)
