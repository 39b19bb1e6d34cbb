"""DescribeUserScramCredentialsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DescribeUserScramCredentialsRequest(Message):
    API_KEY = 50
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("users",)
    SCHEMA = """
        users []UserName 0+ null:0+
    """

    def __init__(self, *, users: list[UserName] | None = UNSET) -> None:
        self.users: list[UserName] | None = [] if users is UNSET else users


class UserName(Struct):
    __slots__ = ("name",)
    SCHEMA = """
        name string 0+
    """

    def __init__(self, *, name: str = "") -> None:
        self.name = name
