"""ReadShareGroupStateResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class ReadShareGroupStateResponse(Message):
    API_KEY = 84
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("results",)
    SCHEMA = """
        results []ReadStateResult 0+
    """

    def __init__(self, *, results: list[ReadStateResult] = UNSET) -> None:
        self.results: list[ReadStateResult] = [] if results is UNSET else results


class ReadStateResult(Struct):
    __slots__ = ("topic_id", "partitions")
    SCHEMA = """
        topic_id uuid 0+
        partitions []PartitionResult 0+
    """

    def __init__(self, *, topic_id: bytes = ZERO_UUID, partitions: list[PartitionResult] = UNSET) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionResult] = [] if partitions is UNSET else partitions


class PartitionResult(Struct):
    __slots__ = ("partition", "error_code", "error_message", "state_epoch", "start_offset", "state_batches")
    SCHEMA = """
        partition int32 0+
        error_code int16 0+
        error_message string 0+ null:0+ default:null
        state_epoch int32 0+
        start_offset int64 0+
        state_batches []StateBatch 0+
    """

    def __init__(self, *,
        partition: int = 0, error_code: int = 0, error_message: str | None = None, state_epoch: int = 0,
        start_offset: int = 0, state_batches: list[StateBatch] = UNSET,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.start_offset = start_offset
        self.state_batches: list[StateBatch] = [] if state_batches is UNSET else state_batches


class StateBatch(Struct):
    __slots__ = ("first_offset", "last_offset", "delivery_state", "delivery_count")
    SCHEMA = """
        first_offset int64 0+
        last_offset int64 0+
        delivery_state int8 0+
        delivery_count int16 0+
    """

    def __init__(self, *,
        first_offset: int = 0, last_offset: int = 0, delivery_state: int = 0, delivery_count: int = 0,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count
