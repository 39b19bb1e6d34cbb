"""AlterPartitionReassignmentsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class AlterPartitionReassignmentsRequest(Message):
    API_KEY = 45
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("timeout_ms", "allow_replication_factor_change", "topics")
    SCHEMA = """
        timeout_ms int32 0+ default:60000
        allow_replication_factor_change bool 1+ default:true
        topics []ReassignableTopic 0+
    """

    def __init__(self, *,
        timeout_ms: int = 60000, allow_replication_factor_change: bool = True,
        topics: list[ReassignableTopic] = UNSET,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.topics: list[ReassignableTopic] = [] if topics is UNSET else topics


class ReassignableTopic(Struct):
    __slots__ = ("name", "partitions")
    SCHEMA = """
        name string 0+
        partitions []ReassignablePartition 0+
    """

    def __init__(self, *, name: str = "", partitions: list[ReassignablePartition] = UNSET) -> None:
        self.name = name
        self.partitions: list[ReassignablePartition] = [] if partitions is UNSET else partitions


class ReassignablePartition(Struct):
    __slots__ = ("partition_index", "replicas")
    SCHEMA = """
        partition_index int32 0+
        replicas []int32 0+ null:0+ default:null
    """

    def __init__(self, *, partition_index: int = 0, replicas: list[int] | None = None) -> None:
        self.partition_index = partition_index
        self.replicas = replicas
