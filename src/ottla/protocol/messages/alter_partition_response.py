"""AlterPartitionResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class AlterPartitionResponse(Message):
    API_KEY = 56
    MIN_VERSION = 2
    MAX_VERSION = 3
    MAX_STABLE_VERSION = 3
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code", "topics")
    SCHEMA = """
        throttle_time_ms int32 0+
        error_code int16 0+
        topics []TopicData 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, topics: list[TopicData] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.topics: list[TopicData] = [] if topics is UNSET else topics


class TopicData(Struct):
    __slots__ = ("topic_id", "partitions")
    SCHEMA = """
        topic_id uuid 2+ ignorable
        partitions []PartitionData 0+
    """

    def __init__(self, *, topic_id: bytes = ZERO_UUID, partitions: list[PartitionData] = UNSET) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionData] = [] if partitions is UNSET else partitions


class PartitionData(Struct):
    __slots__ = (
        "partition_index", "error_code", "leader_id", "leader_epoch", "isr", "leader_recovery_state",
        "partition_epoch",
    )
    SCHEMA = """
        partition_index int32 0+
        error_code int16 0+
        leader_id int32 0+
        leader_epoch int32 0+
        isr []int32 0+
        leader_recovery_state int8 1+ ignorable
        partition_epoch int32 0+
    """

    def __init__(self, *,
        partition_index: int = 0, error_code: int = 0, leader_id: int = 0, leader_epoch: int = 0,
        isr: list[int] = UNSET, leader_recovery_state: int = 0, partition_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.isr: list[int] = [] if isr is UNSET else isr
        self.leader_recovery_state = leader_recovery_state
        self.partition_epoch = partition_epoch
