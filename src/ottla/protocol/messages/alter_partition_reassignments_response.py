"""AlterPartitionReassignmentsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class AlterPartitionReassignmentsResponse(Message):
    API_KEY = 45
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "throttle_time_ms", "allow_replication_factor_change", "error_code", "error_message", "responses",
    )
    SCHEMA = """
        throttle_time_ms int32 0+
        allow_replication_factor_change bool 1+ default:true ignorable
        error_code int16 0+
        error_message string 0+ null:0+
        responses []ReassignableTopicResponse 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, allow_replication_factor_change: bool = True, error_code: int = 0,
        error_message: str | None = "", responses: list[ReassignableTopicResponse] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.error_code = error_code
        self.error_message = error_message
        self.responses: list[ReassignableTopicResponse] = [] if responses is UNSET else responses


class ReassignableTopicResponse(Struct):
    __slots__ = ("name", "partitions")
    SCHEMA = """
        name string 0+
        partitions []ReassignablePartitionResponse 0+
    """

    def __init__(self, *, name: str = "", partitions: list[ReassignablePartitionResponse] = UNSET) -> None:
        self.name = name
        self.partitions: list[ReassignablePartitionResponse] = [] if partitions is UNSET else partitions


class ReassignablePartitionResponse(Struct):
    __slots__ = ("partition_index", "error_code", "error_message")
    SCHEMA = """
        partition_index int32 0+
        error_code int16 0+
        error_message string 0+ null:0+
    """

    def __init__(self, *,
        partition_index: int = 0, error_code: int = 0, error_message: str | None = "",
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
