"""OffsetCommitResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class OffsetCommitResponse(Message):
    API_KEY = 8
    MIN_VERSION = 2
    MAX_VERSION = 10
    MAX_STABLE_VERSION = 10
    FLEXIBLE_FROM = 8
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "topics")
    SCHEMA = """
        throttle_time_ms int32 3+ ignorable
        topics []OffsetCommitResponseTopic 0+
    """

    def __init__(self, *, throttle_time_ms: int = 0, topics: list[OffsetCommitResponseTopic] = UNSET) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[OffsetCommitResponseTopic] = [] if topics is UNSET else topics


class OffsetCommitResponseTopic(Struct):
    __slots__ = ("name", "topic_id", "partitions")
    SCHEMA = """
        name string 0-9 ignorable
        topic_id uuid 10+ ignorable
        partitions []OffsetCommitResponsePartition 0+
    """

    def __init__(self, *,
        name: str = "", topic_id: bytes = ZERO_UUID, partitions: list[OffsetCommitResponsePartition] = UNSET,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[OffsetCommitResponsePartition] = [] if partitions is UNSET else partitions


class OffsetCommitResponsePartition(Struct):
    __slots__ = ("partition_index", "error_code")
    SCHEMA = """
        partition_index int32 0+
        error_code int16 0+
    """

    def __init__(self, *, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
