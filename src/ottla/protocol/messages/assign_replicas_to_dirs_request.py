"""AssignReplicasToDirsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class AssignReplicasToDirsRequest(Message):
    API_KEY = 73
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("broker_id", "broker_epoch", "directories")
    SCHEMA = """
        broker_id int32 0+
        broker_epoch int64 0+ default:-1
        directories []DirectoryData 0+
    """

    def __init__(self, *,
        broker_id: int = 0, broker_epoch: int = -1, directories: list[DirectoryData] = UNSET,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.directories: list[DirectoryData] = [] if directories is UNSET else directories


class DirectoryData(Struct):
    __slots__ = ("id", "topics")
    SCHEMA = """
        id uuid 0+
        topics []TopicData 0+
    """

    def __init__(self, *, id: bytes = ZERO_UUID, topics: list[TopicData] = UNSET) -> None:
        self.id = id
        self.topics: list[TopicData] = [] if topics is UNSET else topics


class TopicData(Struct):
    __slots__ = ("topic_id", "partitions")
    SCHEMA = """
        topic_id uuid 0+
        partitions []PartitionData 0+
    """

    def __init__(self, *, topic_id: bytes = ZERO_UUID, partitions: list[PartitionData] = UNSET) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionData] = [] if partitions is UNSET else partitions


class PartitionData(Struct):
    __slots__ = ("partition_index",)
    SCHEMA = """
        partition_index int32 0+
    """

    def __init__(self, *, partition_index: int = 0) -> None:
        self.partition_index = partition_index
