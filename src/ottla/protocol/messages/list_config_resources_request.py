"""ListConfigResourcesRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, UNSET


class ListConfigResourcesRequest(Message):
    API_KEY = 74
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("resource_types",)
    SCHEMA = """
        resource_types []int8 1+
    """

    def __init__(self, *, resource_types: list[int] = UNSET) -> None:
        self.resource_types: list[int] = [] if resource_types is UNSET else resource_types
