"""Appends what a machine decides, and replies when it is committed.

The records of one iteration of the event loop go into the log together. Replies are sent in the order of the
decisions, each when everything that was decided before it is committed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from ottla.broker.hosting.machine_log import MachineLog, NotLeader, Producer
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.records.batch import RecordsError
from ottla.storage.errors import DiskFull, StorageError

NOT_WRITTEN = -1


class PendingRequest(Protocol):
    """A request that waits for its reply; also the token under which the machine knows it."""

    def answer(self, reply: Any, /) -> None: ...

    def refuse(self, code: ErrorCode, /) -> None: ...


class _Batch:
    """What was decided in one iteration: records by producer, and what follows when they are committed.

    `end_offset` is the end of the log after the append.
    """

    __slots__ = ("deadline_ms", "effects", "end_offset", "records", "replies")

    def __init__(self, deadline_ms: int) -> None:
        self.records: deque[tuple[Producer | None, list[Any]]] = deque()
        self.replies: list[tuple[Any, Any]] = []
        self.effects: list[Any] = []
        self.end_offset = NOT_WRITTEN
        self.deadline_ms = deadline_ms


class MachineHost:
    """`on_append_error` handles batches that could not be appended: it removes them
    (`drop_unwritten`) or closes the host. With `disk_full_retry_ms` the host itself retries on a full disk.
    `on_commit_error` gets the error if the commit of a batch cannot be confirmed."""

    __slots__ = (
        "_disk_full_retry_ms",
        "_end_offset",
        "_expiry",
        "_flush_handle",
        "_log",
        "_loop",
        "_monotonic_ms",
        "_on_append_error",
        "_on_commit_error",
        "_on_effects",
        "_open_batch",
        "_pending",
        "_retry",
        "_unwritten",
        "_write_timeout_ms",
        "waiting",
    )

    def __init__(
        self,
        log: MachineLog,
        *,
        monotonic_ms: Callable[[], int],
        on_append_error: Callable[[Exception], None],
        on_commit_error: Callable[[BaseException], None],
        on_effects: Callable[[list[Any]], None],
        write_timeout_ms: int | None = None,
        disk_full_retry_ms: int | None = None,
    ) -> None:
        self.waiting = 0  # requests without a reply
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._monotonic_ms = monotonic_ms
        self._on_append_error = on_append_error
        self._on_commit_error = on_commit_error
        self._on_effects = on_effects
        self._write_timeout_ms = write_timeout_ms
        self._disk_full_retry_ms = disk_full_retry_ms
        self._end_offset = 0  # after the last append of this host
        self._pending: deque[_Batch] = deque()  # decided and not yet committed, in order
        self._unwritten: deque[_Batch] = deque()  # the newest of them, not yet in the log
        self._open_batch: _Batch | None = None  # the newest, while decisions are added to it
        self._flush_handle: asyncio.Handle | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no decision waits for its commit."""
        return not self._pending

    @property
    def has_unwritten(self) -> bool:
        return bool(self._unwritten)

    @property
    def disk_is_full(self) -> bool:
        """Whether the last append failed on a full disk and will be retried."""
        return self._retry is not None

    # -- decided

    def add(self, outcome: Outcome, request: PendingRequest | None = None) -> None:
        """Add a decision; `flush` or `flush_soon` must follow."""
        batch = self._open_batch
        if batch is None:
            timeout_ms = self._write_timeout_ms
            batch = self._open_batch = _Batch(self._monotonic_ms() + (timeout_ms or 0))
            self._pending.append(batch)
            self._unwritten.append(batch)
            if self._expiry is None and timeout_ms is not None:
                self._expiry = self._loop.call_later(timeout_ms / 1000, self._expire)
        if outcome.records:
            batches = batch.records
            if batches and batches[-1][0] == outcome.producer:
                batches[-1][1].extend(outcome.records)
            else:
                batches.append((outcome.producer, [*outcome.records]))
        if request is not None:
            self.waiting += 1
            if outcome.reply is not None:
                batch.replies.append((request, outcome.reply))
        if outcome.replies:
            batch.replies += outcome.replies
        if outcome.effects:
            batch.effects += outcome.effects

    def add_barrier(self) -> None:
        """Hold replies until the whole log is committed: the machine has applied all of it."""
        end_offset = self._log.end_offset
        if self._log.committed_offset < end_offset:
            barrier = _Batch(self._monotonic_ms() + (self._write_timeout_ms or 0))
            barrier.end_offset = self._end_offset = end_offset
            self._pending.append(barrier)
            self._log.when_committed(end_offset, self.release, self._on_commit_error)

    # -- appended

    def flush_soon(self) -> None:
        """Append at the end of this iteration of the event loop."""
        if self._flush_handle is None:
            self._flush_handle = self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Append the decisions in order."""
        for handle in (self._flush_handle, self._retry):
            if handle is not None:
                handle.cancel()
        self._flush_handle = self._retry = self._open_batch = None
        unwritten, log = self._unwritten, self._log
        try:
            while unwritten:
                batch = unwritten[0]
                while batch.records:
                    producer, records = batch.records[0]
                    log.append(records, producer)
                    self._end_offset = log.end_offset
                    batch.records.popleft()
                batch.end_offset = self._end_offset
                unwritten.popleft()
        except (NotLeader, StorageError, RecordsError) as error:
            if isinstance(error, DiskFull) and self._disk_full_retry_ms is not None:
                self._retry = self._loop.call_later(self._disk_full_retry_ms / 1000, self.flush)
            self._on_append_error(error)
        self.release()
        if self._pending and self._pending[0].end_offset != NOT_WRITTEN:
            log.when_committed(self._end_offset, self.release, self._on_commit_error)

    def drop_unwritten(self) -> list[Any]:
        """Drop the batches that are not in the log; return their requests."""
        requests = [request for batch in self._unwritten for request, _ in batch.replies]
        for _ in range(len(self._unwritten)):
            self._pending.pop()
        self._unwritten.clear()
        self._open_batch = None
        self.waiting -= len(requests)
        return requests

    # -- committed

    def release(self) -> None:
        """Send the replies whose records are committed, and carry out the effects."""
        pending, committed_offset = self._pending, self._log.committed_offset
        while pending and NOT_WRITTEN < pending[0].end_offset <= committed_offset:
            batch = pending.popleft()
            for request, reply in batch.replies:
                self.waiting -= 1
                request.answer(reply)
            if batch.effects:
                self._on_effects(batch.effects)

    def _expire(self) -> None:
        """Refuse requests that have waited too long for a commit; their records may still be committed."""
        self._expiry = None
        now_ms = self._monotonic_ms()
        for batch in self._pending:
            if batch.deadline_ms > now_ms:
                break
            self._refuse(batch, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self._pending and self._write_timeout_ms is not None:
            self._expiry = self._loop.call_later(self._write_timeout_ms / 1000, self._expire)

    def _refuse(self, batch: _Batch, code: ErrorCode) -> None:
        replies, batch.replies = batch.replies, []
        for request, _ in replies:
            self.waiting -= 1
            request.refuse(code)

    def close(self, code: ErrorCode) -> None:
        """Drop what is not committed, and refuse the requests."""
        for handle in (self._flush_handle, self._expiry, self._retry):
            if handle is not None:
                handle.cancel()
        self._flush_handle = self._expiry = self._retry = self._open_batch = None
        pending, self._pending = self._pending, deque()
        self._unwritten.clear()
        for batch in pending:
            self._refuse(batch, code)
