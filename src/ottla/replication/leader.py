"""A partition on its leader: followers, ISR, high watermark.

The rules:

1.  The committed ISR is what the controller last said. A change is proposed by the leader
    (`isr_change_proposal`), one at a time, at the current (leader epoch, partition epoch), and counts when
    the controller has accepted it.
2.  Until then the leader does not know which of the two the controller has, so it uses the cautious one each
    time: the *maximal* ISR (committed and joining) for the high watermark, the committed ISR for admission.
3.  High watermark = the smallest log end over the leader, the maximal ISR and those eligible replicas that
    are caught up and about to join. It never decreases, and does not move while the ISR of the own metadata
    is smaller than min.insync.replicas (else replicas of the ELR could lack committed records).
    The minimum comes with the metadata, and a response of the controller may overtake them: the controller
    may have counted with another minimum. So a response alone neither removes a member that the high
    watermark waits for nor completes the minimum: that takes metadata of the same partition epoch.
4.  A follower may join when its log reaches the high watermark and the start of this leader's epoch, it
    fetched lately, and it is eligible: unfenced, not shutting down, and the same incarnation that fetched.
5.  A follower leaves when it has not been caught up for replica.lag.time.max.ms (see `progress.py`).
6.  A proposal ends by the controller's response or by newer metadata. OPERATION_NOT_ATTEMPTED and
    INELIGIBLE_REPLICA say that it was not and will not be applied: back to the committed ISR, and a pause.
    FENCED_LEADER_EPOCH, NEW_LEADER_ELECTED, INVALID_UPDATE_VERSION, INVALID_REQUEST and unknown topics leave
    it open: newer metadata is in flight, and only it may end the caution. Everything else
    (timeouts, NOT_CONTROLLER, STALE_BROKER_EPOCH...) may or may not have been applied: retry it.
7.  Metadata with an older partition epoch than a response, or with the same one, only confirm it (rule 3).
    With a newer one no earlier proposal can be applied any more.
8.  acks=all: refused while the committed ISR is below min.insync.replicas, done when the high watermark has
    passed.

Every event returns flags that say what to do next; 0 means nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.replication.isr_change import IsrChange
from ottla.replication.progress import LONG_AGO_MS, UNKNOWN_OFFSET, FollowerProgress, SessionFetchTime

# Followers fetch every few milliseconds: a refused change must not be proposed with each fetch.
REFUSAL_PAUSE_MS = 50

# What an event requires of the shell.
HIGH_WATERMARK_MOVED = 1  # complete the waiters; notify followers and consumers
ISR_CHANGE_WANTED = 2  # call isr_change_proposal and send what it returns
RETRY_ISR_CHANGE = 4  # send the pending change once more, after a pause
REFUSED = 8  # the fetch is of no replica, or of a replaced incarnation: return nothing
LOG_START_MOVED = 16  # the low watermark may have moved: look at waiting DeleteRecords

_NOT_APPLIED = frozenset((ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA))
_DECIDED_BY_METADATA = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    )
)

# (node id, broker epoch of its last fetch, -1 if unknown) -> may it join the ISR?
Eligible = Callable[[int, int], bool]

if TYPE_CHECKING:
    from typing import Protocol

    class PartitionView(Protocol):
        """A partition in the cluster's metadata; `ottla.controller.image.parts.PartitionImage` is one."""

        @property
        def replicas(self) -> tuple[int, ...]: ...

        @property
        def isr(self) -> tuple[int, ...]: ...

        @property
        def leader(self) -> int: ...

        @property
        def leader_epoch(self) -> int: ...

        @property
        def partition_epoch(self) -> int: ...


