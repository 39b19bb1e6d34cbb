"""DescribeQuorumRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DescribeQuorumRequest(Message):
    API_KEY = 55
    MIN_VERSION = 0
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("topics",)
    SCHEMA = """
        topics []TopicData 0+
    """

    def __init__(self, *, topics: list[TopicData] = UNSET) -> None:
        self.topics: list[TopicData] = [] if topics is UNSET else topics


class TopicData(Struct):
    __slots__ = ("topic_name", "partitions")
    SCHEMA = """
        topic_name string 0+
        partitions []PartitionData 0+
    """

    def __init__(self, *, topic_name: str = "", partitions: list[PartitionData] = UNSET) -> None:
        self.topic_name = topic_name
        self.partitions: list[PartitionData] = [] if partitions is UNSET else partitions


class PartitionData(Struct):
    __slots__ = ("partition_index",)
    SCHEMA = """
        partition_index int32 0+
    """

    def __init__(self, *, partition_index: int = 0) -> None:
        self.partition_index = partition_index
