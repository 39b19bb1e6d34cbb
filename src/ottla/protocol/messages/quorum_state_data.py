"""QuorumStateData, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class QuorumStateData(Message):
    API_KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "cluster_id", "leader_id", "leader_epoch", "voted_id", "voted_directory_id", "applied_offset",
        "current_voters",
    )
    SCHEMA = """
        cluster_id string 0
        leader_id int32 0+ default:-1
        leader_epoch int32 0+ default:-1
        voted_id int32 0+ default:-1
        voted_directory_id uuid 1+
        applied_offset int64 0
        current_voters []Voter 0 null:0
    """

    def __init__(self, *,
        cluster_id: str = "", leader_id: int = -1, leader_epoch: int = -1, voted_id: int = -1,
        voted_directory_id: bytes = ZERO_UUID, applied_offset: int = 0,
        current_voters: list[Voter] | None = UNSET,
    ) -> None:
        self.cluster_id = cluster_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.voted_id = voted_id
        self.voted_directory_id = voted_directory_id
        self.applied_offset = applied_offset
        self.current_voters: list[Voter] | None = [] if current_voters is UNSET else current_voters


class Voter(Struct):
    __slots__ = ("voter_id",)
    SCHEMA = """
        voter_id int32 0
    """

    def __init__(self, *, voter_id: int = 0) -> None:
        self.voter_id = voter_id
