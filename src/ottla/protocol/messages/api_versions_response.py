"""ApiVersionsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class ApiVersionsResponse(Message):
    API_KEY = 18
    MIN_VERSION = 0
    MAX_VERSION = 5
    MAX_STABLE_VERSION = 5
    FLEXIBLE_FROM = 3
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "error_code", "api_keys", "throttle_time_ms", "supported_features", "finalized_features_epoch",
        "finalized_features", "zk_migration_ready",
    )
    SCHEMA = """
        error_code int16 0+
        api_keys []ApiVersion 0+
        throttle_time_ms int32 1+ ignorable
        supported_features []SupportedFeatureKey 3+ tag:0:3+ ignorable
        finalized_features_epoch int64 3+ tag:1:3+ default:-1 ignorable
        finalized_features []FinalizedFeatureKey 3+ tag:2:3+ ignorable
        zk_migration_ready bool 3+ tag:3:3+ ignorable
    """

    def __init__(self, *,
        error_code: int = 0, api_keys: list[ApiVersion] = UNSET, throttle_time_ms: int = 0,
        supported_features: list[SupportedFeatureKey] = UNSET, finalized_features_epoch: int = -1,
        finalized_features: list[FinalizedFeatureKey] = UNSET, zk_migration_ready: bool = False,
    ) -> None:
        self.error_code = error_code
        self.api_keys: list[ApiVersion] = [] if api_keys is UNSET else api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features: list[SupportedFeatureKey] = [] if supported_features is UNSET else supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features: list[FinalizedFeatureKey] = [] if finalized_features is UNSET else finalized_features
        self.zk_migration_ready = zk_migration_ready


class ApiVersion(Struct):
    __slots__ = ("api_key", "min_version", "max_version")
    SCHEMA = """
        api_key int16 0+
        min_version int16 0+
        max_version int16 0+
    """

    def __init__(self, *, api_key: int = 0, min_version: int = 0, max_version: int = 0) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version


class SupportedFeatureKey(Struct):
    __slots__ = ("name", "min_version", "max_version")
    SCHEMA = """
        name string 3+
        min_version int16 3+
        max_version int16 3+
    """

    def __init__(self, *, name: str = "", min_version: int = 0, max_version: int = 0) -> None:
        self.name = name
        self.min_version = min_version
        self.max_version = max_version


class FinalizedFeatureKey(Struct):
    __slots__ = ("name", "max_version_level", "min_version_level")
    SCHEMA = """
        name string 3+
        max_version_level int16 3+
        min_version_level int16 3+
    """

    def __init__(self, *, name: str = "", max_version_level: int = 0, min_version_level: int = 0) -> None:
        self.name = name
        self.max_version_level = max_version_level
        self.min_version_level = min_version_level
