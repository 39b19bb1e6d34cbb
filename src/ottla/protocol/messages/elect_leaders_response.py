"""ElectLeadersResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class ElectLeadersResponse(Message):
    API_KEY = 43
    MIN_VERSION = 0
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code", "replica_election_results")
    SCHEMA = """
        throttle_time_ms int32 0+
        error_code int16 1+
        replica_election_results []ReplicaElectionResult 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0,
        replica_election_results: list[ReplicaElectionResult] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results: list[ReplicaElectionResult] = [] if replica_election_results is UNSET else replica_election_results


class ReplicaElectionResult(Struct):
    __slots__ = ("topic", "partition_result")
    SCHEMA = """
        topic string 0+
        partition_result []PartitionResult 0+
    """

    def __init__(self, *, topic: str = "", partition_result: list[PartitionResult] = UNSET) -> None:
        self.topic = topic
        self.partition_result: list[PartitionResult] = [] if partition_result is UNSET else partition_result


class PartitionResult(Struct):
    __slots__ = ("partition_id", "error_code", "error_message")
    SCHEMA = """
        partition_id int32 0+
        error_code int16 0+
        error_message string 0+ null:0+
    """

    def __init__(self, *, partition_id: int = 0, error_code: int = 0, error_message: str | None = "") -> None:
        self.partition_id = partition_id
        self.error_code = error_code
        self.error_message = error_message
