"""StreamsGroupHeartbeatResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class StreamsGroupHeartbeatResponse(Message):
    API_KEY = 88
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "throttle_time_ms", "error_code", "error_message", "member_id", "member_epoch",
        "heartbeat_interval_ms", "acceptable_recovery_lag_legacy", "task_offset_interval_ms",
        "acceptable_recovery_lag", "status", "active_tasks", "standby_tasks", "warmup_tasks",
        "topology_description_required", "endpoint_information_epoch", "partitions_by_user_endpoint",
    )
    SCHEMA = """
        throttle_time_ms int32 0+
        error_code int16 0+
        error_message string 0+ null:0+ default:null
        member_id string 0+
        member_epoch int32 0+
        heartbeat_interval_ms int32 0+
        acceptable_recovery_lag_legacy int32 0
        task_offset_interval_ms int32 0+
        acceptable_recovery_lag int64 1+ default:-1 ignorable
        status []Status 0+ null:0+
        active_tasks []TaskIds 0+ null:0+ default:null
        standby_tasks []TaskIds 0+ null:0+ default:null
        warmup_tasks []TaskIds 0+ null:0+ default:null
        topology_description_required bool 1+
        endpoint_information_epoch int32 0+
        partitions_by_user_endpoint []EndpointToPartitions 0+ null:0+ default:null
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = None, member_id: str = "",
        member_epoch: int = 0, heartbeat_interval_ms: int = 0, acceptable_recovery_lag_legacy: int = 0,
        task_offset_interval_ms: int = 0, acceptable_recovery_lag: int = -1,
        status: list[Status] | None = UNSET, active_tasks: list[TaskIds] | None = None,
        standby_tasks: list[TaskIds] | None = None, warmup_tasks: list[TaskIds] | None = None,
        topology_description_required: bool = False, endpoint_information_epoch: int = 0,
        partitions_by_user_endpoint: list[EndpointToPartitions] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.acceptable_recovery_lag_legacy = acceptable_recovery_lag_legacy
        self.task_offset_interval_ms = task_offset_interval_ms
        self.acceptable_recovery_lag = acceptable_recovery_lag
        self.status: list[Status] | None = [] if status is UNSET else status
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks
        self.topology_description_required = topology_description_required
        self.endpoint_information_epoch = endpoint_information_epoch
        self.partitions_by_user_endpoint = partitions_by_user_endpoint


class Status(Struct):
    __slots__ = ("status_code", "status_detail")
    SCHEMA = """
        status_code int8 0+
        status_detail string 0+
    """

    def __init__(self, *, status_code: int = 0, status_detail: str = "") -> None:
        self.status_code = status_code
        self.status_detail = status_detail


class TaskIds(Struct):
    __slots__ = ("subtopology_id", "partitions")
    SCHEMA = """
        subtopology_id string 0+
        partitions []int32 0+
    """

    def __init__(self, *, subtopology_id: str = "", partitions: list[int] = UNSET) -> None:
        self.subtopology_id = subtopology_id
        self.partitions: list[int] = [] if partitions is UNSET else partitions


class EndpointToPartitions(Struct):
    __slots__ = ("user_endpoint", "active_partitions", "standby_partitions")
    SCHEMA = """
        user_endpoint Endpoint 0+
        active_partitions []TopicPartition 0+
        standby_partitions []TopicPartition 0+
    """

    def __init__(self, *,
        user_endpoint: Endpoint = UNSET, active_partitions: list[TopicPartition] = UNSET,
        standby_partitions: list[TopicPartition] = UNSET,
    ) -> None:
        self.user_endpoint: Endpoint = Endpoint() if user_endpoint is UNSET else user_endpoint
        self.active_partitions: list[TopicPartition] = [] if active_partitions is UNSET else active_partitions
        self.standby_partitions: list[TopicPartition] = [] if standby_partitions is UNSET else standby_partitions


class Endpoint(Struct):
    __slots__ = ("host", "port")
    SCHEMA = """
        host string 0+
        port uint16 0+
    """

    def __init__(self, *, host: str = "", port: int = 0) -> None:
        self.host = host
        self.port = port


class TopicPartition(Struct):
    __slots__ = ("topic", "partitions")
    SCHEMA = """
        topic string 0+
        partitions []int32 0+
    """

    def __init__(self, *, topic: str = "", partitions: list[int] = UNSET) -> None:
        self.topic = topic
        self.partitions: list[int] = [] if partitions is UNSET else partitions
