"""StreamsGroupTargetAssignmentMetadataKey, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class StreamsGroupTargetAssignmentMetadataKey(Message):
    API_KEY = 20
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 32767
    READERS = {}
    WRITERS = {}
    __slots__ = ("group_id",)
    SCHEMA = """
        group_id string 0
    """

    def __init__(self, *, group_id: str = "") -> None:
        self.group_id = group_id
