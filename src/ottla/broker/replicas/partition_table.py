"""The partitions that this broker hosts, by topic name or topic id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.replicas.partition import Partition
    from ottla.storage.manager.log_manager import LogManager


class PartitionTable:
    __slots__ = ("_by_id", "_by_name", "_identity", "_logs", "_metadata")

    def __init__(self, identity: NodeIdentity, metadata: MetadataCache, logs: LogManager) -> None:
        self._identity = identity
        self._metadata = metadata
        self._logs = logs
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[bytes, dict[int, Partition]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_name.values()))

    def __iter__(self) -> Iterator[Partition]:
        for partitions in list(self._by_name.values()):
            yield from list(partitions.values())

    # -- look-up

    def of_topic(self, topic: str) -> dict[int, Partition]:
        return self._by_name.get(topic, {})

    def by_name(self, topic: str, index: int) -> Partition | None:
        partitions = self._by_name.get(topic)
        return None if partitions is None else partitions.get(index)

    def by_id(self, topic_id: bytes, index: int) -> Partition | None:
        partitions = self._by_id.get(topic_id)
        return None if partitions is None else partitions.get(index)

    def find(self, topic: str | bytes, index: int) -> Partition | ErrorCode:
        """The partition of a topic name or id, or the error to return."""
        partitions = self._by_id.get(topic) if isinstance(topic, bytes) else self._by_name.get(topic)
        partition = None if partitions is None else partitions.get(index)
        if partition is None:
            return self.missing_error(topic, index)
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition.deleted else partition

    def missing_error(self, topic: str | bytes, index: int) -> ErrorCode:
        """The error for a partition that is not in the table, by topic name or id."""
        image = self._metadata.image
        if isinstance(topic, bytes):
            known = image.topics_by_id.get(topic)
            if known is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
        else:
            known = image.topics_by_name.get(topic)
        if known is None or index not in known.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self._identity.node_id in known.partitions[index].replicas and (
            self._logs.offline_dirs() or (known.name, index) in self._logs.corrupt
        ):
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER  # on another broker, or about to be hosted here

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        """The high watermark of each partition, for the checkpoint."""
        return {(each.topic, each.index): each.high_watermark for each in self}

    # -- changes

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
