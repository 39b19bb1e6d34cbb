"""AlterShareGroupOffsetsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class AlterShareGroupOffsetsRequest(Message):
    API_KEY = 91
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("group_id", "topics")
    SCHEMA = """
        group_id string 0+
        topics []AlterShareGroupOffsetsRequestTopic 0+
    """

    def __init__(self, *,
        group_id: str = "", topics: list[AlterShareGroupOffsetsRequestTopic] = UNSET,
    ) -> None:
        self.group_id = group_id
        self.topics: list[AlterShareGroupOffsetsRequestTopic] = [] if topics is UNSET else topics


class AlterShareGroupOffsetsRequestTopic(Struct):
    __slots__ = ("topic_name", "partitions")
    SCHEMA = """
        topic_name string 0+
        partitions []AlterShareGroupOffsetsRequestPartition 0+
    """

    def __init__(self, *,
        topic_name: str = "", partitions: list[AlterShareGroupOffsetsRequestPartition] = UNSET,
    ) -> None:
        self.topic_name = topic_name
        self.partitions: list[AlterShareGroupOffsetsRequestPartition] = [] if partitions is UNSET else partitions


class AlterShareGroupOffsetsRequestPartition(Struct):
    __slots__ = ("partition_index", "start_offset")
    SCHEMA = """
        partition_index int32 0+
        start_offset int64 0+
    """

    def __init__(self, *, partition_index: int = 0, start_offset: int = 0) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset
