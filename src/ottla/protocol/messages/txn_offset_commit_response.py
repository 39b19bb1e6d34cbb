"""TxnOffsetCommitResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class TxnOffsetCommitResponse(Message):
    API_KEY = 28
    MIN_VERSION = 0
    MAX_VERSION = 6
    MAX_STABLE_VERSION = 6
    FLEXIBLE_FROM = 3
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "topics")
    SCHEMA = """
        throttle_time_ms int32 0+
        topics []TxnOffsetCommitResponseTopic 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, topics: list[TxnOffsetCommitResponseTopic] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[TxnOffsetCommitResponseTopic] = [] if topics is UNSET else topics


class TxnOffsetCommitResponseTopic(Struct):
    __slots__ = ("name", "topic_id", "partitions")
    SCHEMA = """
        name string 0-5 ignorable
        topic_id uuid 6+ ignorable
        partitions []TxnOffsetCommitResponsePartition 0+
    """

    def __init__(self, *,
        name: str = "", topic_id: bytes = ZERO_UUID,
        partitions: list[TxnOffsetCommitResponsePartition] = UNSET,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[TxnOffsetCommitResponsePartition] = [] if partitions is UNSET else partitions


class TxnOffsetCommitResponsePartition(Struct):
    __slots__ = ("partition_index", "error_code")
    SCHEMA = """
        partition_index int32 0+
        error_code int16 0+
    """

    def __init__(self, *, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
