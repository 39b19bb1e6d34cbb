"""Resigned: a node that has led in this epoch and does so no longer, or was restarted since."""

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
    """Announces the end of the epoch to the voters, and leaves it after an election timeout."""

    name = "resigned"
    __slots__ = ("_successors", "_untold", "deadline_ms")

    def __init__(self, node: RaftNode, now_ms: int, successors: Sequence[Voter] = ()) -> None:
        super().__init__(node)
        self._successors = tuple(successors)
        self._untold = set(node.voters.by_id) - {node.config.node_id}
        self.deadline_ms = now_ms if node.is_only_voter else now_ms + node.waiting_ms()

    @property
    def leader_id(self) -> int:
        return self.node.config.node_id

    @property
    def has_told_all(self) -> bool:
        return not self._untold

    def poll(self, now_ms: int) -> None:
        node = self.node
        if now_ms >= self.deadline_ms:
            node.transitions.become_unattached(node.epoch + 1, now_ms)
            return
        if not node.is_voter and self.has_told_all:
            # Nobody tells the next leader to who was removed, it has to ask. Not in a new epoch: those who
            # elect that leader should not hear of one from here.
            node.transitions.become_unattached(node.epoch, now_ms)
            return
        for node_id in sorted(self._untold):
            if node.peers.is_ready(node_id, now_ms):
                request = end_request(node.config, node.epoch, self._successors)
                node.send(node_id, node.voters.endpoint_of(node_id), request, now_ms)

    def wake_ms(self, now_ms: int) -> int | None:
        return self.deadline_ms

    def on_answer(self, sent: Sent, answer: Answer, now_ms: int) -> None:
        if answer.error:
            self.node.peers.failed(sent.node_id, now_ms)
        else:
            self._untold.discard(sent.node_id)

    def on_failure(self, sent: Sent, now_ms: int, *, disconnected: bool) -> None:
        if disconnected and self.node.is_shutting_down:
            # Most likely all are shutting down: a node that is gone need not be notified.
            self._untold.discard(sent.node_id)

    def grants(self, *, log_is_up_to_date: bool, pre_vote: bool, voted_for: bool | None) -> bool:
        # The vote of this epoch went to this node itself, so only the next one can be wished for.
        return pre_vote and log_is_up_to_date
