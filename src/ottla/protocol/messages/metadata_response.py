"""MetadataResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class MetadataResponse(Message):
    API_KEY = 3
    MIN_VERSION = 0
    MAX_VERSION = 13
    MAX_STABLE_VERSION = 13
    FLEXIBLE_FROM = 9
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "throttle_time_ms", "brokers", "cluster_id", "controller_id", "topics",
        "cluster_authorized_operations", "error_code",
    )
    SCHEMA = """
        throttle_time_ms int32 3+ ignorable
        brokers []MetadataResponseBroker 0+
        cluster_id string 2+ null:2+ default:null ignorable
        controller_id int32 1+ default:-1 ignorable
        topics []MetadataResponseTopic 0+
        cluster_authorized_operations int32 8-10 default:-2147483648
        error_code int16 13+ ignorable
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, brokers: list[MetadataResponseBroker] = UNSET,
        cluster_id: str | None = None, controller_id: int = -1, topics: list[MetadataResponseTopic] = UNSET,
        cluster_authorized_operations: int = -2147483648, error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.brokers: list[MetadataResponseBroker] = [] if brokers is UNSET else brokers
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topics: list[MetadataResponseTopic] = [] if topics is UNSET else topics
        self.cluster_authorized_operations = cluster_authorized_operations
        self.error_code = error_code


class MetadataResponseBroker(Struct):
    __slots__ = ("node_id", "host", "port", "rack")
    SCHEMA = """
        node_id int32 0+
        host string 0+
        port int32 0+
        rack string 1+ null:1+ default:null ignorable
    """

    def __init__(self, *, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class MetadataResponseTopic(Struct):
    __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")
    SCHEMA = """
        error_code int16 0+
        name string 0+ null:12+
        topic_id uuid 10+ ignorable
        is_internal bool 1+ ignorable
        partitions []MetadataResponsePartition 0+
        topic_authorized_operations int32 8+ default:-2147483648
    """

    def __init__(self, *,
        error_code: int = 0, name: str | None = "", topic_id: bytes = ZERO_UUID, is_internal: bool = False,
        partitions: list[MetadataResponsePartition] = UNSET, topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions: list[MetadataResponsePartition] = [] if partitions is UNSET else partitions
        self.topic_authorized_operations = topic_authorized_operations


class MetadataResponsePartition(Struct):
    __slots__ = (
        "error_code", "partition_index", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes",
        "offline_replicas",
    )
    SCHEMA = """
        error_code int16 0+
        partition_index int32 0+
        leader_id int32 0+
        leader_epoch int32 7+ default:-1 ignorable
        replica_nodes []int32 0+
        isr_nodes []int32 0+
        offline_replicas []int32 5+ ignorable
    """

    def __init__(self, *,
        error_code: int = 0, partition_index: int = 0, leader_id: int = 0, leader_epoch: int = -1,
        replica_nodes: list[int] = UNSET, isr_nodes: list[int] = UNSET, offline_replicas: list[int] = UNSET,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes: list[int] = [] if replica_nodes is UNSET else replica_nodes
        self.isr_nodes: list[int] = [] if isr_nodes is UNSET else isr_nodes
        self.offline_replicas: list[int] = [] if offline_replicas is UNSET else offline_replicas
