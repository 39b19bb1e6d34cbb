"""StreamsGroupTargetAssignmentMetadataValue, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class StreamsGroupTargetAssignmentMetadataValue(Message):
    API_KEY = 20
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("assignment_epoch", "assignment_timestamp")
    SCHEMA = """
        assignment_epoch int32 0+
        assignment_timestamp int64 0+ tag:0:0+ ignorable
    """

    def __init__(self, *, assignment_epoch: int = 0, assignment_timestamp: int = 0) -> None:
        self.assignment_epoch = assignment_epoch
        self.assignment_timestamp = assignment_timestamp