class LeaderState:
    """One partition for as long as this node leads it."""

    __slots__ = (
        "_eligible",
        "_join_after_ms",
        "_metadata_epoch",
        "_metadata_isr",
        "_unconfirmed",
        "_waits_for",
        "counted_end_offset",
        "epoch_start_offset",
        "followers",
        "high_watermark",
        "isr",
        "lag_time_max_ms",
        "leader_epoch",
        "log_end_offset",
        "log_start_offset",
        "maximal_isr",
        "min_isr",
        "node_id",
        "partition_epoch",
        "pending",
        "replicas",
    )

    def __init__(
        self,
        node_id: int,
        partition: PartitionView,
        *,
        log_start_offset: int,
        log_end_offset: int,
        high_watermark: int,
        min_isr: int,
        lag_time_max_ms: int,
        eligible: Eligible,
        now_ms: int,
        counted_end_offset: int | None = None,
    ) -> None:
        """Start to lead; the log's epoch cache knows that the epoch begins at `log_end_offset`."""
        assert log_start_offset <= log_end_offset, (log_start_offset, log_end_offset)
        assert node_id in partition.replicas, (node_id, partition.replicas)
        self.node_id = node_id
        self.min_isr = min_isr
        self.lag_time_max_ms = lag_time_max_ms
        self._eligible = eligible
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        # What of the own log counts for the high watermark: less than all where acknowledgements wait for the
        # disk.
        self.counted_end_offset = log_end_offset if counted_end_offset is None else counted_end_offset
        self.high_watermark = min(max(high_watermark, log_start_offset), log_end_offset)
        self.epoch_start_offset = log_end_offset
        self.leader_epoch = partition.leader_epoch
        self.partition_epoch = partition.partition_epoch
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = tuple(partition.isr)
        self.maximal_isr = self.isr
        self._metadata_epoch = partition.partition_epoch
        self._metadata_isr = self.isr
        # Responses of the controller that the own metadata do not have yet: partition epoch and ISR.
        self._unconfirmed: tuple[tuple[int, tuple[int, ...]], ...] = ()
        self._waits_for = self.isr  # members of any of these ISRs
        self.pending: IsrChange | None = None
        self._join_after_ms = LONG_AGO_MS
        self.followers: dict[int, FollowerProgress] = {}
        self._assign(tuple(partition.replicas), now_ms)
        self._advance(now_ms)

    def __repr__(self) -> str:
        return (
            f"LeaderState({self.node_id}, epoch {self.leader_epoch}/{self.partition_epoch}, isr {self.isr},"
            f" high watermark {self.high_watermark} of {self.log_end_offset})"
        )

    # -- the log

    def log_appended(self, end_offset: int, now_ms: int, counts: bool = True) -> int:
        """The log grew to `end_offset`. Without `counts` the high watermark waits for `log_flushed`."""
        assert end_offset >= self.log_end_offset, (end_offset, self.log_end_offset)
        self.log_end_offset = end_offset
        for follower in self.followers.values():
            follower.leader_appended()
        return self.log_flushed(end_offset, now_ms) if counts else 0

    def log_flushed(self, end_offset: int, now_ms: int) -> int:
        """Everything below `end_offset` counts for the high watermark."""
        if end_offset <= self.counted_end_offset:
            return 0
        assert end_offset <= self.log_end_offset, (end_offset, self.log_end_offset)
        self.counted_end_offset = end_offset
        return self._advance(now_ms)

    def log_start_moved(self, log_start_offset: int) -> None:
        self.log_start_offset = log_start_offset

    # -- followers

    def follower_fetched(
        self,
        node_id: int,
        fetch_offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        broker_epoch: int,
        now_ms: int,
        session_time: SessionFetchTime | None = None,
    ) -> int:
        """Record a fetch at `fetch_offset`: the follower has everything below.

        Call it after the checks of leader epoch, range and divergence, and before the records are read;
        `leader_end_offset` is the log end that this fetch saw. With a `session_time` no further call is
        needed while nothing is appended here and the follower's request is unchanged.
        """
        follower = self.followers.get(node_id)
        if follower is None or (0 <= broker_epoch < follower.broker_epoch):
            return REFUSED
        moved = fetch_offset != follower.end_offset
        flags = LOG_START_MOVED if log_start_offset != follower.log_start_offset else 0
        follower.fetched(
            fetch_offset, log_start_offset, leader_end_offset, broker_epoch, now_ms, session_time
        )
        if moved:
            flags |= self._advance(now_ms)
        if self.pending is None and node_id not in self.isr and self._may_join(follower, now_ms):
            flags |= ISR_CHANGE_WANTED
        return flags

    def tick(self, now_ms: int) -> int:
        """Call it every half lag limit, and when a broker was fenced or unfenced."""
        flags = self._advance(now_ms)
        if self.pending is None and (self._lagging(now_ms) or self._joining(now_ms)):
            flags |= ISR_CHANGE_WANTED
        return flags

    # -- the ISR

    def isr_change_proposal(self, now_ms: int) -> IsrChange | None:
        """The change to propose to the controller, pending from now on; None if one is pending or none is
        due.

        Expansion and shrinking are proposed separately: a refused expansion must not keep a dead member in.
        """
        if self.pending is not None:
            return None
        joining = self._joining(now_ms)
        leaving = () if joining else self._lagging(now_ms)
        if not joining and not leaving:
            return None
        isr = (*(node_id for node_id in self.isr if node_id not in leaving), *joining)
        epochs = {
            node_id: self.followers[node_id].broker_epoch for node_id in isr if node_id in self.followers
        }
        self.pending = IsrChange(self.leader_epoch, self.partition_epoch, isr, epochs, bool(joining))
        self.maximal_isr = (*self.isr, *joining)
        self._update_waits_for()
        return self.pending

    def alter_partition_result(
        self,
        change: IsrChange,
        error_code: int,
        now_ms: int,
        *,
        leader_epoch: int = -1,
        isr: tuple[int, ...] = (),
        partition_epoch: int = -1,
    ) -> int:
        """The controller's answer to `change`, of the request as a whole or of this partition.

        A request without a response (a lost connection) counts as REQUEST_TIMED_OUT.
        """
        if change is not self.pending:
            return 0
        if error_code in _DECIDED_BY_METADATA:
            return 0
        if error_code in _NOT_APPLIED:
            self._settle(self.isr)
            self._join_after_ms = now_ms + REFUSAL_PAUSE_MS
            return self._advance(now_ms)
        if error_code != ErrorCode.NONE:
            return RETRY_ISR_CHANGE
        if leader_epoch != self.leader_epoch or partition_epoch < self.partition_epoch:
            return 0
        self.partition_epoch = partition_epoch
        if partition_epoch > self._metadata_epoch:
            self._unconfirmed = (*self._unconfirmed, (partition_epoch, tuple(isr)))
        self._settle(tuple(isr))
        return self.tick(now_ms)

    def metadata_changed(self, partition: PartitionView, now_ms: int) -> int:
        """Metadata in which this node still leads; a newer leader epoch begins at the log's end."""
        assert partition.leader == self.node_id, (partition.leader, self.node_id)
        if partition.partition_epoch <= self._metadata_epoch:
            return 0
        self._metadata_epoch = partition.partition_epoch
        self._metadata_isr = tuple(partition.isr)
        self._unconfirmed = tuple([each for each in self._unconfirmed if each[0] > self._metadata_epoch])
        if partition.partition_epoch <= self.partition_epoch:
            self._update_waits_for()
            return self._advance(now_ms)
        assert partition.leader_epoch >= self.leader_epoch, (partition.leader_epoch, self.leader_epoch)
        self.partition_epoch = partition.partition_epoch
        self._settle(self._metadata_isr)
        self._join_after_ms = LONG_AGO_MS
        if partition.leader_epoch > self.leader_epoch:
            if partition.leader_epoch > self.leader_epoch + 1:
                # Another broker may have led in between, and followers may have truncated their logs for it.
                self.followers, self.replicas = {}, ()
            self.leader_epoch = partition.leader_epoch
            self.epoch_start_offset = self.log_end_offset
            for follower in self.followers.values():
                follower.new_epoch(follower.node_id in self.isr, self.log_end_offset, now_ms)
        self._assign(tuple(partition.replicas), now_ms)
        return self.tick(now_ms)

    def min_isr_changed(self, min_isr: int, now_ms: int) -> int:
        """Of one change of the metadata, call this before `metadata_changed` if the minimum increases, and
        after it if the minimum decreases: an old ISR must not meet a new, smaller minimum."""
        self.min_isr = min_isr
        return self._advance(now_ms)

    # -- acknowledgements

    @property
    def effective_min_isr(self) -> int:
        return min(self.min_isr, len(self.replicas))

    def admit(self) -> ErrorCode:
        """May a write with acks=all be appended?"""
        if len(self.isr) < self.effective_min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return ErrorCode.NONE

    def check_ack(self, required_offset: int) -> ErrorCode | None:
        """The answer to a write with acks=all that ends at `required_offset`; None: not yet."""
        if self.high_watermark < required_offset:
            return None
        if len(self.maximal_isr) < self.effective_min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def low_watermark(self, is_alive: Callable[[int], bool]) -> int:
        """The smallest log start of the leader and the live followers; -1 if one has not reported it yet."""
        low = self.log_start_offset
        for follower in self.followers.values():
            if follower.log_start_offset < low and is_alive(follower.node_id):
                low = follower.log_start_offset
        return low

    @property
    def offsets_are_settled(self) -> bool:
        """Has the high watermark reached what was there when this epoch began? Before, it may be smaller than
        the one a former leader reported: consumers that list offsets get OFFSET_NOT_AVAILABLE.
        """
        return self.high_watermark >= self.epoch_start_offset

    @property
    def is_under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)

    def is_in_isr(self, node_id: int) -> bool:
        return node_id in self.isr

    # -- inside

    def _assign(self, replicas: tuple[int, ...], now_ms: int) -> None:
        if replicas == self.replicas:
            return
        self.replicas = replicas
        known = self.followers
        self.followers = {
            node_id: known.get(node_id) or FollowerProgress(node_id, node_id in self.isr, now_ms)
            for node_id in replicas
            if node_id != self.node_id
        }

    def _settle(self, isr: tuple[int, ...]) -> None:
        self.pending = None
        self.isr = isr
        self.maximal_isr = isr
        self._update_waits_for()

    def _update_waits_for(self) -> None:
        members = self.maximal_isr
        if self._unconfirmed or self._metadata_isr is not self.isr:
            ahead = [node_id for _, isr in self._unconfirmed for node_id in isr]
            members = tuple(dict.fromkeys((*members, *self._metadata_isr, *ahead)))
        self._waits_for = members

    def _advance(self, now_ms: int) -> int:
        if min(len(self._metadata_isr), len(self.isr)) < self.effective_min_isr:
            return 0
        mark = self.counted_end_offset
        for follower in self.followers.values():
            if follower.end_offset < mark and self._holds_back(follower, now_ms):
                mark = follower.end_offset
        if mark <= self.high_watermark:
            return 0
        self.high_watermark = mark
        return HIGH_WATERMARK_MOVED

    def _holds_back(self, follower: FollowerProgress, now_ms: int) -> bool:
        """Must the high watermark wait for this follower?"""
        if follower.node_id in self._waits_for:
            return True
        return follower.is_caught_up(self.log_end_offset, now_ms, self.lag_time_max_ms) and self._eligible(
            follower.node_id, follower.broker_epoch
        )

    def _may_join(self, follower: FollowerProgress, now_ms: int) -> bool:
        return (
            now_ms >= self._join_after_ms
            and follower.end_offset != UNKNOWN_OFFSET
            and follower.end_offset >= self.high_watermark
            and follower.end_offset >= self.epoch_start_offset
            and now_ms - follower.last_fetch_ms <= self.lag_time_max_ms
            and self._eligible(follower.node_id, follower.broker_epoch)
        )

    def _joining(self, now_ms: int) -> tuple[int, ...]:
        return tuple(
            [
                node_id
                for node_id, follower in self.followers.items()
                if node_id not in self.isr and self._may_join(follower, now_ms)
            ]
        )

    def _lagging(self, now_ms: int) -> tuple[int, ...]:
        return tuple(
            [
                node_id
                for node_id, follower in self.followers.items()
                if node_id in self.isr
                and not follower.is_caught_up(self.log_end_offset, now_ms, self.lag_time_max_ms)
            ]
        )
