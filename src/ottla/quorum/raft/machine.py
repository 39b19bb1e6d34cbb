"""The Raft machine of one node: `step(event, now_ms)` in, effects out; no disk, no network, no clock.

    machine = RaftMachine(config, log_view, state, now_ms, draw)
    for effect in machine.step(Tick(), now_ms): ...      # once at the start, then whenever something happens
    machine.next_wake_ms                                 # when to step(Tick()) at the latest

`draw(n)` gives a random number of range(n). What an event or an effect means stands in `events` and
`effects`. The shell does all effects of a step in order before it steps again.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.quorum.raft.config import RaftConfig, RaftState
from ottla.quorum.raft.effects import Effect
from ottla.quorum.raft.events import Event
from ottla.quorum.raft.log_view import LogView
from ottla.quorum.raft.voters import Endpoint, VoterSet

UNATTACHED = "unattached"
PROSPECTIVE = "prospective"
CANDIDATE = "candidate"
LEADER = "leader"
FOLLOWER = "follower"
RESIGNED = "resigned"


class RaftMachine:
    """See the top of the module."""

    def __init__(
        self, config: RaftConfig, log: LogView, state: RaftState, now_ms: int, draw: Callable[[int], int]
    ) -> None:
        raise NotImplementedError

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Take note of the event; what is to be done for it, in this order."""
        raise NotImplementedError

    @property
    def role(self) -> str:
        """One of the names above."""
        raise NotImplementedError

    @property
    def epoch(self) -> int:
        """The newest epoch this node knows of."""
        raise NotImplementedError

    @property
    def leader_id(self) -> int:
        """Who leads in `epoch`, -1 if it is not known here."""
        raise NotImplementedError

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader is reached."""
        raise NotImplementedError

    @property
    def high_watermark(self) -> int:
        """Everything below is committed; never falls while the process lives."""
        raise NotImplementedError

    @property
    def voters(self) -> VoterSet:
        """Who votes at present."""
        raise NotImplementedError

    @property
    def kraft_version(self) -> int:
        """0: fixed voters; 1: voters in the log."""
        raise NotImplementedError

    @property
    def next_wake_ms(self) -> int | None:
        """When the machine wants a Tick at the latest; None: only an event can move it."""
        raise NotImplementedError
