"""OffsetDeleteRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class OffsetDeleteRequest(Message):
    API_KEY = 47
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 32767
    READERS = {}
    WRITERS = {}
    __slots__ = ("group_id", "topics")
    SCHEMA = """
        group_id string 0+
        topics []OffsetDeleteRequestTopic 0+
    """

    def __init__(self, *, group_id: str = "", topics: list[OffsetDeleteRequestTopic] = UNSET) -> None:
        self.group_id = group_id
        self.topics: list[OffsetDeleteRequestTopic] = [] if topics is UNSET else topics


class OffsetDeleteRequestTopic(Struct):
    __slots__ = ("name", "partitions")
    SCHEMA = """
        name string 0+
        partitions []OffsetDeleteRequestPartition 0+
    """

    def __init__(self, *, name: str = "", partitions: list[OffsetDeleteRequestPartition] = UNSET) -> None:
        self.name = name
        self.partitions: list[OffsetDeleteRequestPartition] = [] if partitions is UNSET else partitions


class OffsetDeleteRequestPartition(Struct):
    __slots__ = ("partition_index",)
    SCHEMA = """
        partition_index int32 0+
    """

    def __init__(self, *, partition_index: int = 0) -> None:
        self.partition_index = partition_index
