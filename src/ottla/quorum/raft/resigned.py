"""Resigned: a node that led in this epoch and has resigned or restarted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.quorum.raft.node import Role
from ottla.quorum.raft.peers import Sent
from ottla.quorum.raft.requests import end_request
from ottla.quorum.raft.responses import Answer
from ottla.quorum.raft.voters import Voter

if TYPE_CHECKING:
    from ottla.quorum.raft.node import RaftNode


class Resigned(Role):
    """Sends EndQuorumEpoch to the voters, and leaves the epoch after an election timeout."""

    name = "resigned"
    __slots__ = ("_successors", "_unnotified", "deadline_ms")

    def __init__(self, node: RaftNode, now_ms: int, successors: Sequence[Voter] = ()) -> None:
        super().__init__(node)
        self._successors = tuple(successors)
        self._unnotified = set(node.voters.by_id) - {node.config.node_id}
        self.deadline_ms = now_ms if node.is_only_voter else now_ms + node.waiting_ms()

    @property
    def leader_id(self) -> int:
        return self.node.config.node_id

    @property
    def has_notified_all(self) -> bool:
        return not self._unnotified

    def poll(self, now_ms: int) -> None:
        node = self.node
        if now_ms >= self.deadline_ms:
            node.transitions.become_unattached(node.epoch + 1, now_ms)
            return
        if not node.is_voter and self.has_notified_all:
            # A removed node is not notified of the next leader and has to probe for it. It keeps the epoch:
            # a new one would disturb the election.
            node.transitions.become_unattached(node.epoch, now_ms)
            return
        for node_id in sorted(self._unnotified):
            if node.peers.is_ready(node_id, now_ms):
                request = end_request(node.config, node.epoch, self._successors)
                node.send(node_id, node.voters.endpoint_of(node_id), request, now_ms)

    def wake_ms(self, now_ms: int) -> int | None:
        return self.deadline_ms

    def on_answer(self, sent: Sent, answer: Answer, now_ms: int) -> None:
        if answer.error:
            self.node.peers.failed(sent.node_id, now_ms)
        else:
            self._unnotified.discard(sent.node_id)

    def on_failure(self, sent: Sent, now_ms: int, *, disconnected: bool) -> None:
        if disconnected and self.node.is_shutting_down:
            # Probably all nodes are shutting down: a stopped node need not be notified.
            self._unnotified.discard(sent.node_id)

    def grants(self, *, log_is_up_to_date: bool, pre_vote: bool, voted_for: bool | None) -> bool:
        # This node voted for itself in this epoch, so it can only grant pre-votes for the next one.
        return pre_vote and log_is_up_to_date
