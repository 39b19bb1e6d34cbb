"""BeginQuorumEpochResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class BeginQuorumEpochResponse(Message):
    API_KEY = 53
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 1
    READERS = {}
    WRITERS = {}
    __slots__ = ("error_code", "topics", "node_endpoints")
    SCHEMA = """
        error_code int16 0+
        topics []TopicData 0+
        node_endpoints []NodeEndpoint 1+ tag:0:1+
    """

    def __init__(self, *,
        error_code: int = 0, topics: list[TopicData] = UNSET, node_endpoints: list[NodeEndpoint] = UNSET,
    ) -> None:
        self.error_code = error_code
        self.topics: list[TopicData] = [] if topics is UNSET else topics
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is UNSET else node_endpoints


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
    __slots__ = ("partition_index", "error_code", "leader_id", "leader_epoch")
    SCHEMA = """
        partition_index int32 0+
        error_code int16 0+
        leader_id int32 0+
        leader_epoch int32 0+
    """

    def __init__(self, *,
        partition_index: int = 0, error_code: int = 0, leader_id: int = 0, leader_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class NodeEndpoint(Struct):
    __slots__ = ("node_id", "host", "port")
    SCHEMA = """
        node_id int32 1+
        host string 1+
        port uint16 1+
    """

    def __init__(self, *, node_id: int = 0, host: str = "", port: int = 0) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
