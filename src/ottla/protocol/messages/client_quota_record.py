"""ClientQuotaRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class ClientQuotaRecord(Message):
    API_KEY = 14
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("entity", "key", "value", "remove")
    SCHEMA = """
        entity []EntityData 0+
        key string 0+
        value float64 0+
        remove bool 0+
    """

    def __init__(self, *,
        entity: list[EntityData] = UNSET, key: str = "", value: float = 0.0, remove: bool = False,
    ) -> None:
        self.entity: list[EntityData] = [] if entity is UNSET else entity
        self.key = key
        self.value = value
        self.remove = remove


class EntityData(Struct):
    __slots__ = ("entity_type", "entity_name")
    SCHEMA = """
        entity_type string 0+
        entity_name string 0+ null:0+
    """

    def __init__(self, *, entity_type: str = "", entity_name: str | None = "") -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name
