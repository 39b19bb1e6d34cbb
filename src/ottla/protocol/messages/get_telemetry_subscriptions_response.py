"""GetTelemetrySubscriptionsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, UNSET, ZERO_UUID


class GetTelemetrySubscriptionsResponse(Message):
    API_KEY = 71
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "throttle_time_ms", "error_code", "client_instance_id", "subscription_id",
        "accepted_compression_types", "push_interval_ms", "telemetry_max_bytes", "delta_temporality",
        "requested_metrics",
    )
    SCHEMA = """
        throttle_time_ms int32 0+
        error_code int16 0+
        client_instance_id uuid 0+
        subscription_id int32 0+
        accepted_compression_types []int8 0+
        push_interval_ms int32 0+
        telemetry_max_bytes int32 0+
        delta_temporality bool 0+
        requested_metrics []string 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, client_instance_id: bytes = ZERO_UUID,
        subscription_id: int = 0, accepted_compression_types: list[int] = UNSET, push_interval_ms: int = 0,
        telemetry_max_bytes: int = 0, delta_temporality: bool = False, requested_metrics: list[str] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.accepted_compression_types: list[int] = [] if accepted_compression_types is UNSET else accepted_compression_types
        self.push_interval_ms = push_interval_ms
        self.telemetry_max_bytes = telemetry_max_bytes
        self.delta_temporality = delta_temporality
        self.requested_metrics: list[str] = [] if requested_metrics is UNSET else requested_metrics
