"""ConsumerGroupCurrentMemberAssignmentValue, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class ConsumerGroupCurrentMemberAssignmentValue(Message):
    API_KEY = 8
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "member_epoch", "previous_member_epoch", "state", "assigned_partitions",
        "partitions_pending_revocation",
    )
    SCHEMA = """
        member_epoch int32 0+
        previous_member_epoch int32 0+
        state int8 0+
        assigned_partitions []TopicPartitions 0+
        partitions_pending_revocation []TopicPartitions 0+
    """

    def __init__(self, *,
        member_epoch: int = 0, previous_member_epoch: int = 0, state: int = 0,
        assigned_partitions: list[TopicPartitions] = UNSET,
        partitions_pending_revocation: list[TopicPartitions] = UNSET,
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.assigned_partitions: list[TopicPartitions] = [] if assigned_partitions is UNSET else assigned_partitions
        self.partitions_pending_revocation: list[TopicPartitions] = [] if partitions_pending_revocation is UNSET else partitions_pending_revocation


class TopicPartitions(Struct):
    __slots__ = ("topic_id", "partitions", "assignment_epochs")
    SCHEMA = """
        topic_id uuid 0+
        partitions []int32 0+
        assignment_epochs []int32 0+ null:0+ tag:0:0+
    """

    def __init__(self, *,
        topic_id: bytes = ZERO_UUID, partitions: list[int] = UNSET,
        assignment_epochs: list[int] | None = UNSET,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[int] = [] if partitions is UNSET else partitions
        self.assignment_epochs: list[int] | None = [] if assignment_epochs is UNSET else assignment_epochs
