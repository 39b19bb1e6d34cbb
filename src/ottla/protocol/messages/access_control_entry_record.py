"""AccessControlEntryRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, ZERO_UUID


class AccessControlEntryRecord(Message):
    API_KEY = 18
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "id", "resource_type", "resource_name", "pattern_type", "principal", "host", "operation",
        "permission_type",
    )
    SCHEMA = """
        id uuid 0+
        resource_type int8 0+
        resource_name string 0+
        pattern_type int8 0+
        principal string 0+
        host string 0+
        operation int8 0+
        permission_type int8 0+
    """

    def __init__(self, *,
        id: bytes = ZERO_UUID, resource_type: int = 0, resource_name: str = "", pattern_type: int = 0,
        principal: str = "", host: str = "", operation: int = 0, permission_type: int = 0,
    ) -> None:
        self.id = id
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type
