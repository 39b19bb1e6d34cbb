"""ListOffsetsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class ListOffsetsRequest(Message):
    API_KEY = 2
    MIN_VERSION = 1
    MAX_VERSION = 11
    MAX_STABLE_VERSION = 11
    FLEXIBLE_FROM = 6
    READERS = {}
    WRITERS = {}
    __slots__ = ("replica_id", "isolation_level", "topics", "timeout_ms")
    SCHEMA = """
        replica_id int32 0+
        isolation_level int8 2+
        topics []ListOffsetsTopic 0+
        timeout_ms int32 10+ ignorable
    """

    def __init__(self, *,
        replica_id: int = 0, isolation_level: int = 0, topics: list[ListOffsetsTopic] = UNSET,
        timeout_ms: int = 0,
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics: list[ListOffsetsTopic] = [] if topics is UNSET else topics
        self.timeout_ms = timeout_ms


class ListOffsetsTopic(Struct):
    __slots__ = ("name", "partitions")
    SCHEMA = """
        name string 0+
        partitions []ListOffsetsPartition 0+
    """

    def __init__(self, *, name: str = "", partitions: list[ListOffsetsPartition] = UNSET) -> None:
        self.name = name
        self.partitions: list[ListOffsetsPartition] = [] if partitions is UNSET else partitions


class ListOffsetsPartition(Struct):
    __slots__ = ("partition_index", "current_leader_epoch", "timestamp")
    SCHEMA = """
        partition_index int32 0+
        current_leader_epoch int32 4+ default:-1 ignorable
        timestamp int64 0+
    """

    def __init__(self, *,
        partition_index: int = 0, current_leader_epoch: int = -1, timestamp: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.current_leader_epoch = current_leader_epoch
        self.timestamp = timestamp
