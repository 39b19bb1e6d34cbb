"""PushTelemetryRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, ZERO_UUID


class PushTelemetryRequest(Message):
    API_KEY = 72
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("client_instance_id", "subscription_id", "terminating", "compression_type", "metrics")
    SCHEMA = """
        client_instance_id uuid 0+
        subscription_id int32 0+
        terminating bool 0+
        compression_type int8 0+
        metrics bytes 0+
    """

    def __init__(self, *,
        client_instance_id: bytes = ZERO_UUID, subscription_id: int = 0, terminating: bool = False,
        compression_type: int = 0, metrics: bytes = b"",
    ) -> None:
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.terminating = terminating
        self.compression_type = compression_type
        self.metrics = metrics
