"""The progress of the replicas, which the leader derives from their fetches."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.protocol.uuids import ZERO_UUID
from ottla.quorum.raft.voters import Voter, VoterSet

UNKNOWN_OFFSET = -1
OBSERVER_SESSION_MS = 300_000


class Replica:
    """One replica that fetches, voter or observer."""

    __slots__ = (
        "caught_up_ms",
        "directory_id",
        "end_offset",
        "fetched_ms",
        "leader_end_offset",
        "node_id",
    )

    def __init__(self, node_id: int, directory_id: bytes) -> None:
        self.node_id = node_id
        self.directory_id = directory_id
        self.end_offset = UNKNOWN_OFFSET
        self.fetched_ms = -1
        self.caught_up_ms = -1
        self.leader_end_offset = -1

    def fetch(self, offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Record a fetch: the replica has everything below `offset` on disk."""
        if offset >= leader_end_offset:
            self.caught_up_ms = max(now_ms, self.caught_up_ms)
        elif 0 < self.leader_end_offset <= offset:
            # It has everything that existed at its previous fetch: it was caught up as of that time.
            self.caught_up_ms = max(self.fetched_ms, self.caught_up_ms)
        self.end_offset = offset
        self.leader_end_offset = leader_end_offset
        self.fetched_ms = max(now_ms, self.fetched_ms)


class Replicas:
    """All replicas that have sent a request to the leader in this epoch."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        self._by_key: dict[tuple[int, bytes], Replica] = {}

    def touch(self, node_id: int, directory_id: bytes, voters: VoterSet) -> Replica:
        """Return the replica that sent a request; add it if it is new."""
        voter = voters.by_id.get(node_id)
        if voter is not None and voter.directory_id == ZERO_UUID:
            directory_id = ZERO_UUID
        key = (node_id, directory_id)
        if key not in self._by_key:
            self._by_key[key] = Replica(node_id, directory_id)
        return self._by_key[key]

    def find(self, node_id: int, directory_id: bytes) -> Replica | None:
        return self._by_key.get((node_id, directory_id))

    def of_voter(self, voter: Voter) -> Replica | None:
        return self._by_key.get((voter.node_id, voter.directory_id))

    def observers(self, voters: VoterSet, now_ms: int) -> Iterator[Replica]:
        """Yield replicas that are not voters; drop those that have been silent for minutes."""
        for key, replica in list(self._by_key.items()):
            if voters.has(*key):
                continue
            if now_ms - replica.fetched_ms >= OBSERVER_SESSION_MS:
                del self._by_key[key]
            else:
                yield replica
