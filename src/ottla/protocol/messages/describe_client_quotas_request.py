"""DescribeClientQuotasRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DescribeClientQuotasRequest(Message):
    API_KEY = 48
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 1
    READERS = {}
    WRITERS = {}
    __slots__ = ("components", "strict")
    SCHEMA = """
        components []ComponentData 0+
        strict bool 0+
    """

    def __init__(self, *, components: list[ComponentData] = UNSET, strict: bool = False) -> None:
        self.components: list[ComponentData] = [] if components is UNSET else components
        self.strict = strict


class ComponentData(Struct):
    __slots__ = ("entity_type", "match_type", "match")
    SCHEMA = """
        entity_type string 0+
        match_type int8 0+
        match string 0+ null:0+
    """

    def __init__(self, *, entity_type: str = "", match_type: int = 0, match: str | None = "") -> None:
        self.entity_type = entity_type
        self.match_type = match_type
        self.match = match
