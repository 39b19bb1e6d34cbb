"""DescribeQuorumResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class DescribeQuorumResponse(Message):
    API_KEY = 55
    MIN_VERSION = 0
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("error_code", "error_message", "topics", "nodes")
    SCHEMA = """
        error_code int16 0+
        error_message string 2+ null:2+ ignorable
        topics []TopicData 0+
        nodes []Node 2+
    """

    def __init__(self, *,
        error_code: int = 0, error_message: str | None = "", topics: list[TopicData] = UNSET,
        nodes: list[Node] = UNSET,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.topics: list[TopicData] = [] if topics is UNSET else topics
        self.nodes: list[Node] = [] if nodes is UNSET else nodes


class TopicData(Struct):
    __slots__ = ("topic_name", "partitions")
    SCHEMA = """
        topic_name string 0+
        partitions []PartitionData 0+
    """

    def __init__(self, *, topic_name: str = "", partitions: list[PartitionData] = UNSET) -> None:
        self.topic_name = topic_name
        self.partitions: list[PartitionData] = [] if partitions is UNSET else partitions


class PartitionData(Struct):
    __slots__ = (
        "partition_index", "error_code", "error_message", "leader_id", "leader_epoch", "high_watermark",
        "current_voters", "observers",
    )
    SCHEMA = """
        partition_index int32 0+
        error_code int16 0+
        error_message string 2+ null:2+ ignorable
        leader_id int32 0+
        leader_epoch int32 0+
        high_watermark int64 0+
        current_voters []ReplicaState 0+
        observers []ReplicaState 0+
    """

    def __init__(self, *,
        partition_index: int = 0, error_code: int = 0, error_message: str | None = "", leader_id: int = 0,
        leader_epoch: int = 0, high_watermark: int = 0, current_voters: list[ReplicaState] = UNSET,
        observers: list[ReplicaState] = UNSET,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self.current_voters: list[ReplicaState] = [] if current_voters is UNSET else current_voters
        self.observers: list[ReplicaState] = [] if observers is UNSET else observers


class ReplicaState(Struct):
    __slots__ = (
        "replica_id", "replica_directory_id", "log_end_offset", "last_fetch_timestamp",
        "last_caught_up_timestamp",
    )
    SCHEMA = """
        replica_id int32 0+
        replica_directory_id uuid 2+
        log_end_offset int64 0+
        last_fetch_timestamp int64 1+ default:-1 ignorable
        last_caught_up_timestamp int64 1+ default:-1 ignorable
    """

    def __init__(self, *,
        replica_id: int = 0, replica_directory_id: bytes = ZERO_UUID, log_end_offset: int = 0,
        last_fetch_timestamp: int = -1, last_caught_up_timestamp: int = -1,
    ) -> None:
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.log_end_offset = log_end_offset
        self.last_fetch_timestamp = last_fetch_timestamp
        self.last_caught_up_timestamp = last_caught_up_timestamp


class Node(Struct):
    __slots__ = ("node_id", "listeners")
    SCHEMA = """
        node_id int32 2+
        listeners []Listener 2+
    """

    def __init__(self, *, node_id: int = 0, listeners: list[Listener] = UNSET) -> None:
        self.node_id = node_id
        self.listeners: list[Listener] = [] if listeners is UNSET else listeners


class Listener(Struct):
    __slots__ = ("name", "host", "port")
    SCHEMA = """
        name string 2+
        host string 2+
        port uint16 2+
    """

    def __init__(self, *, name: str = "", host: str = "", port: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port
