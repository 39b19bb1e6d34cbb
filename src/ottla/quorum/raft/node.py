"""The state and the operations that the roles of a Raft node share.

`RaftNode` holds the durable state (epoch, vote, voters), the view of the log and the peers, and collects the
effects of a step. A `Role` is the role of the node in one epoch. It moves the node to another role through
`Transitions`, which `machine.RaftMachine` implements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ottla.protocol.message import Message
from ottla.protocol.uuids import ZERO_UUID
from ottla.quorum.quorum_state import NOT_VOTED, QuorumState
from ottla.quorum.raft.config import RaftConfig
from ottla.quorum.raft.effects import (
    AppendControl,
    AppendFetched,
    Effect,
    HighWatermark,
    Persist,
    Send,
    Truncate,
)
from ottla.quorum.raft.fetched import FetchedBatches
from ottla.quorum.raft.log_view import LogView
from ottla.quorum.raft.peers import Peers, Sent
from ottla.quorum.raft.requests import fetch_request
from ottla.quorum.raft.responses import Answer, LeaderInfo
from ottla.quorum.raft.voters import Endpoint, Voter, VoterHistory, VoterSet, endpoint_for
from ottla.quorum.snapshot import SnapshotId

START_FRACTION = 8  # of the election timeout, for a voter that starts
_FIRST_BOOTSTRAP_ID = -2


class Transitions(Protocol):
    """Changes of the role; the table at the top of `machine` says when each happens."""

    def become_unattached(self, epoch: int, now_ms: int, leader_id: int = -1) -> None: ...

    def become_prospective(
        self, now_ms: int, leader_id: int = -1, leader_endpoint: Endpoint | None = None
    ) -> None: ...

    def become_candidate(self, now_ms: int) -> None: ...

    def become_leader(self, now_ms: int, granting: Sequence[int]) -> None: ...

    def become_follower(self, epoch: int, leader_id: int, endpoint: Endpoint, now_ms: int) -> None: ...

    def become_resigned(self, successors: Sequence[Voter], now_ms: int) -> None: ...

    def learn_leader(self, leader_id: int, epoch: int, endpoint: Endpoint | None, now_ms: int) -> None: ...

    def vote_for(self, candidate: tuple[int, bytes], now_ms: int) -> None: ...


class Role:
    """The role of a node in one epoch. Events change its fields; `poll` then does what is due."""

    name = ""
    __slots__ = ("node",)

    def __init__(self, node: RaftNode) -> None:
        self.node = node

    @property
    def leader_id(self) -> int:
        """The leader of the epoch, -1 if unknown."""
        return -1

    @property
    def leader_endpoint(self) -> Endpoint | None:
        return None

    def enter(self, now_ms: int) -> None:
        """Called when the role begins."""

    def leave(self, now_ms: int) -> None:
        """Called before another role begins."""

    def poll(self, now_ms: int) -> None:
        """Do what is due: change the role, or send what can be sent. Called after every event."""
        raise NotImplementedError

    def wake_ms(self, now_ms: int) -> int | None:
        """When `poll` is next due without an event; later than now, unless the role has changed."""
        raise NotImplementedError

    def grants(self, *, log_is_up_to_date: bool, pre_vote: bool, voted_for: bool | None) -> bool:
        """Whether a vote is granted. `voted_for`: whether this epoch's vote went to that candidate."""
        if pre_vote:
            return log_is_up_to_date
        if voted_for is not None:
            return voted_for
        return log_is_up_to_date and self.leader_id < 0

    def on_answer(self, sent: Sent, answer: Answer, now_ms: int) -> None:
        """Handle the response of a peer of the same or an earlier epoch."""

    def on_failure(self, sent: Sent, now_ms: int, *, disconnected: bool) -> None:
        """Handle a request without a response; the peer is backed off."""


