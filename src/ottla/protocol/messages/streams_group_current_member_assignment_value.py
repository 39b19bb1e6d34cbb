"""StreamsGroupCurrentMemberAssignmentValue, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class StreamsGroupCurrentMemberAssignmentValue(Message):
    API_KEY = 22
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "member_epoch", "previous_member_epoch", "state", "active_tasks", "standby_tasks", "warmup_tasks",
        "active_tasks_pending_revocation", "standby_tasks_pending_revocation",
        "warmup_tasks_pending_revocation",
    )
    SCHEMA = """
        member_epoch int32 0+
        previous_member_epoch int32 0+
        state int8 0+
        active_tasks []TaskIds 0+
        standby_tasks []TaskIds 0+
        warmup_tasks []TaskIds 0+
        active_tasks_pending_revocation []TaskIds 0+
        standby_tasks_pending_revocation []TaskIds 0+
        warmup_tasks_pending_revocation []TaskIds 0+
    """

    def __init__(self, *,
        member_epoch: int = 0, previous_member_epoch: int = 0, state: int = 0,
        active_tasks: list[TaskIds] = UNSET, standby_tasks: list[TaskIds] = UNSET,
        warmup_tasks: list[TaskIds] = UNSET, active_tasks_pending_revocation: list[TaskIds] = UNSET,
        standby_tasks_pending_revocation: list[TaskIds] = UNSET,
        warmup_tasks_pending_revocation: list[TaskIds] = UNSET,
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.active_tasks: list[TaskIds] = [] if active_tasks is UNSET else active_tasks
        self.standby_tasks: list[TaskIds] = [] if standby_tasks is UNSET else standby_tasks
        self.warmup_tasks: list[TaskIds] = [] if warmup_tasks is UNSET else warmup_tasks
        self.active_tasks_pending_revocation: list[TaskIds] = [] if active_tasks_pending_revocation is UNSET else active_tasks_pending_revocation
        self.standby_tasks_pending_revocation: list[TaskIds] = [] if standby_tasks_pending_revocation is UNSET else standby_tasks_pending_revocation
        self.warmup_tasks_pending_revocation: list[TaskIds] = [] if warmup_tasks_pending_revocation is UNSET else warmup_tasks_pending_revocation


class TaskIds(Struct):
    __slots__ = ("subtopology_id", "partitions", "assignment_epochs")
    SCHEMA = """
        subtopology_id string 0+
        partitions []int32 0+
        assignment_epochs []int32 0+ null:0+ tag:0:0+
    """

    def __init__(self, *,
        subtopology_id: str = "", partitions: list[int] = UNSET, assignment_epochs: list[int] | None = UNSET,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions: list[int] = [] if partitions is UNSET else partitions
        self.assignment_epochs: list[int] | None = [] if assignment_epochs is UNSET else assignment_epochs
