"""ListOffsetsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class ListOffsetsResponse(Message):
    API_KEY = 2
    MIN_VERSION = 1
    MAX_VERSION = 11
    MAX_STABLE_VERSION = 11
    FLEXIBLE_FROM = 6
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "topics")
    SCHEMA = """
        throttle_time_ms int32 2+ ignorable
        topics []ListOffsetsTopicResponse 0+
    """

    def __init__(self, *, throttle_time_ms: int = 0, topics: list[ListOffsetsTopicResponse] = UNSET) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[ListOffsetsTopicResponse] = [] if topics is UNSET else topics


class ListOffsetsTopicResponse(Struct):
    __slots__ = ("name", "partitions")
    SCHEMA = """
        name string 0+
        partitions []ListOffsetsPartitionResponse 0+
    """

    def __init__(self, *, name: str = "", partitions: list[ListOffsetsPartitionResponse] = UNSET) -> None:
        self.name = name
        self.partitions: list[ListOffsetsPartitionResponse] = [] if partitions is UNSET else partitions


class ListOffsetsPartitionResponse(Struct):
    __slots__ = ("partition_index", "error_code", "timestamp", "offset", "leader_epoch")
    SCHEMA = """
        partition_index int32 0+
        error_code int16 0+
        timestamp int64 1+ default:-1
        offset int64 1+ default:-1
        leader_epoch int32 4+ default:-1
    """

    def __init__(self, *,
        partition_index: int = 0, error_code: int = 0, timestamp: int = -1, offset: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.timestamp = timestamp
        self.offset = offset
        self.leader_epoch = leader_epoch
