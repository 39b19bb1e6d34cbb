"""ProduceResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class ProduceResponse(Message):
    API_KEY = 0
    MIN_VERSION = 3
    MAX_VERSION = 13
    MAX_STABLE_VERSION = 13
    FLEXIBLE_FROM = 9
    READERS = {}
    WRITERS = {}
    __slots__ = ("responses", "throttle_time_ms", "node_endpoints")
    SCHEMA = """
        responses []TopicProduceResponse 0+
        throttle_time_ms int32 1+ ignorable
        node_endpoints []NodeEndpoint 10+ tag:0:10+
    """

    def __init__(self, *,
        responses: list[TopicProduceResponse] = UNSET, throttle_time_ms: int = 0,
        node_endpoints: list[NodeEndpoint] = UNSET,
    ) -> None:
        self.responses: list[TopicProduceResponse] = [] if responses is UNSET else responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is UNSET else node_endpoints


class TopicProduceResponse(Struct):
    __slots__ = ("name", "topic_id", "partition_responses")
    SCHEMA = """
        name string 0-12 ignorable
        topic_id uuid 13+ ignorable
        partition_responses []PartitionProduceResponse 0+
    """

    def __init__(self, *,
        name: str = "", topic_id: bytes = ZERO_UUID,
        partition_responses: list[PartitionProduceResponse] = UNSET,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_responses: list[PartitionProduceResponse] = [] if partition_responses is UNSET else partition_responses


class PartitionProduceResponse(Struct):
    __slots__ = (
        "index", "error_code", "base_offset", "log_append_time_ms", "log_start_offset", "record_errors",
        "error_message", "current_leader",
    )
    SCHEMA = """
        index int32 0+
        error_code int16 0+
        base_offset int64 0+
        log_append_time_ms int64 2+ default:-1 ignorable
        log_start_offset int64 5+ default:-1 ignorable
        record_errors []BatchIndexAndErrorMessage 8+ ignorable
        error_message string 8+ null:8+ default:null ignorable
        current_leader LeaderIdAndEpoch 10+ tag:0:10+
    """

    def __init__(self, *,
        index: int = 0, error_code: int = 0, base_offset: int = 0, log_append_time_ms: int = -1,
        log_start_offset: int = -1, record_errors: list[BatchIndexAndErrorMessage] = UNSET,
        error_message: str | None = None, current_leader: LeaderIdAndEpoch = UNSET,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors: list[BatchIndexAndErrorMessage] = [] if record_errors is UNSET else record_errors
        self.error_message = error_message
        self.current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch() if current_leader is UNSET else current_leader


class BatchIndexAndErrorMessage(Struct):
    __slots__ = ("batch_index", "batch_index_error_message")
    SCHEMA = """
        batch_index int32 8+
        batch_index_error_message string 8+ null:8+ default:null
    """

    def __init__(self, *, batch_index: int = 0, batch_index_error_message: str | None = None) -> None:
        self.batch_index = batch_index
        self.batch_index_error_message = batch_index_error_message


class LeaderIdAndEpoch(Struct):
    __slots__ = ("leader_id", "leader_epoch")
    SCHEMA = """
        leader_id int32 10+ default:-1
        leader_epoch int32 10+ default:-1
    """

    def __init__(self, *, leader_id: int = -1, leader_epoch: int = -1) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class NodeEndpoint(Struct):
    __slots__ = ("node_id", "host", "port", "rack")
    SCHEMA = """
        node_id int32 10+
        host string 10+
        port int32 10+
        rack string 10+ null:10+ default:null
    """

    def __init__(self, *, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack
