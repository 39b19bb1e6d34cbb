"""DescribeProducersResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DescribeProducersResponse(Message):
    API_KEY = 61
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "topics")
    SCHEMA = """
        throttle_time_ms int32 0+
        topics []TopicResponse 0+
    """

    def __init__(self, *, throttle_time_ms: int = 0, topics: list[TopicResponse] = UNSET) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[TopicResponse] = [] if topics is UNSET else topics


class TopicResponse(Struct):
    __slots__ = ("name", "partitions")
    SCHEMA = """
        name string 0+
        partitions []PartitionResponse 0+
    """

    def __init__(self, *, name: str = "", partitions: list[PartitionResponse] = UNSET) -> None:
        self.name = name
        self.partitions: list[PartitionResponse] = [] if partitions is UNSET else partitions


class PartitionResponse(Struct):
    __slots__ = ("partition_index", "error_code", "error_message", "active_producers")
    SCHEMA = """
        partition_index int32 0+
        error_code int16 0+
        error_message string 0+ null:0+ default:null
        active_producers []ProducerState 0+
    """

    def __init__(self, *,
        partition_index: int = 0, error_code: int = 0, error_message: str | None = None,
        active_producers: list[ProducerState] = UNSET,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.active_producers: list[ProducerState] = [] if active_producers is UNSET else active_producers


class ProducerState(Struct):
    __slots__ = (
        "producer_id", "producer_epoch", "last_sequence", "last_timestamp", "coordinator_epoch",
        "current_txn_start_offset",
    )
    SCHEMA = """
        producer_id int64 0+
        producer_epoch int32 0+
        last_sequence int32 0+ default:-1
        last_timestamp int64 0+ default:-1
        coordinator_epoch int32 0+
        current_txn_start_offset int64 0+ default:-1
    """

    def __init__(self, *,
        producer_id: int = 0, producer_epoch: int = 0, last_sequence: int = -1, last_timestamp: int = -1,
        coordinator_epoch: int = 0, current_txn_start_offset: int = -1,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.last_sequence = last_sequence
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_start_offset = current_txn_start_offset
