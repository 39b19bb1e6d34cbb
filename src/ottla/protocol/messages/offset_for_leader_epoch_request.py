"""OffsetForLeaderEpochRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class OffsetForLeaderEpochRequest(Message):
    API_KEY = 23
    MIN_VERSION = 2
    MAX_VERSION = 4
    MAX_STABLE_VERSION = 4
    FLEXIBLE_FROM = 4
    READERS = {}
    WRITERS = {}
    __slots__ = ("replica_id", "topics")
    SCHEMA = """
        replica_id int32 3+ default:-2 ignorable
        topics []OffsetForLeaderTopic 0+
    """

    def __init__(self, *, replica_id: int = -2, topics: list[OffsetForLeaderTopic] = UNSET) -> None:
        self.replica_id = replica_id
        self.topics: list[OffsetForLeaderTopic] = [] if topics is UNSET else topics


class OffsetForLeaderTopic(Struct):
    __slots__ = ("topic", "partitions")
    SCHEMA = """
        topic string 0+
        partitions []OffsetForLeaderPartition 0+
    """

    def __init__(self, *, topic: str = "", partitions: list[OffsetForLeaderPartition] = UNSET) -> None:
        self.topic = topic
        self.partitions: list[OffsetForLeaderPartition] = [] if partitions is UNSET else partitions


class OffsetForLeaderPartition(Struct):
    __slots__ = ("partition", "current_leader_epoch", "leader_epoch")
    SCHEMA = """
        partition int32 0+
        current_leader_epoch int32 2+ default:-1 ignorable
        leader_epoch int32 0+
    """

    def __init__(self, *, partition: int = 0, current_leader_epoch: int = -1, leader_epoch: int = 0) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.leader_epoch = leader_epoch
