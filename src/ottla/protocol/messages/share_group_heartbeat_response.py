"""ShareGroupHeartbeatResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class ShareGroupHeartbeatResponse(Message):
    API_KEY = 76
    MIN_VERSION = 1
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "throttle_time_ms", "error_code", "error_message", "member_id", "member_epoch",
        "heartbeat_interval_ms", "assignment",
    )
    SCHEMA = """
        throttle_time_ms int32 0+
        error_code int16 0+
        error_message string 0+ null:0+ default:null
        member_id string 0+ null:0+ default:null
        member_epoch int32 0+
        heartbeat_interval_ms int32 0+
        assignment Assignment 0+ null:0+ default:null
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = None,
        member_id: str | None = None, member_epoch: int = 0, heartbeat_interval_ms: int = 0,
        assignment: Assignment | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment


class Assignment(Struct):
    __slots__ = ("topic_partitions",)
    SCHEMA = """
        topic_partitions []TopicPartitions 0+
    """

    def __init__(self, *, topic_partitions: list[TopicPartitions] = UNSET) -> None:
        self.topic_partitions: list[TopicPartitions] = [] if topic_partitions is UNSET else topic_partitions


class TopicPartitions(Struct):
    __slots__ = ("topic_id", "partitions")
    SCHEMA = """
        topic_id uuid 0+
        partitions []int32 0+
    """

    def __init__(self, *, topic_id: bytes = ZERO_UUID, partitions: list[int] = UNSET) -> None:
        self.topic_id = topic_id
        self.partitions: list[int] = [] if partitions is UNSET else partitions
