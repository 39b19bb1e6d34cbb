"""ReadShareGroupStateSummaryResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class ReadShareGroupStateSummaryResponse(Message):
    API_KEY = 87
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("results",)
    SCHEMA = """
        results []ReadStateSummaryResult 0+
    """

    def __init__(self, *, results: list[ReadStateSummaryResult] = UNSET) -> None:
        self.results: list[ReadStateSummaryResult] = [] if results is UNSET else results


class ReadStateSummaryResult(Struct):
    __slots__ = ("topic_id", "partitions")
    SCHEMA = """
        topic_id uuid 0+
        partitions []PartitionResult 0+
    """

    def __init__(self, *, topic_id: bytes = ZERO_UUID, partitions: list[PartitionResult] = UNSET) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionResult] = [] if partitions is UNSET else partitions


class PartitionResult(Struct):
    __slots__ = (
        "partition", "error_code", "error_message", "state_epoch", "leader_epoch", "start_offset",
        "delivery_complete_count",
    )
    SCHEMA = """
        partition int32 0+
        error_code int16 0+
        error_message string 0+ null:0+ default:null
        state_epoch int32 0+
        leader_epoch int32 0+
        start_offset int64 0+
        delivery_complete_count int32 1+ default:-1 ignorable
    """

    def __init__(self, *,
        partition: int = 0, error_code: int = 0, error_message: str | None = None, state_epoch: int = 0,
        leader_epoch: int = 0, start_offset: int = 0, delivery_complete_count: int = -1,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count
