"""SaslHandshakeResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, UNSET


class SaslHandshakeResponse(Message):
    API_KEY = 17
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 32767
    READERS = {}
    WRITERS = {}
    __slots__ = ("error_code", "mechanisms")
    SCHEMA = """
        error_code int16 0+
        mechanisms []string 0+
    """

    def __init__(self, *, error_code: int = 0, mechanisms: list[str] = UNSET) -> None:
        self.error_code = error_code
        self.mechanisms: list[str] = [] if mechanisms is UNSET else mechanisms
