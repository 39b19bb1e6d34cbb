"""RemoveUserScramCredentialRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class RemoveUserScramCredentialRecord(Message):
    API_KEY = 22
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("name", "mechanism")
    SCHEMA = """
        name string 0+
        mechanism int8 0+
    """

    def __init__(self, *, name: str = "", mechanism: int = 0) -> None:
        self.name = name
        self.mechanism = mechanism
