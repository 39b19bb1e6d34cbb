"""ConsumerGroupHeartbeatRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class ConsumerGroupHeartbeatRequest(Message):
    API_KEY = 68
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "group_id", "member_id", "member_epoch", "instance_id", "rack_id", "rebalance_timeout_ms",
        "subscribed_topic_names", "subscribed_topic_regex", "server_assignor", "topic_partitions",
    )
    SCHEMA = """
        group_id string 0+
        member_id string 0+
        member_epoch int32 0+
        instance_id string 0+ null:0+ default:null
        rack_id string 0+ null:0+ default:null
        rebalance_timeout_ms int32 0+ default:-1
        subscribed_topic_names []string 0+ null:0+ default:null
        subscribed_topic_regex string 1+ null:1+ default:null
        server_assignor string 0+ null:0+ default:null
        topic_partitions []TopicPartitions 0+ null:0+ default:null
    """

    def __init__(self, *,
        group_id: str = "", member_id: str = "", member_epoch: int = 0, instance_id: str | None = None,
        rack_id: str | None = None, rebalance_timeout_ms: int = -1,
        subscribed_topic_names: list[str] | None = None, subscribed_topic_regex: str | None = None,
        server_assignor: str | None = None, topic_partitions: list[TopicPartitions] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.subscribed_topic_names = subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.server_assignor = server_assignor
        self.topic_partitions = topic_partitions


class TopicPartitions(Struct):
    __slots__ = ("topic_id", "partitions")
    SCHEMA = """
        topic_id uuid 0+
        partitions []int32 0+
    """

    def __init__(self, *, topic_id: bytes = ZERO_UUID, partitions: list[int] = UNSET) -> None:
        self.topic_id = topic_id
        self.partitions: list[int] = [] if partitions is UNSET else partitions
