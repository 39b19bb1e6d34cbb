"""StreamsGroupTargetAssignmentMemberValue, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class StreamsGroupTargetAssignmentMemberValue(Message):
    API_KEY = 21
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("active_tasks", "standby_tasks", "warmup_tasks")
    SCHEMA = """
        active_tasks []TaskIds 0+
        standby_tasks []TaskIds 0+
        warmup_tasks []TaskIds 0+
    """

    def __init__(self, *,
        active_tasks: list[TaskIds] = UNSET, standby_tasks: list[TaskIds] = UNSET,
        warmup_tasks: list[TaskIds] = UNSET,
    ) -> None:
        self.active_tasks: list[TaskIds] = [] if active_tasks is UNSET else active_tasks
        self.standby_tasks: list[TaskIds] = [] if standby_tasks is UNSET else standby_tasks
        self.warmup_tasks: list[TaskIds] = [] if warmup_tasks is UNSET else warmup_tasks


class TaskIds(Struct):
    __slots__ = ("subtopology_id", "partitions")
    SCHEMA = """
        subtopology_id string 0+
        partitions []int32 0+
    """

    def __init__(self, *, subtopology_id: str = "", partitions: list[int] = UNSET) -> None:
        self.subtopology_id = subtopology_id
        self.partitions: list[int] = [] if partitions is UNSET else partitions
