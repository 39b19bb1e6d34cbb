"""GroupMetadataKey, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class GroupMetadataKey(Message):
    API_KEY = 2
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 32767
    READERS = {}
    WRITERS = {}
    __slots__ = ("group",)
    SCHEMA = """
        group string 0
    """

    def __init__(self, *, group: str = "") -> None:
        self.group = group
