"""AlterReplicaLogDirsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class AlterReplicaLogDirsResponse(Message):
    API_KEY = 34
    MIN_VERSION = 1
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "results")
    SCHEMA = """
        throttle_time_ms int32 0+
        results []AlterReplicaLogDirTopicResult 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, results: list[AlterReplicaLogDirTopicResult] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results: list[AlterReplicaLogDirTopicResult] = [] if results is UNSET else results


class AlterReplicaLogDirTopicResult(Struct):
    __slots__ = ("topic_name", "partitions")
    SCHEMA = """
        topic_name string 0+
        partitions []AlterReplicaLogDirPartitionResult 0+
    """

    def __init__(self, *,
        topic_name: str = "", partitions: list[AlterReplicaLogDirPartitionResult] = UNSET,
    ) -> None:
        self.topic_name = topic_name
        self.partitions: list[AlterReplicaLogDirPartitionResult] = [] if partitions is UNSET else partitions


class AlterReplicaLogDirPartitionResult(Struct):
    __slots__ = ("partition_index", "error_code")
    SCHEMA = """
        partition_index int32 0+
        error_code int16 0+
    """

    def __init__(self, *, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
