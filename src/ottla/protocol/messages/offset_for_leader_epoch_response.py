"""OffsetForLeaderEpochResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class OffsetForLeaderEpochResponse(Message):
    API_KEY = 23
    MIN_VERSION = 2
    MAX_VERSION = 4
    MAX_STABLE_VERSION = 4
    FLEXIBLE_FROM = 4
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "topics")
    SCHEMA = """
        throttle_time_ms int32 2+ ignorable
        topics []OffsetForLeaderTopicResult 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, topics: list[OffsetForLeaderTopicResult] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[OffsetForLeaderTopicResult] = [] if topics is UNSET else topics


class OffsetForLeaderTopicResult(Struct):
    __slots__ = ("topic", "partitions")
    SCHEMA = """
        topic string 0+
        partitions []EpochEndOffset 0+
    """

    def __init__(self, *, topic: str = "", partitions: list[EpochEndOffset] = UNSET) -> None:
        self.topic = topic
        self.partitions: list[EpochEndOffset] = [] if partitions is UNSET else partitions


class EpochEndOffset(Struct):
    __slots__ = ("error_code", "partition", "leader_epoch", "end_offset")
    SCHEMA = """
        error_code int16 0+
        partition int32 0+
        leader_epoch int32 1+ default:-1 ignorable
        end_offset int64 0+ default:-1
    """

    def __init__(self, *,
        error_code: int = 0, partition: int = 0, leader_epoch: int = -1, end_offset: int = -1,
    ) -> None:
        self.error_code = error_code
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset
