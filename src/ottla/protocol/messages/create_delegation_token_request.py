"""CreateDelegationTokenRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class CreateDelegationTokenRequest(Message):
    API_KEY = 38
    MIN_VERSION = 1
    MAX_VERSION = 3
    MAX_STABLE_VERSION = 3
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("owner_principal_type", "owner_principal_name", "renewers", "max_lifetime_ms")
    SCHEMA = """
        owner_principal_type string 3+ null:3+
        owner_principal_name string 3+ null:3+
        renewers []CreatableRenewers 0+
        max_lifetime_ms int64 0+
    """

    def __init__(self, *,
        owner_principal_type: str | None = "", owner_principal_name: str | None = "",
        renewers: list[CreatableRenewers] = UNSET, max_lifetime_ms: int = 0,
    ) -> None:
        self.owner_principal_type = owner_principal_type
        self.owner_principal_name = owner_principal_name
        self.renewers: list[CreatableRenewers] = [] if renewers is UNSET else renewers
        self.max_lifetime_ms = max_lifetime_ms


class CreatableRenewers(Struct):
    __slots__ = ("principal_type", "principal_name")
    SCHEMA = """
        principal_type string 0+
        principal_name string 0+
    """

    def __init__(self, *, principal_type: str = "", principal_name: str = "") -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
