"""ReadShareGroupStateSummaryRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class ReadShareGroupStateSummaryRequest(Message):
    API_KEY = 87
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("group_id", "topics")
    SCHEMA = """
        group_id string 0+
        topics []ReadStateSummaryData 0+
    """

    def __init__(self, *, group_id: str = "", topics: list[ReadStateSummaryData] = UNSET) -> None:
        self.group_id = group_id
        self.topics: list[ReadStateSummaryData] = [] if topics is UNSET else topics


class ReadStateSummaryData(Struct):
    __slots__ = ("topic_id", "partitions")
    SCHEMA = """
        topic_id uuid 0+
        partitions []PartitionData 0+
    """

    def __init__(self, *, topic_id: bytes = ZERO_UUID, partitions: list[PartitionData] = UNSET) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionData] = [] if partitions is UNSET else partitions


class PartitionData(Struct):
    __slots__ = ("partition", "leader_epoch")
    SCHEMA = """
        partition int32 0+
        leader_epoch int32 0+
    """

    def __init__(self, *, partition: int = 0, leader_epoch: int = 0) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
