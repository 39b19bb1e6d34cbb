"""A partition as this broker hosts it: its log, its role, its high watermark, and who waits for it to move.

Which role it has follows from metadata alone (`replicas/manager.py`): it leads, follows, or rests without a
leader. A leader with followers has a `LeaderState`, which says what is committed. A leader without any needs
none: a record is committed as soon as it is in the log, or, where `flush.messages` asks for it, as soon as it
is on the disk. Consumers and acknowledgements never run ahead of that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.records.batch import RecordsError
from ottla.records.validate import AppendRules, CheckedRecords, check_produce
from ottla.replication.divergence import check_leader_epoch

if TYPE_CHECKING:
    from typing import Protocol

    from ottla.broker.replicas.flusher import Flusher
    from ottla.broker.replicas.manager import ReplicaManager
    from ottla.replication.follower import FollowerState
    from ottla.replication.leader import LeaderState
    from ottla.storage.log import AppendResult, PartitionLog
    from ottla.transactions.partition import Tickets

Waiter = Callable[[], None]
if TYPE_CHECKING:

    class CommitWaiter(Protocol):
        """What a future has; whoever answers without one saves it."""

        def done(self) -> bool: ...

        def set_result(self, result: None, /) -> None: ...

        def set_exception(self, error: BaseException, /) -> None: ...

    # Up to which offset; of the own log alone, or of the high watermark.
    _Waiting = tuple[int, bool, CommitWaiter]


class Partition:
    __slots__ = (
        "_commit_waiters",
        "_flusher",
        "_followers_waiters",
        "_low_watermark_waiters",
        "_replicas",
        "_waiters",
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
        "tickets",
        "topic",
        "topic_id",
    )

    def __init__(
        self, topic: str, topic_id: bytes, index: int, log: PartitionLog, rules: AppendRules, flusher: Flusher
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.rules = rules
        self.leader_id = -1
        self.leader_epoch = -1
        self.deleted = False
        self.high_watermark = log.log_end_offset
        self.is_leader = False
        self.leader: LeaderState | None = None  # only where there are followers
        self.follower: FollowerState | None = None
        self.tickets: Tickets | None = None  # of a leader that producers write to in transactions
        self._replicas: ReplicaManager | None = None
        self._flusher = flusher
        # Most of many partitions have none of these.
        self._waiters: dict[Waiter, None] | None = None
        self._followers_waiters: dict[Waiter, None] | None = None
        self._commit_waiters: list[_Waiting] | None = None
        self._low_watermark_waiters: dict[Waiter, None] | None = None

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index}, epoch {self.leader_epoch})"

    # -- roles

    def lead(self, leader: LeaderState | None, replicas: ReplicaManager) -> None:
        """Lead from now on; without `leader` there are no followers."""
        self.follower = None
        self.leader = leader
        self.is_leader = True
        self._replicas = replicas

    def follow(self, follower: FollowerState, replicas: ReplicaManager) -> None:
        self._stop_leading()
        self.follower = follower
        self._replicas = replicas
        self.high_watermark = follower.high_watermark

    def rest(self) -> None:
        """Nobody leads."""
        self._stop_leading()
        self.follower = None

    def _stop_leading(self) -> None:
        if self.is_leader:
            self.is_leader = False
            self.leader = None
            self.tickets = None
            self.commit_failed(
                RecordsError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic}-{self.index} has moved")
            )
            self.low_watermark_moved()

    def retire(self) -> None:
        """The partition leaves this broker: long polls answer now, and so does who waits for a commit."""
        self.deleted = True
        self.commit_failed(RecordsError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic} was deleted"))
        self.rest()
        self.wake()

    # -- writing

    def append(self, records: memoryview, now_ms: int) -> AppendResult:
        """Check the batch and append it; after RecordsError or StorageError nothing has changed."""
        log = self.log
        result = log.append_as_leader(check_produce(records, self.rules, now_ms), self.leader_epoch, now_ms)
        if not result.duplicate:
            self._appended(now_ms)
        return result

    def append_group(self, group: list[CheckedRecords], now_ms: int) -> list[AppendResult]:
        """Append batches that were checked by `rules`; may end early, see PartitionLog.append_group."""
        log = self.log
        end_offset = log.log_end_offset
        results = log.append_group(group, self.leader_epoch, now_ms)
        if log.log_end_offset > end_offset:
            self._appended(now_ms)
        return results

    def append_own(self, batches: bytearray, now_ms: int) -> None:
        """Append batches that this broker has built itself, of whatever size."""
        self.log.append_internal(batches, self.leader_epoch, now_ms)
        self._appended(now_ms)

    def _appended(self, now_ms: int) -> None:
        log = self.log
        waits = log.config.has_flush_policy and self._flusher.after_append(self)
        leader = self.leader
        if leader is None:
            if not waits:
                self.commit(log.log_end_offset)
            return
        flags = leader.log_appended(log.log_end_offset, now_ms, not waits)
        if flags:
            self._react(flags)
        self.wake_followers()

    def flushed(self, offset: int, now_ms: int) -> None:
        """Everything below `offset` is as safe as the topic asks for."""
        leader, follower = self.leader, self.follower
        if leader is not None:
            flags = leader.log_flushed(min(offset, leader.log_end_offset), now_ms)
            self._release_commits()
            if flags:
                self._react(flags)
        elif self.is_leader:
            self.commit(offset)
        elif follower is not None and offset >= self.log.log_end_offset and follower.disk_has_it():
            assert self._replicas is not None
            self._replicas.fetch_on(self)

    def _react(self, flags: int) -> None:
        assert self._replicas is not None
        self._replicas.react(self, flags)

    def commit(self, offset: int) -> None:
        """Everything below `offset` is committed: let consumers see it and release whoever waits."""
        if offset <= self.high_watermark:
            return
        self.high_watermark = offset
        self.log.committed(offset)
        if self._commit_waiters:
            self._release_commits()
        if self._waiters:
            for waiter in tuple(self._waiters):
                waiter()
        if self._followers_waiters:
            self.wake_followers()

    def committed(self, offset: int) -> asyncio.Future[None] | None:
        """None if everything below `offset` is committed, else a future of that moment."""
        return self._future_of(offset, local=False)

    def written(self, offset: int) -> asyncio.Future[None] | None:
        """None if everything below `offset` is as safe here as it can be without followers, else a future."""
        return self._future_of(offset, local=True)

    def _future_of(self, offset: int, *, local: bool) -> asyncio.Future[None] | None:
        if self.high_watermark >= offset:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        return future if self.wait(offset, local, future) else None

    def wait(self, offset: int, local: bool, waiter: CommitWaiter) -> bool:
        """Tell `waiter` when everything below `offset` is committed or, with `local`, safe here; False if it
        is already."""
        leader = self.leader
        reached = self.high_watermark if leader is None or not local else leader.counted_end_offset
        if reached >= offset:
            return False
        if self._commit_waiters is None:
            self._commit_waiters = []
        self._commit_waiters.append((offset, local, waiter))
        return True

    def _release_commits(self) -> None:
        waiting, self._commit_waiters = self._commit_waiters, None
        if not waiting:
            return
        leader, high_watermark = self.leader, self.high_watermark
        counted = high_watermark if leader is None else leader.counted_end_offset
        still: list[_Waiting] = []
        for waiter in waiting:
            offset, local, future = waiter
            if (counted if local else high_watermark) < offset:
                still.append(waiter)
            elif not future.done():
                error = leader.check_ack(offset) if leader is not None and not local else None
                if error:
                    future.set_exception(RecordsError(error, "the ISR shrank behind the append"))
                else:
                    future.set_result(None)
        if still:
            self._commit_waiters = still

    def commit_failed(self, error: BaseException) -> None:
        """The disk refused, or somebody else leads: whoever waits for the commit learns it."""
        waiting, self._commit_waiters = self._commit_waiters or [], None
        for _, _, future in waiting:
            if not future.done():
                future.set_exception(error)

    # -- reading

    @property
    def last_stable_offset(self) -> int:
        """What read_committed consumers may see: below the first open transaction."""
        return self.log.last_stable_offset(self.high_watermark)

    def check_leader_epoch(self, claimed_epoch: int) -> ErrorCode:
        """Is the client's view of the leader ours? -1 claims nothing."""
        return check_leader_epoch(self.leader_epoch, claimed_epoch)

    # -- waiting

    def watch(self, waiter: Waiter) -> None:
        """Call `waiter` each time the high watermark or the leadership moves, until unwatch."""
        if self._waiters is None:
            self._waiters = {}
        self._waiters[waiter] = None

    def unwatch(self, waiter: Waiter) -> None:
        if self._waiters is not None:
            self._waiters.pop(waiter, None)
            if not self._waiters:
                self._waiters = None

    def watch_log(self, waiter: Waiter) -> None:
        """As `watch`, and also when records are appended: what followers want to know."""
        if self._followers_waiters is None:
            self._followers_waiters = {}
        self._followers_waiters[waiter] = None

    def unwatch_log(self, waiter: Waiter) -> None:
        if self._followers_waiters is not None:
            self._followers_waiters.pop(waiter, None)
            if not self._followers_waiters:
                self._followers_waiters = None

    def wake(self) -> None:
        if self._waiters:
            for waiter in tuple(self._waiters):
                waiter()
        self.wake_followers()

    def wake_followers(self) -> None:
        if self._followers_waiters:
            for waiter in tuple(self._followers_waiters):
                waiter()

    def when_low_watermark_moves(self, waiter: Waiter) -> None:
        """Call `waiter` once, when a follower's log start or the leadership has moved."""
        if self._low_watermark_waiters is None:
            self._low_watermark_waiters = {}
        self._low_watermark_waiters[waiter] = None

    def low_watermark_moved(self) -> None:
        waiting, self._low_watermark_waiters = self._low_watermark_waiters, None
        for waiter in waiting or ():
            waiter()
