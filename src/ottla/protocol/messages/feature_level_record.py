"""FeatureLevelRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class FeatureLevelRecord(Message):
    API_KEY = 12
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("name", "feature_level")
    SCHEMA = """
        name string 0+
        feature_level int16 0+
    """

    def __init__(self, *, name: str = "", feature_level: int = 0) -> None:
        self.name = name
        self.feature_level = feature_level
