"""Candidate: a voter that has started a new epoch, voted for itself and requests votes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.quorum.raft.election import Election

if TYPE_CHECKING:
    from ottla.quorum.raft.node import RaftNode


class Candidate(Election):
    """Becomes leader with the votes of a majority, else retries after a pause."""

    name = "candidate"
    __slots__ = ("_backoff_until_ms",)

    def __init__(self, node: RaftNode, now_ms: int) -> None:
        super().__init__(node, now_ms)
        self._backoff_until_ms: int | None = None

    def poll(self, now_ms: int) -> None:
        node = self.node
        if self.is_won:
            node.transitions.become_leader(now_ms, sorted(self.granted))
            return
        if self.is_lost and self._backoff_until_ms is None:
            # The others voted for another candidate, which needs time to announce itself.
            self._backoff_until_ms = now_ms + 1 + node.draw(max(1, node.config.election_backoff_max_ms))
        if now_ms >= self._end_ms:
            node.transitions.become_prospective(now_ms)
        elif self._backoff_until_ms is None:
            self.request_votes(now_ms)

    @property
    def _end_ms(self) -> int:
        if self._backoff_until_ms is None:
            return self.deadline_ms
        return min(self.deadline_ms, self._backoff_until_ms)

    def wake_ms(self, now_ms: int) -> int | None:
        return self._end_ms

    def grants(self, *, log_is_up_to_date: bool, pre_vote: bool, voted_for: bool | None) -> bool:
        if pre_vote:
            return log_is_up_to_date
        return voted_for is True
