"""What all roles have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.quorum.raft.peers import Sent
from ottla.quorum.raft.responses import Answer
from ottla.quorum.raft.voters import Endpoint

if TYPE_CHECKING:
    from ottla.quorum.raft.machine import RaftMachine


class Role:
    """What a node is in one epoch. Events change its fields; `poll` then does whatever is due."""

    name = ""
    __slots__ = ("machine",)

    def __init__(self, machine: RaftMachine) -> None:
        self.machine = machine

    @property
    def leader_id(self) -> int:
        """The leader of the epoch as far as is known, -1 if it is not."""
        return -1

    @property
    def leader_endpoint(self) -> Endpoint | None:
        return None

    def enter(self, now_ms: int) -> None:
        """The role has just been taken."""

    def leave(self, now_ms: int) -> None:
        """Another role is about to be taken."""

    def poll(self, now_ms: int) -> None:
        """Do what is due: move on to another role, or send what can be sent. Called after every event."""
        raise NotImplementedError

    def wake_ms(self, now_ms: int) -> int | None:
        """When something will be due that no event brings; later than now, unless the role has changed."""
        raise NotImplementedError

    def grants(self, *, log_is_up_to_date: bool, pre_vote: bool, voted_for: bool | None) -> bool:
        """Would a vote be given? `voted_for`: this epoch's vote went to the asker (or to another)."""
        if pre_vote:
            return log_is_up_to_date
        if voted_for is not None:
            return voted_for
        return log_is_up_to_date and self.leader_id < 0

    def on_answer(self, sent: Sent, answer: Answer, now_ms: int) -> None:
        """A peer of the same or an earlier epoch has answered."""

    def on_failure(self, sent: Sent, now_ms: int, *, disconnected: bool) -> None:
        """A request got no answer; the peer will be left alone for a while."""
