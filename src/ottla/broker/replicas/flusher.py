"""fsync off the event loop, in groups: while one flush of a log runs, all later appends share the next."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol

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

    def __init__(self, executor_of: Callable[[str], Executor], clock: Callable[[], int]) -> None:
        """`executor_of`: the threads for the log directory with this path."""
        self._executor_of = executor_of
        self._clock = clock
        self._running: dict[Flushable, asyncio.Task[None]] = {}
        self._again: set[Flushable] = set()
        self._timers: dict[Flushable, asyncio.TimerHandle] = {}

    def after_append(self, partition: Flushable) -> bool:
        """Start the flush that the topic's policy requires; True if the commit has to wait for it."""
        config = partition.log.config
        if config.flush_messages != NEVER and partition in self._running:
            return True  # the running flush checks again when it ends
        due = partition.log.unflushed_messages >= config.flush_messages
        if due:
            self.flush(partition)
        elif config.flush_ms != NEVER and partition not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[partition] = loop.call_later(config.flush_ms / 1000, self._timer_due, partition)
        return due

    def flush(self, partition: Flushable) -> None:
        """Flush everything appended so far, soon."""
        if partition in self._running:
            self._again.add(partition)
        else:
            self._running[partition] = asyncio.get_running_loop().create_task(self._run(partition))

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
            self.flush(partition)

    async def _run(self, partition: Flushable) -> None:
        loop = asyncio.get_running_loop()
        try:
            while not partition.deleted:
                self._again.discard(partition)
                job = partition.log.begin_flush()
                if job is not None:
                    await loop.run_in_executor(self._executor_of(partition.log.log_dir.path), job.run)
                    partition.log.finish_flush(job, self._clock())
                    # Not the job's end: the log may have been truncated and appended to since it began.
                    partition.flushed(partition.log.recovery_point, self._clock())
                if partition.log.unflushed_messages >= partition.log.config.flush_messages:
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

    def _retry_later(self, partition: Flushable) -> None:
        """Retry after a full disk: followers and commits wait for it."""
        if partition.log.log_dir.error is None and not partition.deleted and partition not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[partition] = loop.call_later(RETRY_MS / 1000, self._timer_due, partition)
