"""DefaultPrincipalData, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class DefaultPrincipalData(Message):
    API_KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("type", "name", "token_authenticated")
    SCHEMA = """
        type string 0+
        name string 0+
        token_authenticated bool 0+
    """

    def __init__(self, *, type: str = "", name: str = "", token_authenticated: bool = False) -> None:
        self.type = type
        self.name = name
        self.token_authenticated = token_authenticated
