"""DeleteGroupsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, UNSET


class DeleteGroupsRequest(Message):
    API_KEY = 42
    MIN_VERSION = 0
    MAX_VERSION = 3
    MAX_STABLE_VERSION = 3
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("groups_names",)
    SCHEMA = """
        groups_names []string 0+
    """

    def __init__(self, *, groups_names: list[str] = UNSET) -> None:
        self.groups_names: list[str] = [] if groups_names is UNSET else groups_names
