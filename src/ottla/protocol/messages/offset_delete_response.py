"""OffsetDeleteResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class OffsetDeleteResponse(Message):
    API_KEY = 47
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 32767
    READERS = {}
    WRITERS = {}
    __slots__ = ("error_code", "throttle_time_ms", "topics")
    SCHEMA = """
        error_code int16 0+
        throttle_time_ms int32 0+ ignorable
        topics []OffsetDeleteResponseTopic 0+
    """

    def __init__(self, *,
        error_code: int = 0, throttle_time_ms: int = 0, topics: list[OffsetDeleteResponseTopic] = UNSET,
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[OffsetDeleteResponseTopic] = [] if topics is UNSET else topics


class OffsetDeleteResponseTopic(Struct):
    __slots__ = ("name", "partitions")
    SCHEMA = """
        name string 0+
        partitions []OffsetDeleteResponsePartition 0+
    """

    def __init__(self, *, name: str = "", partitions: list[OffsetDeleteResponsePartition] = UNSET) -> None:
        self.name = name
        self.partitions: list[OffsetDeleteResponsePartition] = [] if partitions is UNSET else partitions


class OffsetDeleteResponsePartition(Struct):
    __slots__ = ("partition_index", "error_code")
    SCHEMA = """
        partition_index int32 0+
        error_code int16 0+
    """

    def __init__(self, *, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
