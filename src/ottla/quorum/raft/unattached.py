"""Unattached: a node that knows the epoch, but not the address of a leader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.quorum.raft.node import Role

if TYPE_CHECKING:
    from ottla.quorum.raft.node import RaftNode


class Unattached(Role):
    """Probes for the leader; a voter starts an election after the election timeout."""

    name = "unattached"
    __slots__ = ("_leader_id", "deadline_ms")

    def __init__(self, node: RaftNode, now_ms: int, leader_id: int = -1) -> None:
        super().__init__(node)
        # A leader with an unknown address cannot be followed, but prevents votes for other nodes.
        self._leader_id = leader_id
        self.deadline_ms = now_ms if node.is_only_voter else now_ms + node.waiting_ms()

    @property
    def leader_id(self) -> int:
        return self._leader_id

    def poll(self, now_ms: int) -> None:
        if self.node.may_stand and now_ms >= self.deadline_ms:
            self.node.transitions.become_prospective(now_ms)
        else:
            self.node.probe(now_ms)

    def wake_ms(self, now_ms: int) -> int | None:
        wakes = [self.node.probe_due_ms] if self.node.probe_due_ms > now_ms else []
        if self.node.may_stand:
            wakes.append(self.deadline_ms)
        return min(wakes, default=None)
