"""SaslHandshakeRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class SaslHandshakeRequest(Message):
    API_KEY = 17
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 32767
    READERS = {}
    WRITERS = {}
    __slots__ = ("mechanism",)
    SCHEMA = """
        mechanism string 0+
    """

    def __init__(self, *, mechanism: str = "") -> None:
        self.mechanism = mechanism
