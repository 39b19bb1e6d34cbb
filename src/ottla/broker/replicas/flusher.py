"""fsync off the event loop, in groups: while one flush of a log runs or waits, all later appends share the
next. `FlushQueue` decides which log of a directory is next."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.replicas.flush_queue import FlushQueue

if TYPE_CHECKING:
    from typing import Protocol

    from ottla.broker.background import BackgroundTasks
    from ottla.broker.io_threads import IoThreads
    from ottla.storage.log import PartitionLog

    class Flushable(Protocol):
        """What the flusher uses of `ottla.broker.replicas.partition.Partition`."""

        topic: str
        index: int
        log: PartitionLog
        deleted: bool

        def flushed(self, offset: int, now_ms: int) -> None: ...

        def commit_failed(self, error: BaseException) -> None: ...


log = logging.getLogger("ottla.flusher")

NEVER = 2**63 - 1
RETRY_MS = 1000


class Flusher:
    """Carries out `flush.messages` (acknowledged only when on disk) and `flush.ms` (in the background)."""

    def __init__(self, io: IoThreads, clock: Callable[[], int], tasks: BackgroundTasks) -> None:
        self._io = io
        self._clock = clock
        self._tasks = tasks
        self._queues: dict[str, FlushQueue] = {}  # by the path of the log directory
        self._running: dict[Flushable, asyncio.Task[None]] = {}
        self._again: set[Flushable] = set()
        self._timers: dict[Flushable, asyncio.TimerHandle] = {}

    def after_append(self, partition: Flushable) -> bool:
        """Start the flush that the topic's policy requires; True if the commit has to wait for it."""
        config = partition.log.config
        if config.flush_messages != NEVER and partition in self._running:
            if len(self._queue_of(partition)):
                self._queue_of(partition).make_urgent(partition)
            return True  # the running flush checks again when it ends
        due = partition.log.unflushed_messages >= config.flush_messages
        if due:
            self.flush(partition)
        elif config.flush_ms != NEVER and partition not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[partition] = loop.call_later(config.flush_ms / 1000, self._timer_due, partition)
        return due

    def flush(self, partition: Flushable, *, background: bool = False) -> None:
        """Flush everything appended so far, soon. `background`: nobody waits for it."""
        if partition in self._running:
            self._again.add(partition)
            if not background:
                self._queue_of(partition).make_urgent(partition)
        else:
            self._running[partition] = self._tasks.run_once("flush", self._run(partition, background))

    def _queue_of(self, partition: Flushable) -> FlushQueue:
        path = partition.log.log_dir.path
        queue = self._queues.get(path)
        if queue is None:
            queue = self._queues[path] = FlushQueue()
        return queue

    async def drain(self) -> None:
        """Wait for running flushes and cancel the timers, before the logs are closed."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        while self._running:
            await asyncio.wait(list(self._running.values()))

    def _timer_due(self, partition: Flushable) -> None:
        self._timers.pop(partition, None)
        if not partition.deleted:
            self.flush(partition, background=True)

    async def _run(self, partition: Flushable, background: bool) -> None:
        try:
            while not partition.deleted:
                if not await self._flush_once(partition, background):
                    break
                if partition.log.unflushed_messages >= partition.log.config.flush_messages:
                    background = False
                    continue  # later appends are due already
                partition.flushed(partition.log.log_end_offset, self._clock())
                if partition not in self._again:
                    break
        except Exception as error:
            log.error("flush failed: partition=%s-%d error=%s", partition.topic, partition.index, error)
            partition.commit_failed(error)
            self._retry_later(partition)
        finally:
            self._again.discard(partition)
            del self._running[partition]

    async def _flush_once(self, partition: Flushable, background: bool) -> bool:
        """Wait until the flush may run, and flush everything appended until then. False if the partition has
        been removed from this broker."""
        queue = self._queue_of(partition)
        in_background = await queue.acquire(partition, background=background)
        try:
            if partition.deleted:
                return False
            self._again.discard(partition)
            # Now, and not when it was queued: the job holds descriptors, and covers all appends until now.
            job = partition.log.begin_flush()
            threads = self._io.of(partition.log.log_dir.path)
            await threads.run(threads.flush, job.run)
        finally:
            queue.release(in_background)
        partition.log.finish_flush(job, self._clock())
        # Not the job's end: the log may have been truncated and appended to since it began.
        partition.flushed(partition.log.recovery_point, self._clock())
        return True

    def _retry_later(self, partition: Flushable) -> None:
        """Retry after a full disk: followers and commits wait for it."""
        if partition.log.log_dir.error is None and not partition.deleted and partition not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[partition] = loop.call_later(RETRY_MS / 1000, self._timer_due, partition)
