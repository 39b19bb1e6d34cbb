"""ConsumerGroupPartitionMetadataValue, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class ConsumerGroupPartitionMetadataValue(Message):
    API_KEY = 4
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("topics",)
    SCHEMA = """
        topics []TopicMetadata 0+
    """

    def __init__(self, *, topics: list[TopicMetadata] = UNSET) -> None:
        self.topics: list[TopicMetadata] = [] if topics is UNSET else topics


class TopicMetadata(Struct):
    __slots__ = ("topic_id", "topic_name", "num_partitions", "partition_metadata")
    SCHEMA = """
        topic_id uuid 0+
        topic_name string 0+
        num_partitions int32 0+
        partition_metadata []PartitionMetadata 0+
    """

    def __init__(self, *,
        topic_id: bytes = ZERO_UUID, topic_name: str = "", num_partitions: int = 0,
        partition_metadata: list[PartitionMetadata] = UNSET,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.num_partitions = num_partitions
        self.partition_metadata: list[PartitionMetadata] = [] if partition_metadata is UNSET else partition_metadata


class PartitionMetadata(Struct):
    __slots__ = ("partition", "racks")
    SCHEMA = """
        partition int32 0+
        racks []string 0+
    """

    def __init__(self, *, partition: int = 0, racks: list[str] = UNSET) -> None:
        self.partition = partition
        self.racks: list[str] = [] if racks is UNSET else racks
