"""DescribeShareGroupOffsetsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DescribeShareGroupOffsetsRequest(Message):
    API_KEY = 90
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("groups",)
    SCHEMA = """
        groups []DescribeShareGroupOffsetsRequestGroup 0+
    """

    def __init__(self, *, groups: list[DescribeShareGroupOffsetsRequestGroup] = UNSET) -> None:
        self.groups: list[DescribeShareGroupOffsetsRequestGroup] = [] if groups is UNSET else groups


class DescribeShareGroupOffsetsRequestGroup(Struct):
    __slots__ = ("group_id", "topics")
    SCHEMA = """
        group_id string 0+
        topics []DescribeShareGroupOffsetsRequestTopic 0+ null:0+
    """

    def __init__(self, *,
        group_id: str = "", topics: list[DescribeShareGroupOffsetsRequestTopic] | None = UNSET,
    ) -> None:
        self.group_id = group_id
        self.topics: list[DescribeShareGroupOffsetsRequestTopic] | None = [] if topics is UNSET else topics


class DescribeShareGroupOffsetsRequestTopic(Struct):
    __slots__ = ("topic_name", "partitions")
    SCHEMA = """
        topic_name string 0+
        partitions []int32 0+
    """

    def __init__(self, *, topic_name: str = "", partitions: list[int] = UNSET) -> None:
        self.topic_name = topic_name
        self.partitions: list[int] = [] if partitions is UNSET else partitions
