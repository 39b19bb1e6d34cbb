"""AlterPartitionRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class AlterPartitionRequest(Message):
    API_KEY = 56
    MIN_VERSION = 2
    MAX_VERSION = 3
    MAX_STABLE_VERSION = 3
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("broker_id", "broker_epoch", "topics")
    SCHEMA = """
        broker_id int32 0+
        broker_epoch int64 0+ default:-1
        topics []TopicData 0+
    """

    def __init__(self, *,
        broker_id: int = 0, broker_epoch: int = -1, topics: list[TopicData] = UNSET,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
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
        "partition_index", "leader_epoch", "new_isr", "new_isr_with_epochs", "leader_recovery_state",
        "partition_epoch",
    )
    SCHEMA = """
        partition_index int32 0+
        leader_epoch int32 0+
        new_isr []int32 0-2
        new_isr_with_epochs []BrokerState 3+
        leader_recovery_state int8 1+
        partition_epoch int32 0+
    """

    def __init__(self, *,
        partition_index: int = 0, leader_epoch: int = 0, new_isr: list[int] = UNSET,
        new_isr_with_epochs: list[BrokerState] = UNSET, leader_recovery_state: int = 0,
        partition_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.leader_epoch = leader_epoch
        self.new_isr: list[int] = [] if new_isr is UNSET else new_isr
        self.new_isr_with_epochs: list[BrokerState] = [] if new_isr_with_epochs is UNSET else new_isr_with_epochs
        self.leader_recovery_state = leader_recovery_state
        self.partition_epoch = partition_epoch


class BrokerState(Struct):
    __slots__ = ("broker_id", "broker_epoch")
    SCHEMA = """
        broker_id int32 3+
        broker_epoch int64 3+ default:-1
    """

    def __init__(self, *, broker_id: int = 0, broker_epoch: int = -1) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
