"""GetTelemetrySubscriptionsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, ZERO_UUID


class GetTelemetrySubscriptionsRequest(Message):
    API_KEY = 71
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("client_instance_id",)
    SCHEMA = """
        client_instance_id uuid 0+
    """

    def __init__(self, *, client_instance_id: bytes = ZERO_UUID) -> None:
        self.client_instance_id = client_instance_id
