"""InitializeShareGroupStateResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class InitializeShareGroupStateResponse(Message):
    API_KEY = 83
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("results",)
    SCHEMA = """
        results []InitializeStateResult 0+
    """

    def __init__(self, *, results: list[InitializeStateResult] = UNSET) -> None:
        self.results: list[InitializeStateResult] = [] if results is UNSET else results


class InitializeStateResult(Struct):
    __slots__ = ("topic_id", "partitions")
    SCHEMA = """
        topic_id uuid 0+
        partitions []PartitionResult 0+
    """

    def __init__(self, *, topic_id: bytes = ZERO_UUID, partitions: list[PartitionResult] = UNSET) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionResult] = [] if partitions is UNSET else partitions


class PartitionResult(Struct):
    __slots__ = ("partition", "error_code", "error_message")
    SCHEMA = """
        partition int32 0+
        error_code int16 0+
        error_message string 0+ null:0+ default:null
    """

    def __init__(self, *, partition: int = 0, error_code: int = 0, error_message: str | None = None) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
