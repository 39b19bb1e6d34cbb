"""CreateTopicsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class CreateTopicsRequest(Message):
    API_KEY = 19
    MIN_VERSION = 2
    MAX_VERSION = 7
    MAX_STABLE_VERSION = 7
    FLEXIBLE_FROM = 5
    READERS = {}
    WRITERS = {}
    __slots__ = ("topics", "timeout_ms", "validate_only")
    SCHEMA = """
        topics []CreatableTopic 0+
        timeout_ms int32 0+ default:60000
        validate_only bool 1+
    """

    def __init__(self, *,
        topics: list[CreatableTopic] = UNSET, timeout_ms: int = 60000, validate_only: bool = False,
    ) -> None:
        self.topics: list[CreatableTopic] = [] if topics is UNSET else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatableTopic(Struct):
    __slots__ = ("name", "num_partitions", "replication_factor", "assignments", "configs")
    SCHEMA = """
        name string 0+
        num_partitions int32 0+
        replication_factor int16 0+
        assignments []CreatableReplicaAssignment 0+
        configs []CreatableTopicConfig 0+
    """

    def __init__(self, *,
        name: str = "", num_partitions: int = 0, replication_factor: int = 0,
        assignments: list[CreatableReplicaAssignment] = UNSET, configs: list[CreatableTopicConfig] = UNSET,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.assignments: list[CreatableReplicaAssignment] = [] if assignments is UNSET else assignments
        self.configs: list[CreatableTopicConfig] = [] if configs is UNSET else configs


class CreatableReplicaAssignment(Struct):
    __slots__ = ("partition_index", "broker_ids")
    SCHEMA = """
        partition_index int32 0+
        broker_ids []int32 0+
    """

    def __init__(self, *, partition_index: int = 0, broker_ids: list[int] = UNSET) -> None:
        self.partition_index = partition_index
        self.broker_ids: list[int] = [] if broker_ids is UNSET else broker_ids


class CreatableTopicConfig(Struct):
    __slots__ = ("name", "value")
    SCHEMA = """
        name string 0+
        value string 0+ null:0+
    """

    def __init__(self, *, name: str = "", value: str | None = "") -> None:
        self.name = name
        self.value = value
