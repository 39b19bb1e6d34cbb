"""What Prospective and Candidate share: asking all voters, and counting what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.quorum.raft.peers import Sent
from ottla.quorum.raft.requests import vote_request
from ottla.quorum.raft.responses import Answer
from ottla.quorum.raft.role import Role

if TYPE_CHECKING:
    from ottla.quorum.raft.machine import RaftMachine


class Election(Role):
    """A node that asks for votes, real ones or pre-votes."""

    PRE_VOTE = False
    __slots__ = ("deadline_ms", "granted", "rejected")

    def __init__(self, machine: RaftMachine, now_ms: int) -> None:
        super().__init__(machine)
        machine.is_starting = False
        self.deadline_ms = now_ms + machine.election_timeout_ms()
        self.granted = {machine.config.node_id}
        self.rejected: set[int] = set()

    @property
    def is_won(self) -> bool:
        voters = self.machine.voters
        return len(self.granted & voters.by_id.keys()) >= voters.majority

    @property
    def is_lost(self) -> bool:
        voters = self.machine.voters
        return len(voters) - len(self.rejected & voters.by_id.keys()) < voters.majority

    def ask_voters(self, now_ms: int) -> None:
        machine = self.machine
        if machine.log_is_stale:
            return
        for voter in machine.voters:
            answered = voter.node_id in self.granted or voter.node_id in self.rejected
            if answered or not machine.peers.is_ready(voter.node_id, now_ms):
                continue
            request = vote_request(
                machine.config,
                machine.epoch,
                voter,
                last_epoch=machine.log.last_epoch,
                last_offset=machine.log.end_offset,
                pre_vote=self.PRE_VOTE,
            )
            machine.send(voter.node_id, machine.voters.endpoint_of(voter.node_id), request, now_ms)

    def on_answer(self, sent: Sent, answer: Answer, now_ms: int) -> None:
        if answer.error == ErrorCode.UNSUPPORTED_VERSION and self.PRE_VOTE:
            # A voter too old for pre-votes cannot object to the election that they are about.
            self.granted.add(sent.node_id)
        elif answer.error:
            self.machine.peers.failed(sent.node_id, now_ms)
        elif answer.partition.vote_granted:
            self.granted.add(sent.node_id)
        else:
            self.rejected.add(sent.node_id)
