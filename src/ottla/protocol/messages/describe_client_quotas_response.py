"""DescribeClientQuotasResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DescribeClientQuotasResponse(Message):
    API_KEY = 48
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 1
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "entries")
    SCHEMA = """
        throttle_time_ms int32 0+
        error_code int16 0+
        error_message string 0+ null:0+
        entries []EntryData 0+ null:0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = "",
        entries: list[EntryData] | None = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries: list[EntryData] | None = [] if entries is UNSET else entries


class EntryData(Struct):
    __slots__ = ("entity", "values")
    SCHEMA = """
        entity []EntityData 0+
        values []ValueData 0+
    """

    def __init__(self, *, entity: list[EntityData] = UNSET, values: list[ValueData] = UNSET) -> None:
        self.entity: list[EntityData] = [] if entity is UNSET else entity
        self.values: list[ValueData] = [] if values is UNSET else values


class EntityData(Struct):
    __slots__ = ("entity_type", "entity_name")
    SCHEMA = """
        entity_type string 0+
        entity_name string 0+ null:0+
    """

    def __init__(self, *, entity_type: str = "", entity_name: str | None = "") -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class ValueData(Struct):
    __slots__ = ("key", "value")
    SCHEMA = """
        key string 0+
        value float64 0+
    """

    def __init__(self, *, key: str = "", value: float = 0.0) -> None:
        self.key = key
        self.value = value
