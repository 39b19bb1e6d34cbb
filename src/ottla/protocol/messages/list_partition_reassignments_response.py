"""ListPartitionReassignmentsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class ListPartitionReassignmentsResponse(Message):
    API_KEY = 46
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "topics")
    SCHEMA = """
        throttle_time_ms int32 0+
        error_code int16 0+
        error_message string 0+ null:0+
        topics []OngoingTopicReassignment 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = "",
        topics: list[OngoingTopicReassignment] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.topics: list[OngoingTopicReassignment] = [] if topics is UNSET else topics


class OngoingTopicReassignment(Struct):
    __slots__ = ("name", "partitions")
    SCHEMA = """
        name string 0+
        partitions []OngoingPartitionReassignment 0+
    """

    def __init__(self, *, name: str = "", partitions: list[OngoingPartitionReassignment] = UNSET) -> None:
        self.name = name
        self.partitions: list[OngoingPartitionReassignment] = [] if partitions is UNSET else partitions


class OngoingPartitionReassignment(Struct):
    __slots__ = ("partition_index", "replicas", "adding_replicas", "removing_replicas")
    SCHEMA = """
        partition_index int32 0+
        replicas []int32 0+
        adding_replicas []int32 0+
        removing_replicas []int32 0+
    """

    def __init__(self, *,
        partition_index: int = 0, replicas: list[int] = UNSET, adding_replicas: list[int] = UNSET,
        removing_replicas: list[int] = UNSET,
    ) -> None:
        self.partition_index = partition_index
        self.replicas: list[int] = [] if replicas is UNSET else replicas
        self.adding_replicas: list[int] = [] if adding_replicas is UNSET else adding_replicas
        self.removing_replicas: list[int] = [] if removing_replicas is UNSET else removing_replicas
