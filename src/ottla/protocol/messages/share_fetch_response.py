"""ShareFetchResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Records, Struct, UNSET, ZERO_UUID


class ShareFetchResponse(Message):
    API_KEY = 78
    MIN_VERSION = 1
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "throttle_time_ms", "error_code", "error_message", "acquisition_lock_timeout_ms", "responses",
        "node_endpoints",
    )
    SCHEMA = """
        throttle_time_ms int32 0+
        error_code int16 0+
        error_message string 0+ null:0+ default:null
        acquisition_lock_timeout_ms int32 1+
        responses []ShareFetchableTopicResponse 0+
        node_endpoints []NodeEndpoint 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = None,
        acquisition_lock_timeout_ms: int = 0, responses: list[ShareFetchableTopicResponse] = UNSET,
        node_endpoints: list[NodeEndpoint] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.acquisition_lock_timeout_ms = acquisition_lock_timeout_ms
        self.responses: list[ShareFetchableTopicResponse] = [] if responses is UNSET else responses
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is UNSET else node_endpoints


class ShareFetchableTopicResponse(Struct):
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
        "partition_index", "error_code", "error_message", "acknowledge_error_code",
        "acknowledge_error_message", "current_leader", "records", "acquired_records",
    )
    SCHEMA = """
        partition_index int32 0+
        error_code int16 0+
        error_message string 0+ null:0+ default:null
        acknowledge_error_code int16 0+
        acknowledge_error_message string 0+ null:0+ default:null
        current_leader LeaderIdAndEpoch 0+
        records records 0+ null:0
        acquired_records []AcquiredRecords 0+
    """

    def __init__(self, *,
        partition_index: int = 0, error_code: int = 0, error_message: str | None = None,
        acknowledge_error_code: int = 0, acknowledge_error_message: str | None = None,
        current_leader: LeaderIdAndEpoch = UNSET, records: Records = None,
        acquired_records: list[AcquiredRecords] = UNSET,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.acknowledge_error_code = acknowledge_error_code
        self.acknowledge_error_message = acknowledge_error_message
        self.current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch() if current_leader is UNSET else current_leader
        self.records = records
        self.acquired_records: list[AcquiredRecords] = [] if acquired_records is UNSET else acquired_records


class LeaderIdAndEpoch(Struct):
    __slots__ = ("leader_id", "leader_epoch")
    SCHEMA = """
        leader_id int32 0+
        leader_epoch int32 0+
    """

    def __init__(self, *, leader_id: int = 0, leader_epoch: int = 0) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class AcquiredRecords(Struct):
    __slots__ = ("first_offset", "last_offset", "delivery_count")
    SCHEMA = """
        first_offset int64 0+
        last_offset int64 0+
        delivery_count int16 0+
    """

    def __init__(self, *, first_offset: int = 0, last_offset: int = 0, delivery_count: int = 0) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_count = delivery_count


class NodeEndpoint(Struct):
    __slots__ = ("node_id", "host", "port", "rack")
    SCHEMA = """
        node_id int32 0+
        host string 0+
        port int32 0+
        rack string 0+ null:0+ default:null
    """

    def __init__(self, *, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack
