"""The base class of Prospective and Candidate: request votes from all voters, and count them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.quorum.raft.node import Role
from ottla.quorum.raft.peers import Sent
from ottla.quorum.raft.requests import vote_request
from ottla.quorum.raft.responses import Answer

if TYPE_CHECKING:
    from ottla.quorum.raft.node import RaftNode


class Election(Role):
    """A node that requests votes or pre-votes."""

    PRE_VOTE = False
    __slots__ = ("deadline_ms", "granted", "rejected")

    def __init__(self, node: RaftNode, now_ms: int) -> None:
        super().__init__(node)
        node.is_starting = False
        self.deadline_ms = now_ms + node.election_timeout_ms()
        self.granted = {node.config.node_id}
        self.rejected: set[int] = set()

    @property
    def is_won(self) -> bool:
        voters = self.node.voters
        return len(self.granted & voters.by_id.keys()) >= voters.majority

    @property
    def is_lost(self) -> bool:
        voters = self.node.voters
        return len(voters) - len(self.rejected & voters.by_id.keys()) < voters.majority

    def request_votes(self, now_ms: int) -> None:
        node = self.node
        if node.log_is_stale:
            return
        for voter in node.voters:
            answered = voter.node_id in self.granted or voter.node_id in self.rejected
            if answered or not node.peers.is_ready(voter.node_id, now_ms):
                continue
            request = vote_request(
                node.config,
                node.epoch,
                voter,
                last_epoch=node.log.last_epoch,
                last_offset=node.log.end_offset,
                pre_vote=self.PRE_VOTE,
            )
            node.send(voter.node_id, node.voters.endpoint_of(voter.node_id), request, now_ms)

    def on_answer(self, sent: Sent, answer: Answer, now_ms: int) -> None:
        if answer.error == ErrorCode.UNSUPPORTED_VERSION and self.PRE_VOTE:
            # A voter that does not support pre-votes cannot object to the election.
            self.granted.add(sent.node_id)
        elif answer.error:
            self.node.peers.failed(sent.node_id, now_ms)
        elif answer.partition.vote_granted:
            self.granted.add(sent.node_id)
        else:
            self.rejected.add(sent.node_id)
