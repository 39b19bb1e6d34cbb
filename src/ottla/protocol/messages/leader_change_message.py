"""LeaderChangeMessage, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class LeaderChangeMessage(Message):
    API_KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("version", "leader_id", "voters", "granting_voters")
    SCHEMA = """
        version int16 0+
        leader_id int32 0+
        voters []Voter 0+
        granting_voters []Voter 0+
    """

    def __init__(self, *,
        version: int = 0, leader_id: int = 0, voters: list[Voter] = UNSET,
        granting_voters: list[Voter] = UNSET,
    ) -> None:
        self.version = version
        self.leader_id = leader_id
        self.voters: list[Voter] = [] if voters is UNSET else voters
        self.granting_voters: list[Voter] = [] if granting_voters is UNSET else granting_voters


class Voter(Struct):
    __slots__ = ("voter_id", "voter_directory_id")
    SCHEMA = """
        voter_id int32 0+
        voter_directory_id uuid 1+
    """

    def __init__(self, *, voter_id: int = 0, voter_directory_id: bytes = ZERO_UUID) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
