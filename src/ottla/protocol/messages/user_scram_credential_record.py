"""UserScramCredentialRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class UserScramCredentialRecord(Message):
    API_KEY = 11
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("name", "mechanism", "salt", "stored_key", "server_key", "iterations")
    SCHEMA = """
        name string 0+
        mechanism int8 0+
        salt bytes 0+
        stored_key bytes 0+
        server_key bytes 0+
        iterations int32 0+
    """

    def __init__(self, *,
        name: str = "", mechanism: int = 0, salt: bytes = b"", stored_key: bytes = b"",
        server_key: bytes = b"", iterations: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.salt = salt
        self.stored_key = stored_key
        self.server_key = server_key
        self.iterations = iterations
