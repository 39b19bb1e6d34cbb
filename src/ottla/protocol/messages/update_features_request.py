"""UpdateFeaturesRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class UpdateFeaturesRequest(Message):
    API_KEY = 57
    MIN_VERSION = 0
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("timeout_ms", "feature_updates", "validate_only")
    SCHEMA = """
        timeout_ms int32 0+ default:60000
        feature_updates []FeatureUpdateKey 0+
        validate_only bool 1+
    """

    def __init__(self, *,
        timeout_ms: int = 60000, feature_updates: list[FeatureUpdateKey] = UNSET, validate_only: bool = False,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.feature_updates: list[FeatureUpdateKey] = [] if feature_updates is UNSET else feature_updates
        self.validate_only = validate_only


class FeatureUpdateKey(Struct):
    __slots__ = ("feature", "max_version_level", "allow_downgrade", "upgrade_type")
    SCHEMA = """
        feature string 0+
        max_version_level int16 0+
        allow_downgrade bool 0
        upgrade_type int8 1+ default:1
    """

    def __init__(self, *,
        feature: str = "", max_version_level: int = 0, allow_downgrade: bool = False, upgrade_type: int = 1,
    ) -> None:
        self.feature = feature
        self.max_version_level = max_version_level
        self.allow_downgrade = allow_downgrade
        self.upgrade_type = upgrade_type
