"""AlterClientQuotasRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class AlterClientQuotasRequest(Message):
    API_KEY = 49
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 1
    READERS = {}
    WRITERS = {}
    __slots__ = ("entries", "validate_only")
    SCHEMA = """
        entries []EntryData 0+
        validate_only bool 0+
    """

    def __init__(self, *, entries: list[EntryData] = UNSET, validate_only: bool = False) -> None:
        self.entries: list[EntryData] = [] if entries is UNSET else entries
        self.validate_only = validate_only


class EntryData(Struct):
    __slots__ = ("entity", "ops")
    SCHEMA = """
        entity []EntityData 0+
        ops []OpData 0+
    """

    def __init__(self, *, entity: list[EntityData] = UNSET, ops: list[OpData] = UNSET) -> None:
        self.entity: list[EntityData] = [] if entity is UNSET else entity
        self.ops: list[OpData] = [] if ops is UNSET else ops


class EntityData(Struct):
    __slots__ = ("entity_type", "entity_name")
    SCHEMA = """
        entity_type string 0+
        entity_name string 0+ null:0+
    """

    def __init__(self, *, entity_type: str = "", entity_name: str | None = "") -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class OpData(Struct):
    __slots__ = ("key", "value", "remove")
    SCHEMA = """
        key string 0+
        value float64 0+
        remove bool 0+
    """

    def __init__(self, *, key: str = "", value: float = 0.0, remove: bool = False) -> None:
        self.key = key
        self.value = value
        self.remove = remove
