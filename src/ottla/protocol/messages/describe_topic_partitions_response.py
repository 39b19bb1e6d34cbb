"""DescribeTopicPartitionsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class DescribeTopicPartitionsResponse(Message):
    API_KEY = 75
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "topics", "next_cursor")
    SCHEMA = """
        throttle_time_ms int32 0+ ignorable
        topics []DescribeTopicPartitionsResponseTopic 0+
        next_cursor Cursor 0+ null:0+ default:null
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, topics: list[DescribeTopicPartitionsResponseTopic] = UNSET,
        next_cursor: Cursor | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[DescribeTopicPartitionsResponseTopic] = [] if topics is UNSET else topics
        self.next_cursor = next_cursor


class DescribeTopicPartitionsResponseTopic(Struct):
    __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")
    SCHEMA = """
        error_code int16 0+
        name string 0+ null:0+
        topic_id uuid 0+ ignorable
        is_internal bool 0+ ignorable
        partitions []DescribeTopicPartitionsResponsePartition 0+
        topic_authorized_operations int32 0+ default:-2147483648
    """

    def __init__(self, *,
        error_code: int = 0, name: str | None = "", topic_id: bytes = ZERO_UUID, is_internal: bool = False,
        partitions: list[DescribeTopicPartitionsResponsePartition] = UNSET,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions: list[DescribeTopicPartitionsResponsePartition] = [] if partitions is UNSET else partitions
        self.topic_authorized_operations = topic_authorized_operations


class DescribeTopicPartitionsResponsePartition(Struct):
    __slots__ = (
        "error_code", "partition_index", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes",
        "eligible_leader_replicas", "last_known_elr", "offline_replicas",
    )
    SCHEMA = """
        error_code int16 0+
        partition_index int32 0+
        leader_id int32 0+
        leader_epoch int32 0+ default:-1 ignorable
        replica_nodes []int32 0+
        isr_nodes []int32 0+
        eligible_leader_replicas []int32 0+ null:0+ default:null
        last_known_elr []int32 0+ null:0+ default:null
        offline_replicas []int32 0+ ignorable
    """

    def __init__(self, *,
        error_code: int = 0, partition_index: int = 0, leader_id: int = 0, leader_epoch: int = -1,
        replica_nodes: list[int] = UNSET, isr_nodes: list[int] = UNSET,
        eligible_leader_replicas: list[int] | None = None, last_known_elr: list[int] | None = None,
        offline_replicas: list[int] = UNSET,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes: list[int] = [] if replica_nodes is UNSET else replica_nodes
        self.isr_nodes: list[int] = [] if isr_nodes is UNSET else isr_nodes
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr
        self.offline_replicas: list[int] = [] if offline_replicas is UNSET else offline_replicas


class Cursor(Struct):
    __slots__ = ("topic_name", "partition_index")
    SCHEMA = """
        topic_name string 0+
        partition_index int32 0+
    """

    def __init__(self, *, topic_name: str = "", partition_index: int = 0) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index
