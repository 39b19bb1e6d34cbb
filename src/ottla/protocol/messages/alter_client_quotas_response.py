"""AlterClientQuotasResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class AlterClientQuotasResponse(Message):
    API_KEY = 49
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 1
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "entries")
    SCHEMA = """
        throttle_time_ms int32 0+
        entries []EntryData 0+
    """

    def __init__(self, *, throttle_time_ms: int = 0, entries: list[EntryData] = UNSET) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries: list[EntryData] = [] if entries is UNSET else entries


class EntryData(Struct):
    __slots__ = ("error_code", "error_message", "entity")
    SCHEMA = """
        error_code int16 0+
        error_message string 0+ null:0+
        entity []EntityData 0+
    """

    def __init__(self, *,
        error_code: int = 0, error_message: str | None = "", entity: list[EntityData] = UNSET,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity: list[EntityData] = [] if entity is UNSET else entity


class EntityData(Struct):
    __slots__ = ("entity_type", "entity_name")
    SCHEMA = """
        entity_type string 0+
        entity_name string 0+ null:0+
    """

    def __init__(self, *, entity_type: str = "", entity_name: str | None = "") -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name
