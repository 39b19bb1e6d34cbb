"""A partition that this broker hosts: its log, its role, its high watermark, and the waiters on both.

Committed metadata alone decide the role (`replicas/manager.py`): leader, follower, or leaderless. A leader
with followers has a `LeaderState`, which computes the high watermark. A leader without followers has none: a
record is committed once it is in the log or, with `flush.messages`, once it is on disk. Consumers and
acknowledgements never see more than that.

Only this class sets its attributes. The high watermark moves in `commit` and, for a follower that truncates,
in `follow_high_watermark`; the role changes in `make_leader`, `make_follower` and `make_leaderless`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.records.batch import RecordsError
from ottla.records.validate import AppendRules, CheckedRecords, check_produce
from ottla.replication.divergence import check_leader_epoch
from ottla.replication.leader import HIGH_WATERMARK_MOVED, ISR_CHANGE_WANTED, LOG_START_MOVED

if TYPE_CHECKING:
    from typing import Protocol

    from ottla.broker.replicas.flusher import Flusher
    from ottla.broker.replicas.topic_settings import TopicSettings
    from ottla.replication.follower import FollowerState
    from ottla.replication.leader import LeaderState
    from ottla.storage.log import AppendResult, PartitionLog
    from ottla.transactions.partition import VerificationGuards

Waiter = Callable[[], None]
if TYPE_CHECKING:

    class CommitWaiter(Protocol):
        """The part of `asyncio.Future` that `when_committed` uses. Waiters that need no future save its
        cost."""

        def done(self) -> bool: ...

        def set_result(self, result: None, /) -> None: ...

        def set_exception(self, error: BaseException, /) -> None: ...

    class ReplicaEvents(Protocol):
        """The part of the replica manager that a partition uses."""

        def isr_change_wanted(self, partition: Partition, /) -> None:
            """The leader wants to add or remove a replica of the ISR."""

        def follower_may_fetch(self, partition: Partition, /) -> None:
            """The flush is done: the follower may fetch the next records."""

    # End offset, whether the local log is enough, the waiter.
    _Waiting = tuple[int, bool, CommitWaiter]


class Partition:
    __slots__ = (
        "_commit_waiters",
        "_events",
        "_flusher",
        "_follower_watchers",
        "_low_watermark_waiters",
        "_watchers",
        "deleted",
        "follower",
        "high_watermark",
        "index",
        "is_leader",
        "leader",
        "leader_epoch",
        "leader_id",
        "log",
        "rules",
        "topic",
        "topic_id",
        "verification_guards",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        log: PartitionLog,
        rules: AppendRules,
        flusher: Flusher,
        events: ReplicaEvents,
        *,
        high_watermark: int | None = None,
    ) -> None:
        """`high_watermark`: the last checkpoint; None if everything in the log counts as committed."""
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.rules = rules
        self.leader_id = -1
        self.leader_epoch = -1
        self.deleted = False
        self.high_watermark = (
            log.log_end_offset
            if high_watermark is None
            else min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        )
        self.is_leader = False
        self.leader: LeaderState | None = None  # only with followers
        self.follower: FollowerState | None = None
        # Of first writes in transactions, while this broker leads.
        self.verification_guards: VerificationGuards | None = None
        self._events = events
        self._flusher = flusher
        # None where there are none: a broker may host thousands of idle partitions.
        self._watchers: dict[Waiter, None] | None = None
        self._follower_watchers: dict[Waiter, None] | None = None
        self._commit_waiters: list[_Waiting] | None = None
        self._low_watermark_waiters: dict[Waiter, None] | None = None

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index}, epoch {self.leader_epoch})"

    # -- roles

    def make_leader(self, node_id: int, leader_epoch: int, leader: LeaderState | None) -> None:
        """Lead in this epoch; `leader` is None without followers."""
        self.follower = None
        self.leader = leader
        self.is_leader = True
        self._set_leader(node_id, leader_epoch)

    def make_follower(self, leader_id: int, leader_epoch: int, follower: FollowerState) -> None:
        self._stop_leading()
        if follower is not self.follower:
            self.follower = follower
            self.high_watermark = follower.high_watermark
        self._set_leader(leader_id, leader_epoch)

    def make_leaderless(self, leader_epoch: int) -> None:
        self._stop_leading()
        self.follower = None
        self._set_leader(-1, leader_epoch)

    def _set_leader(self, leader_id: int, leader_epoch: int) -> None:
        moved = (leader_id, leader_epoch) != (self.leader_id, self.leader_epoch)
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        if moved:
            self.wake()

    def _stop_leading(self) -> None:
        if self.is_leader:
            self.is_leader = False
            self.leader = None
            self.verification_guards = None
            self.commit_failed(
                RecordsError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic}-{self.index} has moved")
            )
            self.low_watermark_moved()

    def retire(self) -> None:
        """Leave this broker: long polls and commit waiters complete now."""
        self.deleted = True
        self.commit_failed(RecordsError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic} was deleted"))
        self._stop_leading()
        self.follower = None
        self.wake()

    def configure(self, settings: TopicSettings, now_ms: int) -> bool:
        """Apply a changed topic configuration, except for a smaller minimum of in-sync replicas. Returns
        whether `lower_min_isr` must follow, once the partition has followed the same metadata: see rule 3 of
        `ottla.replication.leader`."""
        self.log.config = settings.log
        self.rules = settings.rules
        leader = self.leader
        if leader is not None and leader.min_isr < settings.min_isr:
            self.react(leader.min_isr_changed(settings.min_isr, now_ms))
        return leader is not None and leader.min_isr > settings.min_isr

    def lower_min_isr(self, min_isr: int, now_ms: int) -> None:
        leader = self.leader
        if leader is not None and leader.min_isr > min_isr:
            self.react(leader.min_isr_changed(min_isr, now_ms))

    # -- appending

    @property
    def is_under_min_isr(self) -> bool:
        """Whether writes with acks=all are refused now."""
        return self.leader is not None and bool(self.leader.admit())

    def check_append(self, *, acks_all: bool) -> None:
        """Raise RecordsError unless a producer may append now."""
        if not self.is_leader:
            raise RecordsError(self.not_leading, "")
        leader = self.leader
        if acks_all and leader is not None and leader.admit():
            raise RecordsError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(leader.isr)} replicas are in sync, min.insync.replicas is {leader.min_isr}",
            )

    def append(self, records: memoryview, now_ms: int) -> AppendResult:
        """Check the batch and append it; after RecordsError or StorageError nothing has changed."""
        log = self.log
        result = log.append_as_leader(check_produce(records, self.rules, now_ms), self.leader_epoch, now_ms)
        if not result.duplicate:
            self._appended(now_ms)
        return result

    def append_group(self, group: list[CheckedRecords], now_ms: int) -> list[AppendResult]:
        """Append batches that `rules` have passed; may end early, see PartitionLog.append_group.

        Raises RecordsError, before anything is appended, where `check_append` for acks=all would.
        """
        leader = self.leader
        if not self.is_leader or (leader is not None and leader.admit()):
            self.check_append(acks_all=True)
        log = self.log
        end_offset = log.log_end_offset
        results = log.append_group(group, self.leader_epoch, now_ms)
        if log.log_end_offset > end_offset:
            self._appended(now_ms)
        return results

    def append_internal(self, batches: bytearray, now_ms: int) -> None:
        """Append batches that this broker has built itself, of any size."""
        self.log.append_internal(batches, self.leader_epoch, now_ms)
        self._appended(now_ms)

    def guards_of_first_writes(self) -> VerificationGuards:
        """The guards of producers whose transaction is being verified; a new leader begins without any."""
        if self.verification_guards is None:
            from ottla.transactions.partition import VerificationGuards

            self.verification_guards = VerificationGuards()
        return self.verification_guards

    def _appended(self, now_ms: int) -> None:
        log = self.log
        waits_for_disk = log.config.has_flush_policy and self._flusher.after_append(self)
        leader = self.leader
        if leader is None:
            if not waits_for_disk:
                self.commit(log.log_end_offset)
            return
        flags = leader.log_appended(log.log_end_offset, now_ms, not waits_for_disk)
        if flags:
            self.react(flags)
        if self._follower_watchers:
            for waiter in tuple(self._follower_watchers):
                waiter()

    def flushed(self, offset: int, now_ms: int) -> None:
        """Everything below `offset` is as durable as the topic requires."""
        leader, follower = self.leader, self.follower
        if leader is not None:
            flags = leader.log_flushed(min(offset, leader.log_end_offset), now_ms)
            self._release_commits()
            if flags:
                self.react(flags)
        elif self.is_leader:
            self.commit(offset)
        elif follower is not None and offset >= self.log.log_end_offset and follower.flush_done():
            self._events.follower_may_fetch(self)

    # -- the high watermark

    def react(self, flags: int) -> None:
        """Carry out the outcome of an event of `leader`."""
        leader = self.leader
        if leader is None:
            return
        if flags & HIGH_WATERMARK_MOVED:
            self.commit(leader.high_watermark)
        if flags & LOG_START_MOVED:
            self.low_watermark_moved()
        if flags & ISR_CHANGE_WANTED:
            self._events.isr_change_wanted(self)

    def commit(self, offset: int) -> None:
        """Everything below `offset` is committed: show it to consumers and release the waiters."""
        if offset <= self.high_watermark:
            return
        self.high_watermark = offset
        self.log.committed(offset)
        if self._commit_waiters:
            self._release_commits()
        if self._watchers:
            for waiter in tuple(self._watchers):
                waiter()
        if self._follower_watchers:
            for waiter in tuple(self._follower_watchers):
                waiter()

    def follow_high_watermark(self) -> None:
        """Set the follower's high watermark after a truncation; it may decrease."""
        if self.follower is not None:
            self.high_watermark = self.follower.high_watermark

    def when_committed(self, end_offset: int, waiter: CommitWaiter, *, local: bool = False) -> bool:
        """Complete `waiter` once everything below `end_offset` is committed; False if it is already, and the
        waiter is not used.

        With `local` (acks=1) the leader's own log is enough, as durable as the topic requires. The waiter
        gets an exception if this broker stops leading, the disk fails, or the ISR shrinks below
        min.insync.replicas before the commit.
        """
        leader = self.leader
        reached = self.high_watermark if leader is None or not local else leader.counted_end_offset
        if reached >= end_offset:
            return False
        if self._commit_waiters is None:
            self._commit_waiters = []
        self._commit_waiters.append((end_offset, local, waiter))
        return True

    def _release_commits(self) -> None:
        waiting, self._commit_waiters = self._commit_waiters, None
        if not waiting:
            return
        leader, high_watermark = self.leader, self.high_watermark
        counted = high_watermark if leader is None else leader.counted_end_offset
        still: list[_Waiting] = []
        for entry in waiting:
            end_offset, local, waiter = entry
            if (counted if local else high_watermark) < end_offset:
                still.append(entry)
            elif not waiter.done():
                error = leader.check_ack(end_offset) if leader is not None and not local else None
                if error:
                    waiter.set_exception(RecordsError(error, "the ISR shrank after the append"))
                else:
                    waiter.set_result(None)
        if still:
            self._commit_waiters = still

    def commit_failed(self, error: BaseException) -> None:
        """Fail all commit waiters: a write failed, or another broker leads."""
        waiting, self._commit_waiters = self._commit_waiters or [], None
        for _, _, waiter in waiting:
            if not waiter.done():
                waiter.set_exception(error)

    # -- reading

    @property
    def last_stable_offset(self) -> int:
        """The first offset of an open transaction, at most the high watermark: the end of read_committed."""
        return self.log.last_stable_offset(self.high_watermark)

    @property
    def offsets_are_settled(self) -> bool:
        """Whether the high watermark is at least what any former leader may have reported. Never certain on a
        follower."""
        leader = self.leader
        return self.is_leader if leader is None else leader.offsets_are_settled

    @property
    def not_leading(self) -> ErrorCode:
        """The error for requests to the leader, while this broker does not lead. As in Kafka, it names the
        disk if that is why there is no leader."""
        if self.leader_id < 0 and self.log.log_dir.error is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def check_leader_epoch(self, claimed_epoch: int) -> ErrorCode:
        """Compare the leader epoch that a request claims; -1 claims none."""
        return check_leader_epoch(self.leader_epoch, claimed_epoch)

    def check_fetch(self, claimed_epoch: int, *, from_follower: bool = False) -> ErrorCode:
        """Check a fetch of a consumer or a follower, in Kafka's order: role, then leader epoch. Consumers
        that know KIP-392 may read `from_follower`."""
        if not self.is_leader and not (from_follower and self.follower is not None):
            return self.not_leading
        if claimed_epoch == self.leader_epoch:
            return ErrorCode.NONE
        return check_leader_epoch(self.leader_epoch, claimed_epoch)

    # -- watching

    def watch(self, waiter: Waiter) -> None:
        """Call `waiter` each time the high watermark or the leadership moves, until unwatch."""
        if self._watchers is None:
            self._watchers = {}
        self._watchers[waiter] = None

    def unwatch(self, waiter: Waiter) -> None:
        if self._watchers is not None:
            self._watchers.pop(waiter, None)
            if not self._watchers:
                self._watchers = None

    def watch_log(self, waiter: Waiter) -> None:
        """As `watch`, and also after appends: what followers wait for."""
        if self._follower_watchers is None:
            self._follower_watchers = {}
        self._follower_watchers[waiter] = None

    def unwatch_log(self, waiter: Waiter) -> None:
        if self._follower_watchers is not None:
            self._follower_watchers.pop(waiter, None)
            if not self._follower_watchers:
                self._follower_watchers = None

    def wake(self) -> None:
        """Call all watchers."""
        for waiters in (self._watchers, self._follower_watchers):
            for waiter in tuple(waiters or ()):
                waiter()

    def low_watermark(self, is_alive: Callable[[int], bool]) -> int:
        """The smallest log start of the leader and the live followers; -1 if one is unknown."""
        leader = self.leader
        if leader is None:
            return self.log.log_start_offset
        leader.log_start_moved(self.log.log_start_offset)
        return leader.low_watermark(is_alive)

    def when_low_watermark_moves(self, waiter: Waiter) -> None:
        """Call `waiter` once, after the log start of a follower or the leadership has moved, unless it is
        forgotten before; followers get the leader's log start at once."""
        if self._low_watermark_waiters is None:
            self._low_watermark_waiters = {}
        self._low_watermark_waiters[waiter] = None
        for watcher in tuple(self._follower_watchers or ()):
            watcher()

    def forget_low_watermark_waiter(self, waiter: Waiter) -> None:
        if self._low_watermark_waiters is not None:
            self._low_watermark_waiters.pop(waiter, None)
            if not self._low_watermark_waiters:
                self._low_watermark_waiters = None

    def low_watermark_moved(self) -> None:
        waiting, self._low_watermark_waiters = self._low_watermark_waiters, None
        for waiter in waiting or ():
            waiter()
