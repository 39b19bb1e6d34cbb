"""PartitionRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, UNSET, ZERO_UUID


class PartitionRecord(Message):
    API_KEY = 3
    MIN_VERSION = 0
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "partition_id", "topic_id", "replicas", "isr", "removing_replicas", "adding_replicas", "leader",
        "leader_recovery_state", "leader_epoch", "partition_epoch", "directories", "eligible_leader_replicas",
        "last_known_elr",
    )
    SCHEMA = """
        partition_id int32 0+ default:-1
        topic_id uuid 0+
        replicas []int32 0+
        isr []int32 0+
        removing_replicas []int32 0+
        adding_replicas []int32 0+
        leader int32 0+ default:-1
        leader_recovery_state int8 0+ tag:0:0+
        leader_epoch int32 0+ default:-1
        partition_epoch int32 0+ default:-1
        directories []uuid 1+
        eligible_leader_replicas []int32 2+ null:2+ tag:1:2+ default:null
        last_known_elr []int32 2+ null:2+ tag:2:2+ default:null
    """

    def __init__(self, *,
        partition_id: int = -1, topic_id: bytes = ZERO_UUID, replicas: list[int] = UNSET,
        isr: list[int] = UNSET, removing_replicas: list[int] = UNSET, adding_replicas: list[int] = UNSET,
        leader: int = -1, leader_recovery_state: int = 0, leader_epoch: int = -1, partition_epoch: int = -1,
        directories: list[bytes] = UNSET, eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
    ) -> None:
        self.partition_id = partition_id
        self.topic_id = topic_id
        self.replicas: list[int] = [] if replicas is UNSET else replicas
        self.isr: list[int] = [] if isr is UNSET else isr
        self.removing_replicas: list[int] = [] if removing_replicas is UNSET else removing_replicas
        self.adding_replicas: list[int] = [] if adding_replicas is UNSET else adding_replicas
        self.leader = leader
        self.leader_recovery_state = leader_recovery_state
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.directories: list[bytes] = [] if directories is UNSET else directories
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr
