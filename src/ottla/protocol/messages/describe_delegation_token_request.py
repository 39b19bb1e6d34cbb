"""DescribeDelegationTokenRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DescribeDelegationTokenRequest(Message):
    API_KEY = 41
    MIN_VERSION = 1
    MAX_VERSION = 3
    MAX_STABLE_VERSION = 3
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("owners",)
    SCHEMA = """
        owners []DescribeDelegationTokenOwner 0+ null:0+
    """

    def __init__(self, *, owners: list[DescribeDelegationTokenOwner] | None = UNSET) -> None:
        self.owners: list[DescribeDelegationTokenOwner] | None = [] if owners is UNSET else owners


class DescribeDelegationTokenOwner(Struct):
    __slots__ = ("principal_type", "principal_name")
    SCHEMA = """
        principal_type string 0+
        principal_name string 0+
    """

    def __init__(self, *, principal_type: str = "", principal_name: str = "") -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
