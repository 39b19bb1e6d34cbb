"""CreatePartitionsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class CreatePartitionsRequest(Message):
    API_KEY = 37
    MIN_VERSION = 0
    MAX_VERSION = 3
    MAX_STABLE_VERSION = 3
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("topics", "timeout_ms", "validate_only")
    SCHEMA = """
        topics []CreatePartitionsTopic 0+
        timeout_ms int32 0+
        validate_only bool 0+
    """

    def __init__(self, *,
        topics: list[CreatePartitionsTopic] = UNSET, timeout_ms: int = 0, validate_only: bool = False,
    ) -> None:
        self.topics: list[CreatePartitionsTopic] = [] if topics is UNSET else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatePartitionsTopic(Struct):
    __slots__ = ("name", "count", "assignments")
    SCHEMA = """
        name string 0+
        count int32 0+
        assignments []CreatePartitionsAssignment 0+ null:0+
    """

    def __init__(self, *,
        name: str = "", count: int = 0, assignments: list[CreatePartitionsAssignment] | None = UNSET,
    ) -> None:
        self.name = name
        self.count = count
        self.assignments: list[CreatePartitionsAssignment] | None = [] if assignments is UNSET else assignments


class CreatePartitionsAssignment(Struct):
    __slots__ = ("broker_ids",)
    SCHEMA = """
        broker_ids []int32 0+
    """

    def __init__(self, *, broker_ids: list[int] = UNSET) -> None:
        self.broker_ids: list[int] = [] if broker_ids is UNSET else broker_ids
