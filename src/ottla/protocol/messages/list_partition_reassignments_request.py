"""ListPartitionReassignmentsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class ListPartitionReassignmentsRequest(Message):
    API_KEY = 46
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("timeout_ms", "topics")
    SCHEMA = """
        timeout_ms int32 0+ default:60000
        topics []ListPartitionReassignmentsTopics 0+ null:0+ default:null
    """

    def __init__(self, *,
        timeout_ms: int = 60000, topics: list[ListPartitionReassignmentsTopics] | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.topics = topics


class ListPartitionReassignmentsTopics(Struct):
    __slots__ = ("name", "partition_indexes")
    SCHEMA = """
        name string 0+
        partition_indexes []int32 0+
    """

    def __init__(self, *, name: str = "", partition_indexes: list[int] = UNSET) -> None:
        self.name = name
        self.partition_indexes: list[int] = [] if partition_indexes is UNSET else partition_indexes
