"""The Raft machine of one node: `step(event, now_ms)` in, effects out; no disk, no network, no clock.

    machine = RaftMachine(config, log_view, state, now_ms, draw)
    for effect in machine.step(Tick(), now_ms): ...      # once at the start, then whenever something happens
    machine.next_wake_ms                                 # when to step(Tick()) at the latest

`draw(n)` returns a random number in range(n). Events and effects are documented in `events` and
`effects`. The shell carries out all effects of a step in order before the next step. Times are
milliseconds of a monotonic clock; the shell adds the wall clock to records and to DescribeQuorum responses.

The roles, each in its own module, and what moves a node from one to the next:

    from          to            when
    ------------  ------------  -----------------------------------------------------------------------------
    (start)       Resigned      quorum-state names this node as leader: it must not lead that epoch again
                  Follower      quorum-state names a leader whose address is known
                  Unattached    otherwise
                  A starting voter uses a short time-out in these: probably all voters are starting. Pre-votes
                  are harmless, as a node with a live leader refuses them. After that, or once there is a
                  leader or a vote was granted, the usual time-outs apply (`is_starting`).
    Unattached    Prospective   a voter has waited for the election timeout
                  Follower      any response or BeginQuorumEpoch names the leader
    Prospective   Candidate     a majority would vote for it
                  Follower      refused or timed out, and there was a leader in this epoch
                  Unattached    refused or timed out, and there was none; or it votes for another node
    Candidate     Leader        a majority has voted for it
                  Prospective   refused (after a pause) or timed out
                  Follower      another leads in the same epoch
    Follower      Prospective   the leader has not answered a voter for the fetch timeout, or the leader
                                resigned, or its process has ended
    Leader        Resigned      no majority has fetched for 1.5 fetch timeouts; the shell requests it; or it
                                was removed from the voters and that is committed
    Resigned      Unattached    an election timeout has passed: the next epoch begins
    any           Unattached    a newer epoch is seen and its leader is not known
    any           Follower      a newer epoch is seen and its leader is known

Only a Candidate starts an epoch (Prospective does not), and never the same epoch twice.
Observers are only Unattached or Follower. Safety rests on four rules: epoch and vote are persisted before
anything that depends on them leaves the node (`emit`); a vote goes only to a log that is at least as up to
date (`grants`); a follower fetches only after a flush, and the leader counts only the flushed part of its own
log (`Follower.poll`, `Leader.own_offset`); nothing is committed before a record of the
leader's own epoch is (`Leader.update_high_watermark`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.quorum.quorum_state import QuorumState
from ottla.quorum.raft.candidate import Candidate
from ottla.quorum.raft.config import RaftConfig, RaftState
from ottla.quorum.raft.effects import (
    Effect,
    LeaderChanged,
    ShutdownReady,
    VotersChanged,
)
from ottla.quorum.raft.events import (
    Event,
    RequestAbandoned,
    RequestFailed,
    RequestReceived,
    Resign,
    ResponseReceived,
    Shutdown,
    SnapshotFailed,
    SnapshotInstalled,
)
from ottla.quorum.raft.follower import Follower
from ottla.quorum.raft.leader import Leader
from ottla.quorum.raft.log_view import LogView
from ottla.quorum.raft.node import RaftNode, Role
from ottla.quorum.raft.peers import Sent
from ottla.quorum.raft.prospective import Prospective
from ottla.quorum.raft.resigned import Resigned
from ottla.quorum.raft.responses import read_answer
from ottla.quorum.raft.serving import HANDLERS
from ottla.quorum.raft.unattached import Unattached
from ottla.quorum.raft.voters import Endpoint, Voter, VoterHistory, VoterSet

LEADER = Leader.name
FOLLOWER = Follower.name


class RaftMachine:
    """See the module docstring. Public methods without a docstring are for the roles alone."""

    __slots__ = ("_announced_leader", "_announced_voters", "_is_ready_to_end", "_wake_ms", "node")

    def __init__(
        self, config: RaftConfig, log: LogView, state: RaftState, now_ms: int, draw: Callable[[int], int]
    ) -> None:
        stored = state.quorum_state or QuorumState()
        history = state.voters or VoterHistory(config.static_voters)
        node = self.node = RaftNode(config, log, history, stored, now_ms, draw)
        node.transitions = self
        node.role = self._first_role(stored, now_ms)
        if state.quorum_state is not None and node.epoch == stored.leader_epoch:
            node.is_persisted()
        self._is_ready_to_end = False
        self._announced_leader = (-1, -1)
        self._announced_voters = node.voters
        self._wake_ms: int | None = now_ms

    def _first_role(self, stored: QuorumState, now_ms: int) -> Role:
        if self.node.log.last_epoch > self.node.epoch:
            # The file is older than the log: its leader and vote do not apply to the log's epoch.
            self.node.epoch = self.node.log.last_epoch
            self.node.voted = None
            return Unattached(self.node, now_ms)
        if stored.leader_id == self.node.config.node_id:
            return Resigned(self.node, now_ms)
        endpoint = self.node.voters.endpoint_of(stored.leader_id)
        if stored.leader_id >= 0 and endpoint is not None:
            follower = Follower(self.node, now_ms, stored.leader_id, endpoint)
            follower.deadline_ms = now_ms + self.node.waiting_ms()
            return follower
        return Unattached(self.node, now_ms, stored.leader_id)

    # -- for the shell ---------------------------------------------------------------------------------------

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Process the event; return the effects to carry out, in order."""
        self.node.out = []
        self.node.log_is_stale = False
        self._take(event, now_ms)
        for sent in self.node.peers.expire(now_ms):
            self._failed(sent, now_ms, disconnected=False)
        role = None
        while role is not self.node.role:
            role = self.node.role
            role.poll(now_ms)
        self._announce()
        wakes = [role.wake_ms(now_ms), self.node.peers.next_wake_ms(now_ms)]
        self._wake_ms = min((wake_ms for wake_ms in wakes if wake_ms is not None), default=None)
        if self.node.log_is_stale:
            self._wake_ms = now_ms
        return self.node.out

    @property
    def role(self) -> str:
        """One of the names above."""
        return self.node.role.name

    @property
    def leader_id(self) -> int:
        """The leader of `epoch`, -1 if unknown."""
        return -1 if isinstance(self.node.role, Resigned) else self.node.role.leader_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader is reached."""
        return self.node.role.leader_endpoint

    @property
    def epoch(self) -> int:
        return self.node.epoch

    @property
    def high_watermark(self) -> int:
        """Everything below it is committed."""
        return self.node.high_watermark

    @property
    def voters(self) -> VoterSet:
        """The present voters."""
        return self.node.voters

    @property
    def history(self) -> VoterHistory:
        """The voters by offset of the log."""
        return self.node.history

    @property
    def kraft_version(self) -> int:
        """0: fixed voters; 1: voters in the log."""
        return self.node.kraft_version

    @property
    def is_voter(self) -> bool:
        """Whether this node is a voter."""
        return self.node.is_voter

    @property
    def config(self) -> RaftConfig:
        return self.node.config

    @property
    def next_wake_ms(self) -> int | None:
        """The latest time of the next Tick; None: only an event can change anything."""
        return self._wake_ms

    # -- events ----------------------------------------------------------------------------------------------

    def _take(self, event: Event, now_ms: int) -> None:
        if isinstance(event, RequestReceived):
            HANDLERS[type(event.request)](self.node, event.token, event.request, now_ms)
        elif isinstance(event, ResponseReceived):
            self._answered(event, now_ms)
        elif isinstance(event, RequestFailed):
            sent = self.node.peers.take(event.request_id)
            if sent is not None:
                self._failed(sent, now_ms, disconnected=event.disconnected)
        elif isinstance(event, RequestAbandoned):
            if isinstance(self.node.role, Leader):
                self.node.role.fetches.abandon(event.token)
                self.node.role.changes.abandon(event.token)
        elif isinstance(event, SnapshotInstalled):
            assert self.node.installing == event.snapshot_id, (self.node.installing, event.snapshot_id)
            self.node.installing = None
            self.node.history.restart(event.snapshot_id.end_offset, event.kraft_version, event.voters)
            self.node.raise_high_watermark(event.snapshot_id.end_offset)
        elif isinstance(event, SnapshotFailed):
            self.node.installing = None
            self.node.peers.failed(self.leader_id, now_ms)
        elif isinstance(event, Resign):
            if isinstance(self.node.role, Leader) and event.epoch == self.node.epoch:
                self.become_resigned(self.node.role.successors(), now_ms)
        elif isinstance(event, Shutdown):
            self.node.is_shutting_down = True
            if isinstance(self.node.role, Leader):
                self.become_resigned(self.node.role.successors(), now_ms)

    def _answered(self, event: ResponseReceived, now_ms: int) -> None:
        sent = self.node.peers.take(event.request_id)
        if sent is None:
            return
        assert event.response.API_KEY == sent.request.API_KEY, "the response does not match the request"
        self.node.peers.succeeded(sent.node_id)
        role = self.node.role
        if isinstance(sent.request, ApiVersionsRequest):
            if isinstance(role, Leader):
                role.changes.on_versions(sent, event.response, now_ms)
            return
        answer = read_answer(event.response, self.node.endpoint_name)
        if answer is None:
            self._failed(sent, now_ms, disconnected=False)
            return
        self.learn_leader(*answer.leader, now_ms)
        if self.node.role is role:
            role.on_answer(sent, answer, now_ms)

    def _failed(self, sent: Sent, now_ms: int, *, disconnected: bool) -> None:
        self.node.peers.failed(sent.node_id, now_ms)
        self.node.role.on_failure(sent, now_ms, disconnected=disconnected)

    def learn_leader(self, leader_id: int, epoch: int, endpoint: Endpoint | None, now_ms: int) -> None:
        """Process a claim about the leader of an epoch; adopt it if it is new."""
        if epoch < self.node.epoch:
            return
        is_other = leader_id >= 0 and leader_id != self.node.config.node_id
        endpoint = endpoint or self.node.voters.endpoint_of(leader_id)
        if epoch == self.node.epoch:
            role = self.node.role
            is_open = role.leader_id < 0 or isinstance(role, Unattached)
            if is_other and is_open and endpoint is not None and role.leader_id in (-1, leader_id):
                self.become_follower(epoch, leader_id, endpoint, now_ms)
        elif is_other and endpoint is not None:
            self.become_follower(epoch, leader_id, endpoint, now_ms)
        else:
            self.become_unattached(epoch, now_ms, leader_id if is_other else -1)

    # -- roles -----------------------------------------------------------------------------------------------

    def _become(self, role: Role, now_ms: int) -> None:
        self.node.peers.forget_requests()
        self.node.role = role
        role.enter(now_ms)

    def _leave_for(self, epoch: int, now_ms: int) -> None:
        """Leave the current role in its own epoch; the next role is in `epoch`."""
        assert epoch >= self.node.epoch, (epoch, self.node.epoch)
        self.node.role.leave(now_ms)
        if epoch > self.node.epoch:
            self.node.epoch = epoch
            self.node.voted = None

    def become_unattached(self, epoch: int, now_ms: int, leader_id: int = -1) -> None:
        self._leave_for(epoch, now_ms)
        self._become(Unattached(self.node, now_ms, leader_id), now_ms)

    def become_prospective(
        self, now_ms: int, leader_id: int = -1, leader_endpoint: Endpoint | None = None
    ) -> None:
        self._leave_for(self.node.epoch, now_ms)
        self._become(Prospective(self.node, now_ms, leader_id, leader_endpoint), now_ms)

    def become_candidate(self, now_ms: int) -> None:
        assert self.node.may_stand, "only a voter stands for election"
        self._leave_for(self.node.epoch + 1, now_ms)
        self.node.voted = (self.node.config.node_id, self.node.config.directory_id)
        self._become(Candidate(self.node, now_ms), now_ms)

    def become_leader(self, now_ms: int, granting: Sequence[int]) -> None:
        self._leave_for(self.node.epoch, now_ms)
        self._become(Leader(self.node, now_ms, granting), now_ms)

    def become_follower(self, epoch: int, leader_id: int, endpoint: Endpoint, now_ms: int) -> None:
        assert leader_id != self.node.config.node_id, "a node cannot follow itself"
        self._leave_for(epoch, now_ms)
        self._become(Follower(self.node, now_ms, leader_id, endpoint), now_ms)

    def become_resigned(self, successors: Sequence[Voter], now_ms: int) -> None:
        self._leave_for(self.node.epoch, now_ms)
        self._become(Resigned(self.node, now_ms, successors), now_ms)

    # -- votes -----------------------------------------------------------------------------------------------

    def vote_for(self, candidate: tuple[int, bytes], now_ms: int) -> None:
        """Grant the vote of this epoch, and give the candidate time to win."""
        self.node.is_starting = False
        if self.node.voted is None:
            self.node.voted = candidate
            if isinstance(self.node.role, Unattached | Prospective):
                self.become_unattached(self.node.epoch, now_ms, self.node.role.leader_id)

    # -- announcements ---------------------------------------------------------------------------------------

    def _announce(self) -> None:
        """Emit the changes of leader, high watermark and voters to the shell."""
        self.node.persist()
        if (self.leader_id, self.node.epoch) != self._announced_leader:
            self._announced_leader = (self.leader_id, self.node.epoch)
            self.node.emit(LeaderChanged(self.leader_id, self.node.epoch, self.leader_endpoint))
        if self.node.voters is not self._announced_voters:
            self._announced_voters = self.node.voters
            self.node.emit(VotersChanged(self.node.voters))
        role = self.node.role
        if self.node.is_shutting_down and not self._is_ready_to_end:
            self._is_ready_to_end = not isinstance(role, Resigned) or role.has_notified_all
            if self._is_ready_to_end:
                self.node.emit(ShutdownReady())
