"""DeleteRecordsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DeleteRecordsRequest(Message):
    API_KEY = 21
    MIN_VERSION = 0
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("topics", "timeout_ms")
    SCHEMA = """
        topics []DeleteRecordsTopic 0+
        timeout_ms int32 0+
    """

    def __init__(self, *, topics: list[DeleteRecordsTopic] = UNSET, timeout_ms: int = 0) -> None:
        self.topics: list[DeleteRecordsTopic] = [] if topics is UNSET else topics
        self.timeout_ms = timeout_ms


class DeleteRecordsTopic(Struct):
    __slots__ = ("name", "partitions")
    SCHEMA = """
        name string 0+
        partitions []DeleteRecordsPartition 0+
    """

    def __init__(self, *, name: str = "", partitions: list[DeleteRecordsPartition] = UNSET) -> None:
        self.name = name
        self.partitions: list[DeleteRecordsPartition] = [] if partitions is UNSET else partitions


class DeleteRecordsPartition(Struct):
    __slots__ = ("partition_index", "offset")
    SCHEMA = """
        partition_index int32 0+
        offset int64 0+
    """

    def __init__(self, *, partition_index: int = 0, offset: int = 0) -> None:
        self.partition_index = partition_index
        self.offset = offset
