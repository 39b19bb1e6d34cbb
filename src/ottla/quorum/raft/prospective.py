"""Prospective: a voter that requests pre-votes, without starting a new epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.quorum.raft.election import Election
from ottla.quorum.raft.voters import Endpoint

if TYPE_CHECKING:
    from ottla.quorum.raft.node import RaftNode


class Prospective(Election):
    """Becomes Candidate with the pre-votes of a majority, else returns to its previous role."""

    name = "prospective"
    PRE_VOTE = True
    __slots__ = ("_leader_endpoint", "_leader_id")

    def __init__(
        self, node: RaftNode, now_ms: int, leader_id: int = -1, leader_endpoint: Endpoint | None = None
    ) -> None:
        super().__init__(node, now_ms)
        self._leader_id = leader_id
        self._leader_endpoint = leader_endpoint

    @property
    def leader_id(self) -> int:
        return self._leader_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        return self._leader_endpoint

    def poll(self, now_ms: int) -> None:
        node = self.node
        if not node.may_stand or self.is_lost or now_ms >= self.deadline_ms:
            if self._leader_endpoint is not None:
                node.transitions.become_follower(node.epoch, self._leader_id, self._leader_endpoint, now_ms)
            else:
                node.transitions.become_unattached(node.epoch, now_ms, self._leader_id)
        elif self.is_won:
            node.transitions.become_candidate(now_ms)
        else:
            self.request_votes(now_ms)

    def wake_ms(self, now_ms: int) -> int | None:
        return self.deadline_ms
