"""EnvelopeRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class EnvelopeRequest(Message):
    API_KEY = 58
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("request_data", "request_principal", "client_host_address")
    SCHEMA = """
        request_data bytes 0+
        request_principal bytes 0+ null:0+
        client_host_address bytes 0+
    """

    def __init__(self, *,
        request_data: bytes = b"", request_principal: bytes | None = b"", client_host_address: bytes = b"",
    ) -> None:
        self.request_data = request_data
        self.request_principal = request_principal
        self.client_host_address = client_host_address
