"""ConfigRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class ConfigRecord(Message):
    API_KEY = 4
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("resource_type", "resource_name", "name", "value")
    SCHEMA = """
        resource_type int8 0+
        resource_name string 0+
        name string 0+
        value string 0+ null:0+
    """

    def __init__(self, *,
        resource_type: int = 0, resource_name: str = "", name: str = "", value: str | None = "",
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.name = name
        self.value = value
