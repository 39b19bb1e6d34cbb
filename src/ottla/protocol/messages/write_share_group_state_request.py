"""WriteShareGroupStateRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class WriteShareGroupStateRequest(Message):
    API_KEY = 85
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("group_id", "topics")
    SCHEMA = """
        group_id string 0+
        topics []WriteStateData 0+
    """

    def __init__(self, *, group_id: str = "", topics: list[WriteStateData] = UNSET) -> None:
        self.group_id = group_id
        self.topics: list[WriteStateData] = [] if topics is UNSET else topics


class WriteStateData(Struct):
    __slots__ = ("topic_id", "partitions")
    SCHEMA = """
        topic_id uuid 0+
        partitions []PartitionData 0+
    """

    def __init__(self, *, topic_id: bytes = ZERO_UUID, partitions: list[PartitionData] = UNSET) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionData] = [] if partitions is UNSET else partitions


class PartitionData(Struct):
    __slots__ = (
        "partition", "state_epoch", "leader_epoch", "start_offset", "delivery_complete_count",
        "state_batches",
    )
    SCHEMA = """
        partition int32 0+
        state_epoch int32 0+
        leader_epoch int32 0+
        start_offset int64 0+
        delivery_complete_count int32 1+ default:-1 ignorable
        state_batches []StateBatch 0+
    """

    def __init__(self, *,
        partition: int = 0, state_epoch: int = 0, leader_epoch: int = 0, start_offset: int = 0,
        delivery_complete_count: int = -1, state_batches: list[StateBatch] = UNSET,
    ) -> None:
        self.partition = partition
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count
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
