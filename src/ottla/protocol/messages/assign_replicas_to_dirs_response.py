"""AssignReplicasToDirsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class AssignReplicasToDirsResponse(Message):
    API_KEY = 73
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code", "directories")
    SCHEMA = """
        throttle_time_ms int32 0+
        error_code int16 0+
        directories []DirectoryData 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, directories: list[DirectoryData] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
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
    __slots__ = ("partition_index", "error_code")
    SCHEMA = """
        partition_index int32 0+
        error_code int16 0+
    """

    def __init__(self, *, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
