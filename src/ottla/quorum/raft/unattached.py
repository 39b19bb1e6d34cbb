"""Unattached: a node that knows the epoch, but not a leader that it could reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.quorum.raft.role import Role

if TYPE_CHECKING:
    from ottla.quorum.raft.machine import RaftMachine


class Unattached(Role):
    """Asks around who leads; a voter stands for election when nobody does for long enough."""

    name = "unattached"
    __slots__ = ("_leader_id", "deadline_ms")

    def __init__(self, machine: RaftMachine, now_ms: int, leader_id: int = -1) -> None:
        super().__init__(machine)
        # A leader whose address is not known: no reason to follow, but one not to vote for another.
        self._leader_id = leader_id
        self.deadline_ms = now_ms if machine.is_only_voter else now_ms + machine.waiting_ms()

    @property
    def leader_id(self) -> int:
        return self._leader_id

    def poll(self, now_ms: int) -> None:
        if self.machine.may_stand and now_ms >= self.deadline_ms:
            self.machine.become_prospective(now_ms)
        else:
            self.machine.probe(now_ms)

    def wake_ms(self, now_ms: int) -> int | None:
        wakes = [self.machine.probe_due_ms] if self.machine.probe_due_ms > now_ms else []
        if self.machine.may_stand:
            wakes.append(self.deadline_ms)
        return min(wakes, default=None)
