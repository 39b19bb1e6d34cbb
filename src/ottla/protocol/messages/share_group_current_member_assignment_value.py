"""ShareGroupCurrentMemberAssignmentValue, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class ShareGroupCurrentMemberAssignmentValue(Message):
    API_KEY = 14
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("member_epoch", "previous_member_epoch", "state", "assigned_partitions")
    SCHEMA = """
        member_epoch int32 0+
        previous_member_epoch int32 0+
        state int8 0+
        assigned_partitions []TopicPartitions 0+
    """

    def __init__(self, *,
        member_epoch: int = 0, previous_member_epoch: int = 0, state: int = 0,
        assigned_partitions: list[TopicPartitions] = UNSET,
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.assigned_partitions: list[TopicPartitions] = [] if assigned_partitions is UNSET else assigned_partitions


class TopicPartitions(Struct):
    __slots__ = ("topic_id", "partitions")
    SCHEMA = """
        topic_id uuid 0+
        partitions []int32 0+
    """

    def __init__(self, *, topic_id: bytes = ZERO_UUID, partitions: list[int] = UNSET) -> None:
        self.topic_id = topic_id
        self.partitions: list[int] = [] if partitions is UNSET else partitions
