"""The Raft machine of one node: `step(event, now_ms)` in, effects out; no disk, no network, no clock.

    machine = RaftMachine(config, log_view, state, now_ms, draw)
    for effect in machine.step(Tick(), now_ms): ...      # once at the start, then whenever something happens
    machine.next_wake_ms                                 # when to step(Tick()) at the latest

`draw(n)` gives a random number of range(n). What an event or an effect means stands in `events` and
`effects`. The shell does all effects of a step in order before it steps again. Times are wall-clock
milliseconds, as they also go into control records and DescribeQuorum.

The roles, each in its own module, and what moves a node from one to the next:

    from          to            when
    ------------  ------------  -----------------------------------------------------------------------------
    (start)       Resigned      quorum-state says that this node leads: its epoch must not be led again
                  Follower      quorum-state names a leader whose address is known
                  Unattached    otherwise
                  A voter that starts waits only for a moment in these: most likely all of them start. To ask
                  for pre-votes is harmless, as whoever hears of a leader refuses them. After that, or once
                  there is a leader or a vote is given, it is as patient as ever (`is_starting`).
    Unattached    Prospective   a voter has waited for the election timeout
                  Follower      any answer or BeginQuorumEpoch tells the leader
    Prospective   Candidate     a majority would vote for it
                  Follower      refused or timed out, and there was a leader in this epoch
                  Unattached    refused or timed out, and there was none; or it gives its vote to another
    Candidate     Leader        a majority has voted for it
                  Prospective   refused (after a pause) or timed out
                  Follower      another leads in the same epoch
    Follower      Prospective   a voter has not been answered by the leader for the fetch timeout, or the
                                leader resigned, or its process is seen to be gone
    Leader        Resigned      no majority has fetched for 1.5 fetch timeouts; the shell asks for it; or it
                                was removed from the voters and that is committed
    Resigned      Unattached    an election timeout has passed: on to the next epoch
    any           Unattached    a newer epoch is seen and its leader is not known
    any           Follower      a newer epoch is seen and its leader is known

Only a Candidate begins an epoch by standing for it (Prospective does not), and never twice for the same one.
Observers are only Unattached or Follower. Safety rests on four rules: epoch and vote are persisted before
anything that depends on them leaves the node (`emit`); a vote goes only to a log that has at least as much
(`grants`); a follower fetches behind what it has flushed, and the leader counts its own log only as far as it
is flushed (`Follower.poll`, `Leader.own_offset`); nothing counts as committed before a record of the leader's
own epoch is (`Leader.update_high_watermark`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.protocol.message import Message
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.uuids import ZERO_UUID
from ottla.quorum.quorum_state import NOT_VOTED, QuorumState
from ottla.quorum.raft.candidate import Candidate
from ottla.quorum.raft.config import RaftConfig, RaftState
from ottla.quorum.raft.effects import (
    AppendControl,
    AppendFetched,
    Effect,
    HighWatermark,
    LeaderChanged,
    Persist,
    Send,
    ShutdownReady,
    Truncate,
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
from ottla.quorum.raft.fetched import FetchedBatches
from ottla.quorum.raft.follower import Follower
from ottla.quorum.raft.leader import Leader
from ottla.quorum.raft.log_view import LogView
from ottla.quorum.raft.peers import Peers, Sent
from ottla.quorum.raft.prospective import Prospective
from ottla.quorum.raft.requests import fetch_request
from ottla.quorum.raft.resigned import Resigned
from ottla.quorum.raft.responses import LeaderInfo, read_answer
from ottla.quorum.raft.role import Role
from ottla.quorum.raft.serving import HANDLERS
from ottla.quorum.raft.unattached import Unattached
from ottla.quorum.raft.voters import Endpoint, Voter, VoterHistory, VoterSet, endpoint_for
from ottla.quorum.snapshot import SnapshotId

LEADER = Leader.name
FOLLOWER = Follower.name

START_FRACTION = 8  # of the election timeout, for a voter that starts
_FIRST_BOOTSTRAP_ID = -2


class RaftMachine:
    """See the top of the module. What has no underscore and is not documented here is for the roles alone."""

    __slots__ = (
        "_announced_leader",
        "_announced_voters",
        "_is_ready_to_end",
        "_out",
        "_persisted",
        "_voted",
        "_wake_ms",
        "config",
        "draw",
        "epoch",
        "high_watermark",
        "history",
        "installing",
        "is_shutting_down",
        "is_starting",
        "log",
        "log_is_stale",
        "peers",
        "probe_due_ms",
        "role_state",
    )

    def __init__(
        self, config: RaftConfig, log: LogView, state: RaftState, now_ms: int, draw: Callable[[int], int]
    ) -> None:
        self.config = config
        self.log = log
        self.draw = draw
        self.history = state.voters or VoterHistory(config.static_voters)
        self.peers = Peers(
            timeout_ms=config.request_timeout_ms,
            backoff_ms=config.retry_backoff_ms,
            backoff_max_ms=min(config.fetch_timeout_ms // 4, config.election_timeout_ms // 2),
        )
        snapshot = log.latest_snapshot
        self.high_watermark = 0 if snapshot is None else snapshot.end_offset
        self.installing: SnapshotId | None = None
        self.is_shutting_down = False
        self.is_starting = True
        # Effects of the present step have changed the log, and `log` does not show it yet.
        self.log_is_stale = False
        self.probe_due_ms = now_ms
        self._out: list[Effect] = []
        self._is_ready_to_end = False
        stored = state.quorum_state or QuorumState()
        self.epoch = stored.leader_epoch
        self._voted: tuple[int, bytes] | None = None
        if stored.voted_id != NOT_VOTED:
            self._voted = (stored.voted_id, stored.voted_directory_id)
        self.role_state = self._first_role(stored, now_ms)
        self._persisted = (self.epoch, self._voted, self.role_state.leader_id)
        if state.quorum_state is None or self.epoch != stored.leader_epoch:
            self._persisted = (-1, None, -1)
        self._announced_leader = (-1, -1)
        self._announced_voters = self.voters
        self._wake_ms: int | None = now_ms

    def _first_role(self, stored: QuorumState, now_ms: int) -> Role:
        if self.log.last_epoch > self.epoch:
            # The file is older than the log: what it says of its epoch is of no use.
            self.epoch = self.log.last_epoch
            self._voted = None
            return Unattached(self, now_ms)
        if stored.leader_id == self.config.node_id:
            return Resigned(self, now_ms)
        endpoint = self.voters.endpoint_of(stored.leader_id)
        if stored.leader_id >= 0 and endpoint is not None:
            follower = Follower(self, now_ms, stored.leader_id, endpoint)
            follower.deadline_ms = now_ms + self.waiting_ms()
            return follower
        return Unattached(self, now_ms, stored.leader_id)

    # -- for the shell ---------------------------------------------------------------------------------------

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Take note of the event; what is to be done for it, in this order."""
        self._out = []
        self.log_is_stale = False
        self._take(event, now_ms)
        for sent in self.peers.expire(now_ms):
            self._failed(sent, now_ms, disconnected=False)
        role = None
        while role is not self.role_state:
            role = self.role_state
            role.poll(now_ms)
        self._announce()
        wakes = [role.wake_ms(now_ms), self.peers.next_wake_ms(now_ms)]
        self._wake_ms = min((wake_ms for wake_ms in wakes if wake_ms is not None), default=None)
        if self.log_is_stale:
            self._wake_ms = now_ms
        return self._out

    @property
    def role(self) -> str:
        """One of the names above."""
        return self.role_state.name

    @property
    def leader_id(self) -> int:
        """Who leads in `epoch`, -1 if it is not known here."""
        return -1 if isinstance(self.role_state, Resigned) else self.role_state.leader_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader is reached."""
        return self.role_state.leader_endpoint

    @property
    def voters(self) -> VoterSet:
        """Who votes at present."""
        return self.history.voters

    @property
    def kraft_version(self) -> int:
        """0: fixed voters; 1: voters in the log."""
        return self.history.kraft_version

    @property
    def is_voter(self) -> bool:
        """Is this node one of the voters?"""
        config = self.config
        return config.can_vote and self.voters.has(config.node_id, config.directory_id)

    @property
    def next_wake_ms(self) -> int | None:
        """When the machine wants a Tick at the latest; None: only an event can move it."""
        return self._wake_ms

    # -- events ----------------------------------------------------------------------------------------------

    def _take(self, event: Event, now_ms: int) -> None:
        if isinstance(event, RequestReceived):
            HANDLERS[type(event.request)](self, event.token, event.request, now_ms)
        elif isinstance(event, ResponseReceived):
            self._answered(event, now_ms)
        elif isinstance(event, RequestFailed):
            sent = self.peers.take(event.request_id)
            if sent is not None:
                self._failed(sent, now_ms, disconnected=event.disconnected)
        elif isinstance(event, RequestAbandoned):
            if isinstance(self.role_state, Leader):
                self.role_state.fetches.abandon(event.token)
                self.role_state.changes.abandon(event.token)
        elif isinstance(event, SnapshotInstalled):
            assert self.installing == event.snapshot_id, (self.installing, event.snapshot_id)
            self.installing = None
            self.history.restart(event.snapshot_id.end_offset, event.kraft_version, event.voters)
            self.raise_high_watermark(event.snapshot_id.end_offset)
        elif isinstance(event, SnapshotFailed):
            self.installing = None
            self.peers.failed(self.leader_id, now_ms)
        elif isinstance(event, Resign):
            if isinstance(self.role_state, Leader) and event.epoch == self.epoch:
                self.become_resigned(self.role_state.successors(), now_ms)
        elif isinstance(event, Shutdown):
            self.is_shutting_down = True
            if isinstance(self.role_state, Leader):
                self.become_resigned(self.role_state.successors(), now_ms)

    def _answered(self, event: ResponseReceived, now_ms: int) -> None:
        sent = self.peers.take(event.request_id)
        if sent is None:
            return
        assert event.response.API_KEY == sent.request.API_KEY, "an answer to another request"
        self.peers.succeeded(sent.node_id)
        role = self.role_state
        if isinstance(sent.request, ApiVersionsRequest):
            if isinstance(role, Leader):
                role.changes.on_versions(sent, event.response, now_ms)
            return
        answer = read_answer(event.response, self.endpoint_name)
        if answer is None:
            self._failed(sent, now_ms, disconnected=False)
            return
        self.learn_leader(*answer.leader, now_ms)
        if self.role_state is role:
            role.on_answer(sent, answer, now_ms)

    def _failed(self, sent: Sent, now_ms: int, *, disconnected: bool) -> None:
        self.peers.failed(sent.node_id, now_ms)
        self.role_state.on_failure(sent, now_ms, disconnected=disconnected)

    def learn_leader(self, leader_id: int, epoch: int, endpoint: Endpoint | None, now_ms: int) -> None:
        """Somebody says who leads in which epoch; take it if it is news."""
        if epoch < self.epoch:
            return
        is_other = leader_id >= 0 and leader_id != self.config.node_id
        endpoint = endpoint or self.voters.endpoint_of(leader_id)
        if epoch == self.epoch:
            role = self.role_state
            is_open = role.leader_id < 0 or isinstance(role, Unattached)
            if is_other and is_open and endpoint is not None and role.leader_id in (-1, leader_id):
                self.become_follower(epoch, leader_id, endpoint, now_ms)
        elif is_other and endpoint is not None:
            self.become_follower(epoch, leader_id, endpoint, now_ms)
        else:
            self.become_unattached(epoch, now_ms, leader_id if is_other else -1)

    # -- roles -----------------------------------------------------------------------------------------------

    def _become(self, role: Role, now_ms: int) -> None:
        self.peers.forget_requests()
        self.role_state = role
        role.enter(now_ms)

    def _leave_for(self, epoch: int, now_ms: int) -> None:
        """The present role ends, in its own epoch; what follows is in `epoch`."""
        assert epoch >= self.epoch, (epoch, self.epoch)
        self.role_state.leave(now_ms)
        if epoch > self.epoch:
            self.epoch = epoch
            self._voted = None

    def become_unattached(self, epoch: int, now_ms: int, leader_id: int = -1) -> None:
        self._leave_for(epoch, now_ms)
        self._become(Unattached(self, now_ms, leader_id), now_ms)

    def become_prospective(
        self, now_ms: int, leader_id: int = -1, leader_endpoint: Endpoint | None = None
    ) -> None:
        self._leave_for(self.epoch, now_ms)
        self._become(Prospective(self, now_ms, leader_id, leader_endpoint), now_ms)

    def become_candidate(self, now_ms: int) -> None:
        assert self.may_stand, "only a voter stands for election"
        self._leave_for(self.epoch + 1, now_ms)
        self._voted = (self.config.node_id, self.config.directory_id)
        self._become(Candidate(self, now_ms), now_ms)

    def become_leader(self, now_ms: int, granting: Sequence[int]) -> None:
        self._leave_for(self.epoch, now_ms)
        self._become(Leader(self, now_ms, granting), now_ms)

    def become_follower(self, epoch: int, leader_id: int, endpoint: Endpoint, now_ms: int) -> None:
        assert leader_id != self.config.node_id, "nobody follows itself"
        self._leave_for(epoch, now_ms)
        self._become(Follower(self, now_ms, leader_id, endpoint), now_ms)

    def become_resigned(self, successors: Sequence[Voter], now_ms: int) -> None:
        self._leave_for(self.epoch, now_ms)
        self._become(Resigned(self, now_ms, successors), now_ms)

    # -- votes -----------------------------------------------------------------------------------------------

    @property
    def may_stand(self) -> bool:
        """Could this node lead? Not while its log is about to be replaced by a snapshot."""
        could_lead = self.is_voter or self._is_being_removed
        return could_lead and not self.is_shutting_down and self.installing is None

    @property
    def _is_being_removed(self) -> bool:
        """Does only an uncommitted record say that this node is no voter? The voters before it may then need
        it: nobody else may have a log as long, and thus be able to commit that very record.
        """
        history = self.history
        if not self.config.can_vote or history.voters_offset < self.high_watermark:
            return False
        return history.voters_before.has(self.config.node_id, self.config.directory_id)

    @property
    def is_listed_wrongly(self) -> bool:
        """Does the set of voters in the log have an old address of this node?"""
        listeners = self.config.listeners
        if not listeners or self.kraft_version < 1 or not self.is_voter:
            return False
        return self.voters.by_id[self.config.node_id].endpoints != listeners

    @property
    def is_only_voter(self) -> bool:
        return self.is_voter and len(self.voters) == 1

    def election_timeout_ms(self) -> int:
        timeout_ms = self.config.election_timeout_ms
        return timeout_ms + self.draw(max(1, timeout_ms))

    def waiting_ms(self) -> int:
        """How long to wait for a leader to be heard of."""
        if self.is_starting:
            moment_ms = max(2, self.config.election_timeout_ms // START_FRACTION)
            return moment_ms // 2 + self.draw(moment_ms)
        return self.election_timeout_ms()

    def grants(
        self, candidate: tuple[int, bytes], *, last_epoch: int, last_offset: int, pre_vote: bool
    ) -> bool:
        """Does (or would) this node vote for a candidate of this epoch whose log ends like this?"""
        return self.role_state.grants(
            log_is_up_to_date=self.is_up_to_date(last_epoch, last_offset),
            pre_vote=pre_vote,
            voted_for=None if self._voted is None else _same_replica(self._voted, candidate),
        )

    def is_up_to_date(self, last_epoch: int, last_offset: int) -> bool:
        return (last_epoch, last_offset) >= (self.log.last_epoch, self.log.end_offset)

    def vote_for(self, candidate: tuple[int, bytes], now_ms: int) -> None:
        """The vote of this epoch is given; the candidate gets the time to win."""
        self.is_starting = False
        if self._voted is None:
            self._voted = candidate
            if isinstance(self.role_state, Unattached | Prospective):
                self.become_unattached(self.epoch, now_ms, self.role_state.leader_id)

    # -- asking ----------------------------------------------------------------------------------------------

    @property
    def endpoint_name(self) -> str:
        """The name of the listener that controllers talk to."""
        return self.config.listeners[0].name if self.config.listeners else "CONTROLLER"

    def pick_endpoint(self, endpoints: Sequence[Endpoint]) -> Endpoint | None:
        return endpoint_for(endpoints, self.endpoint_name) or endpoint_for(endpoints)

    @property
    def leader_info(self) -> LeaderInfo:
        """What every answer tells of the leader."""
        return LeaderInfo(self.role_state.leader_id, self.epoch, self.role_state.leader_endpoint)

    def send(self, node_id: int, endpoint: Endpoint | None, request: Message, now_ms: int) -> int:
        """Send, if it is known where to; the id of the request."""
        request_id = self.peers.add(node_id, request, now_ms)
        if endpoint is None:
            self.peers.take(request_id)
            self.peers.failed(node_id, now_ms)
        else:
            self.emit(Send(request_id, node_id, endpoint, request))
        return request_id

    def contact_points(self) -> list[tuple[int, Endpoint]]:
        """Whom to ask who leads: the other voters, and the bootstrap servers behind which may be anybody."""
        own = {(each.host, each.port) for each in self.config.listeners}
        points = []
        for voter in self.voters:
            if voter.node_id != self.config.node_id and voter.endpoints:
                points.append((voter.node_id, voter.endpoints[0]))
                own.add(voter.endpoints[0][1:])
        for index, endpoint in enumerate(self.config.bootstrap):
            if endpoint[1:] not in own:
                points.append((_FIRST_BOOTSTRAP_ID - index, endpoint))
        return points

    def probe(self, now_ms: int) -> None:
        """Ask anybody, once in a while, by a Fetch: the answer tells who leads."""
        log = self.log
        if now_ms < self.probe_due_ms or self.log_is_stale or log.flushed_offset < log.end_offset:
            return
        points = [point for point in self.contact_points() if self.peers.is_ready(point[0], now_ms)]
        if not points or self.installing is not None:
            return
        self.probe_due_ms = now_ms + max(self.config.retry_backoff_ms, self.config.election_timeout_ms // 10)
        node_id, endpoint = points[self.draw(len(points))]
        request = fetch_request(
            self.config,
            self.epoch,
            offset=log.end_offset,
            last_epoch=log.last_epoch,
            high_watermark=self.high_watermark,
            max_wait_ms=0,
        )
        self.send(node_id, endpoint, request, now_ms)

    # -- effects ---------------------------------------------------------------------------------------------

    def emit(self, effect: Effect) -> None:
        """Every effect comes after the file with the epoch and the vote that it may depend on."""
        self._persist()
        self._out.append(effect)

    def _persist(self) -> None:
        now = (self.epoch, self._voted, self.role_state.leader_id)
        if now == self._persisted:
            return
        self._persisted = now
        voted_id, voted_directory_id = self._voted or (NOT_VOTED, ZERO_UUID)
        state = QuorumState(
            leader_id=self.role_state.leader_id,
            leader_epoch=self.epoch,
            voted_id=voted_id,
            voted_directory_id=voted_directory_id,
            voters=sorted(self.voters.by_id),
            version=min(1, self.kraft_version),
        )
        self._out.append(Persist(state))

    def _announce(self) -> None:
        """What the shell wants to hear of whatever the reason was."""
        self._persist()
        if (self.leader_id, self.epoch) != self._announced_leader:
            self._announced_leader = (self.leader_id, self.epoch)
            self.emit(LeaderChanged(self.leader_id, self.epoch, self.leader_endpoint))
        if self.voters is not self._announced_voters:
            self._announced_voters = self.voters
            self.emit(VotersChanged(self.voters))
        role = self.role_state
        if self.is_shutting_down and not self._is_ready_to_end:
            self._is_ready_to_end = not isinstance(role, Resigned) or role.has_told_all
            if self._is_ready_to_end:
                self.emit(ShutdownReady())

    def raise_high_watermark(self, offset: int) -> None:
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.history.forget_before(min(self.log.start_offset, offset))
            self.emit(HighWatermark(offset))

    def change_voters(self, offset: int, change: VoterSet | int) -> None:
        """A record at `offset`, about to be appended, brings a set of voters or a kraft.version."""
        self.history.add(offset, change)

    def append_control(self, batch: bytearray) -> None:
        assert not self.log_is_stale, "one change of the log at a time"
        self.log_is_stale = True
        self.emit(AppendControl(batch, self.epoch))

    def append_fetched(self, batches: FetchedBatches) -> None:
        assert not self.log_is_stale, "one change of the log at a time"
        self.log_is_stale = True
        for offset, change in batches.voter_changes:
            self.change_voters(offset, change)
        self.emit(AppendFetched(batches.records))

    def truncate(self, offset: int) -> None:
        assert offset >= self.high_watermark, (offset, self.high_watermark)
        self.log_is_stale = True
        self.history.truncate(offset)
        self.emit(Truncate(offset))


def _same_replica(voted: tuple[int, bytes], asking: tuple[int, bytes]) -> bool:
    """The same node, and the same directory where both name one."""
    if voted[0] != asking[0]:
        return False
    return ZERO_UUID in (voted[1], asking[1]) or voted[1] == asking[1]
