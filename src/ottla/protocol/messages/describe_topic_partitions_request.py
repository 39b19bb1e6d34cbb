"""DescribeTopicPartitionsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DescribeTopicPartitionsRequest(Message):
    API_KEY = 75
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("topics", "response_partition_limit", "cursor")
    SCHEMA = """
        topics []TopicRequest 0+
        response_partition_limit int32 0+ default:2000
        cursor Cursor 0+ null:0+ default:null
    """

    def __init__(self, *,
        topics: list[TopicRequest] = UNSET, response_partition_limit: int = 2000,
        cursor: Cursor | None = None,
    ) -> None:
        self.topics: list[TopicRequest] = [] if topics is UNSET else topics
        self.response_partition_limit = response_partition_limit
        self.cursor = cursor


class TopicRequest(Struct):
    __slots__ = ("name",)
    SCHEMA = """
        name string 0+
    """

    def __init__(self, *, name: str = "") -> None:
        self.name = name


class Cursor(Struct):
    __slots__ = ("topic_name", "partition_index")
    SCHEMA = """
        topic_name string 0+
        partition_index int32 0+
    """

    def __init__(self, *, topic_name: str = "", partition_index: int = 0) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index
