"""DescribeProducersRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DescribeProducersRequest(Message):
    API_KEY = 61
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("topics",)
    SCHEMA = """
        topics []TopicRequest 0+
    """

    def __init__(self, *, topics: list[TopicRequest] = UNSET) -> None:
        self.topics: list[TopicRequest] = [] if topics is UNSET else topics


class TopicRequest(Struct):
    __slots__ = ("name", "partition_indexes")
    SCHEMA = """
        name string 0+
        partition_indexes []int32 0+
    """

    def __init__(self, *, name: str = "", partition_indexes: list[int] = UNSET) -> None:
        self.name = name
        self.partition_indexes: list[int] = [] if partition_indexes is UNSET else partition_indexes
