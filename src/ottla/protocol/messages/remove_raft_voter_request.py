"""RemoveRaftVoterRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, ZERO_UUID


class RemoveRaftVoterRequest(Message):
    API_KEY = 81
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("cluster_id", "voter_id", "voter_directory_id")
    SCHEMA = """
        cluster_id string 0+ null:0+
        voter_id int32 0+
        voter_directory_id uuid 0+
    """

    def __init__(self, *,
        cluster_id: str | None = "", voter_id: int = 0, voter_directory_id: bytes = ZERO_UUID,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
