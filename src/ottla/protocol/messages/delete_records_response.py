"""DeleteRecordsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DeleteRecordsResponse(Message):
    API_KEY = 21
    MIN_VERSION = 0
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "topics")
    SCHEMA = """
        throttle_time_ms int32 0+
        topics []DeleteRecordsTopicResult 0+
    """

    def __init__(self, *, throttle_time_ms: int = 0, topics: list[DeleteRecordsTopicResult] = UNSET) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[DeleteRecordsTopicResult] = [] if topics is UNSET else topics


class DeleteRecordsTopicResult(Struct):
    __slots__ = ("name", "partitions")
    SCHEMA = """
        name string 0+
        partitions []DeleteRecordsPartitionResult 0+
    """

    def __init__(self, *, name: str = "", partitions: list[DeleteRecordsPartitionResult] = UNSET) -> None:
        self.name = name
        self.partitions: list[DeleteRecordsPartitionResult] = [] if partitions is UNSET else partitions


class DeleteRecordsPartitionResult(Struct):
    __slots__ = ("partition_index", "low_watermark", "error_code")
    SCHEMA = """
        partition_index int32 0+
        low_watermark int64 0+
        error_code int16 0+
    """

    def __init__(self, *, partition_index: int = 0, low_watermark: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.low_watermark = low_watermark
        self.error_code = error_code
