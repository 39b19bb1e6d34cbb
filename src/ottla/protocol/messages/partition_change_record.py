"""PartitionChangeRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, ZERO_UUID


class PartitionChangeRecord(Message):
    API_KEY = 5
    MIN_VERSION = 0
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "partition_id", "topic_id", "isr", "leader", "replicas", "removing_replicas", "adding_replicas",
        "leader_recovery_state", "directories", "eligible_leader_replicas", "last_known_elr",
    )
    SCHEMA = """
        partition_id int32 0+ default:-1
        topic_id uuid 0+
        isr []int32 0+ null:0+ tag:0:0+ default:null
        leader int32 0+ tag:1:0+ default:-2
        replicas []int32 0+ null:0+ tag:2:0+ default:null
        removing_replicas []int32 0+ null:0+ tag:3:0+ default:null
        adding_replicas []int32 0+ null:0+ tag:4:0+ default:null
        leader_recovery_state int8 0+ tag:5:0+ default:-1
        directories []uuid 1+ null:1+ tag:8:1+ default:null
        eligible_leader_replicas []int32 2+ null:2+ tag:6:2+ default:null
        last_known_elr []int32 2+ null:2+ tag:7:2+ default:null
    """

    def __init__(self, *,
        partition_id: int = -1, topic_id: bytes = ZERO_UUID, isr: list[int] | None = None, leader: int = -2,
        replicas: list[int] | None = None, removing_replicas: list[int] | None = None,
        adding_replicas: list[int] | None = None, leader_recovery_state: int = -1,
        directories: list[bytes] | None = None, eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
    ) -> None:
        self.partition_id = partition_id
        self.topic_id = topic_id
        self.isr = isr
        self.leader = leader
        self.replicas = replicas
        self.removing_replicas = removing_replicas
        self.adding_replicas = adding_replicas
        self.leader_recovery_state = leader_recovery_state
        self.directories = directories
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr
