"""EnvelopeResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class EnvelopeResponse(Message):
    API_KEY = 58
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("response_data", "error_code")
    SCHEMA = """
        response_data bytes 0+ null:0+ default:null
        error_code int16 0+
    """

    def __init__(self, *, response_data: bytes | None = None, error_code: int = 0) -> None:
        self.response_data = response_data
        self.error_code = error_code