class RaftNode:
    """The state of one node. Roles read it, change it through its methods, and `emit` effects."""

    __slots__ = (
        "_persisted",
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
        "out",
        "peers",
        "probe_due_ms",
        "role",
        "transitions",
        "voted",
    )

    role: Role
    transitions: Transitions

    def __init__(
        self,
        config: RaftConfig,
        log: LogView,
        history: VoterHistory,
        stored: QuorumState,
        now_ms: int,
        draw: Callable[[int], int],
    ) -> None:
        self.config = config
        self.log = log
        self.draw = draw
        self.history = history
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
        # Effects of the current step change the log, and `log` does not reflect them yet.
        self.log_is_stale = False
        self.probe_due_ms = now_ms
        self.out: list[Effect] = []  # of the current step
        self.epoch = stored.leader_epoch
        self.voted: tuple[int, bytes] | None = None
        if stored.voted_id != NOT_VOTED:
            self.voted = (stored.voted_id, stored.voted_directory_id)
        self._persisted: tuple[int, tuple[int, bytes] | None, int] = (-1, None, -1)

    def is_persisted(self) -> None:
        """Record that the quorum-state file has the current epoch, vote and leader."""
        self._persisted = (self.epoch, self.voted, self.role.leader_id)

    # -- voters ----------------------------------------------------------------------------------------------

    @property
    def voters(self) -> VoterSet:
        """The present voters."""
        return self.history.voters

    @property
    def kraft_version(self) -> int:
        """0: fixed voters; 1: voters in the log."""
        return self.history.kraft_version

    @property
    def is_voter(self) -> bool:
        """Whether this node is a voter."""
        config = self.config
        return config.can_vote and self.voters.has(config.node_id, config.directory_id)

    @property
    def may_stand(self) -> bool:
        """Whether this node may lead. Not while its log is about to be replaced by a snapshot."""
        could_lead = self.is_voter or self._is_being_removed
        return could_lead and not self.is_shutting_down and self.installing is None

    @property
    def _is_being_removed(self) -> bool:
        """Whether an uncommitted record removes this node from the voters. The previous voters may still need
        it: it may be the only node with a log long enough to commit that record.
        """
        history = self.history
        if not self.config.can_vote or history.voters_offset < self.high_watermark:
            return False
        return history.voters_before.has(self.config.node_id, self.config.directory_id)

    @property
    def is_listed_wrongly(self) -> bool:
        """Whether the voters in the log have an outdated address of this node."""
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
        """How long to wait for a leader."""
        if self.is_starting:
            moment_ms = max(2, self.config.election_timeout_ms // START_FRACTION)
            return moment_ms // 2 + self.draw(moment_ms)
        return self.election_timeout_ms()

    def grants(
        self, candidate: tuple[int, bytes], *, last_epoch: int, last_offset: int, pre_vote: bool
    ) -> bool:
        """Whether this node votes (or would vote) for a candidate of this epoch with this log end."""
        return self.role.grants(
            log_is_up_to_date=self.is_up_to_date(last_epoch, last_offset),
            pre_vote=pre_vote,
            voted_for=None if self.voted is None else _same_replica(self.voted, candidate),
        )

    def is_up_to_date(self, last_epoch: int, last_offset: int) -> bool:
        return (last_epoch, last_offset) >= (self.log.last_epoch, self.log.end_offset)

    @property
    def endpoint_name(self) -> str:
        """The name of the controller listener."""
        return self.config.listeners[0].name if self.config.listeners else "CONTROLLER"

    def pick_endpoint(self, endpoints: Sequence[Endpoint]) -> Endpoint | None:
        return endpoint_for(endpoints, self.endpoint_name) or endpoint_for(endpoints)

    @property
    def leader_info(self) -> LeaderInfo:
        """The leader, as every response reports it."""
        return LeaderInfo(self.role.leader_id, self.epoch, self.role.leader_endpoint)

    def send(self, node_id: int, endpoint: Endpoint | None, request: Message, now_ms: int) -> int:
        """Send the request if the endpoint is known; return the request id."""
        request_id = self.peers.add(node_id, request, now_ms)
        if endpoint is None:
            self.peers.take(request_id)
            self.peers.failed(node_id, now_ms)
        else:
            self.emit(Send(request_id, node_id, endpoint, request))
        return request_id

    def contact_points(self) -> list[tuple[int, Endpoint]]:
        """Return nodes that may know the leader: the other voters and the bootstrap servers."""
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
        """Periodically send a Fetch to any node: the response names the leader."""
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
        """Emit an effect after the quorum-state file with the epoch and vote that it may depend on."""
        self.persist()
        self.out.append(effect)

    def persist(self) -> None:
        now = (self.epoch, self.voted, self.role.leader_id)
        if now == self._persisted:
            return
        self._persisted = now
        voted_id, voted_directory_id = self.voted or (NOT_VOTED, ZERO_UUID)
        state = QuorumState(
            leader_id=self.role.leader_id,
            leader_epoch=self.epoch,
            voted_id=voted_id,
            voted_directory_id=voted_directory_id,
            voters=sorted(self.voters.by_id),
            version=min(1, self.kraft_version),
        )
        self.out.append(Persist(state))

    def raise_high_watermark(self, offset: int) -> None:
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.history.forget_before(min(self.log.start_offset, offset))
            self.emit(HighWatermark(offset))

    def change_voters(self, offset: int, change: VoterSet | int) -> None:
        """Apply the voters or kraft.version of a record that is about to be appended at `offset`."""
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


def _same_replica(voted: tuple[int, bytes], candidate: tuple[int, bytes]) -> bool:
    """Whether the nodes are equal, and their directories if both are known."""
    if voted[0] != candidate[0]:
        return False
    return ZERO_UUID in (voted[1], candidate[1]) or voted[1] == candidate[1]
