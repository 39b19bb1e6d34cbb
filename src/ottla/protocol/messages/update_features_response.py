"""UpdateFeaturesResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class UpdateFeaturesResponse(Message):
    API_KEY = 57
    MIN_VERSION = 0
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results")
    SCHEMA = """
        throttle_time_ms int32 0+
        error_code int16 0+
        error_message string 0+ null:0+
        results []UpdatableFeatureResult 0-1 ignorable
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = "",
        results: list[UpdatableFeatureResult] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results: list[UpdatableFeatureResult] = [] if results is UNSET else results


class UpdatableFeatureResult(Struct):
    __slots__ = ("feature", "error_code", "error_message")
    SCHEMA = """
        feature string 0+
        error_code int16 0+
        error_message string 0+ null:0+
    """

    def __init__(self, *, feature: str = "", error_code: int = 0, error_message: str | None = "") -> None:
        self.feature = feature
        self.error_code = error_code
        self.error_message = error_message
