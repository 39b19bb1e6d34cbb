"""DelegationTokenRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, UNSET


class DelegationTokenRecord(Message):
    API_KEY = 10
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "owner", "requester", "renewers", "issue_timestamp", "max_timestamp", "expiration_timestamp",
        "token_id",
    )
    SCHEMA = """
        owner string 0+
        requester string 0+
        renewers []string 0+
        issue_timestamp int64 0+
        max_timestamp int64 0+
        expiration_timestamp int64 0+
        token_id string 0+
    """

    def __init__(self, *,
        owner: str = "", requester: str = "", renewers: list[str] = UNSET, issue_timestamp: int = 0,
        max_timestamp: int = 0, expiration_timestamp: int = 0, token_id: str = "",
    ) -> None:
        self.owner = owner
        self.requester = requester
        self.renewers: list[str] = [] if renewers is UNSET else renewers
        self.issue_timestamp = issue_timestamp
        self.max_timestamp = max_timestamp
        self.expiration_timestamp = expiration_timestamp
        self.token_id = token_id
