"""DescribeLogDirsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DescribeLogDirsRequest(Message):
    API_KEY = 35
    MIN_VERSION = 1
    MAX_VERSION = 5
    MAX_STABLE_VERSION = 5
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("topics",)
    SCHEMA = """
        topics []DescribableLogDirTopic 0+ null:0+
    """

    def __init__(self, *, topics: list[DescribableLogDirTopic] | None = UNSET) -> None:
        self.topics: list[DescribableLogDirTopic] | None = [] if topics is UNSET else topics


class DescribableLogDirTopic(Struct):
    __slots__ = ("topic", "partitions")
    SCHEMA = """
        topic string 0+
        partitions []int32 0+
    """

    def __init__(self, *, topic: str = "", partitions: list[int] = UNSET) -> None:
        self.topic = topic
        self.partitions: list[int] = [] if partitions is UNSET else partitions
