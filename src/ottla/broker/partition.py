"""A partition as this broker leads it: its log, its high watermark, and who waits for it to move.

With one replica a record is committed as soon as it is in the log, or, where `flush.messages` asks for it, as
soon as it is on the disk: consumers and acknowledgements never run ahead of that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.records.batch import RecordsError
from ottla.records.validate import AppendRules, CheckedRecords, check_produce

if TYPE_CHECKING:
    from ottla.broker.flusher import Flusher
    from ottla.storage.log import AppendResult, PartitionLog

Waiter = Callable[[], None]


class Partition:
    __slots__ = (
        "_commit_waiters",
        "_flusher",
        "_waiters",
        "deleted",
        "high_watermark",
        "index",
        "leader_epoch",
        "leader_id",
        "log",
        "rules",
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
        self._flusher = flusher
        self._waiters: dict[Waiter, None] | None = None  # most of many partitions have none
        self._commit_waiters: list[tuple[int, asyncio.Future[None]]] | None = None

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index}, epoch {self.leader_epoch})"

    # -- writing

    def append(self, records: memoryview, now_ms: int) -> AppendResult:
        """Check the batch and append it; after RecordsError or StorageError nothing has changed."""
        log = self.log
        result = log.append_as_leader(check_produce(records, self.rules, now_ms), self.leader_epoch, now_ms)
        if result.duplicate or (log.config.has_flush_policy and self._flusher.after_append(self)):
            return result  # committed before, or when the disk says so
        self.commit(log.log_end_offset)
        return result

    def append_group(self, group: list[CheckedRecords], now_ms: int) -> list[AppendResult]:
        """Append batches that were checked by `rules`; may end early, see PartitionLog.append_group."""
        log = self.log
        results = log.append_group(group, self.leader_epoch, now_ms)
        end_offset = log.log_end_offset
        if end_offset > self.high_watermark and not (
            log.config.has_flush_policy and self._flusher.after_append(self)
        ):
            self.commit(end_offset)
        return results

    def commit(self, offset: int) -> None:
        """Everything below `offset` is committed: let consumers see it and release whoever waits."""
        if offset <= self.high_watermark:
            return
        self.high_watermark = offset
        if self._commit_waiters:
            waiting, self._commit_waiters = self._commit_waiters, None
            for needed, future in waiting:
                if needed > offset:
                    self._commit_waiters = [*(self._commit_waiters or ()), (needed, future)]
                elif not future.done():
                    future.set_result(None)
        self.wake()

    def committed(self, offset: int) -> asyncio.Future[None] | None:
        """None if everything below `offset` is committed, else a future of that moment."""
        if self.high_watermark >= offset:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._commit_waiters = [*(self._commit_waiters or ()), (offset, future)]
        return future

    def commit_failed(self, error: BaseException) -> None:
        """The disk refused: whoever waits for the commit learns it."""
        waiting, self._commit_waiters = self._commit_waiters or [], None
        for _, future in waiting:
            if not future.done():
                future.set_exception(error)

    # -- reading

    @property
    def last_stable_offset(self) -> int:
        """What read_committed consumers may see: below the first open transaction."""
        return self.log.last_stable_offset(self.high_watermark)

    def check_leader_epoch(self, claimed_epoch: int) -> ErrorCode:
        """Is the client's view of the leader ours? -1 claims nothing."""
        if claimed_epoch < 0 or claimed_epoch == self.leader_epoch:
            return ErrorCode.NONE
        if claimed_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

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

    def wake(self) -> None:
        if self._waiters:
            for waiter in tuple(self._waiters):
                waiter()

    def retire(self) -> None:
        """The partition leaves this broker: long polls answer now, and so does who waits for a commit."""
        self.deleted = True
        self.commit_failed(RecordsError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic} was deleted"))
        self.wake()
