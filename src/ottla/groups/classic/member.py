"""A member of a classic group: its durable state, and its waiting requests."""

from __future__ import annotations

from ottla.machines.outcome import Token
from ottla.machines.timers import Timer

# (name, metadata) in the member's order of preference.
Protocols = tuple[tuple[str, bytes], ...]


class ClassicMember:
    """`join_token` and `sync_token` are set while a request of the member waits: see `is_joining`."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_joining",
        "is_new",
        "is_syncing",
        "join_token",
        "join_version",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
        "sync_token",
    )

    def __init__(
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.session: Timer | None = None
        # Has joined but was in no generation yet: it may not know its member id.
        self.is_new = False
        self.is_joining = False
        self.join_token: Token = None
        self.join_version = 0
        self.is_syncing = False
        self.sync_token: Token = None

    def metadata(self, protocol_name: str) -> bytes:
        """Return its metadata for the protocol; empty if it does not support it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def vote(self, candidates: dict[str, int]) -> str:
        """Return the first of its protocols that all members support."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise AssertionError(f"{self.member_id} supports none of {list(candidates)}")

    def has_left(self) -> None:
        """Discard the timer: the heap would keep the member alive."""
        if self.session is not None:
            self.session.discard()
            self.session = None
