"""Log compaction: the dirtiest log first, one log at a time, in steps off the event loop.

One cleaning runs at a time, whatever `log.cleaner.threads` says above 0: it is bound by the disk and the
other core, and can then use all memory for keys. Between two steps the event loop only swaps in a segment, so
clients wait for a few renames at most.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, TypeVar

from ottla.storage.errors import CorruptLog, DiskFull, StorageError
from ottla.storage.manager.log_manager import METADATA_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.background import BackgroundTasks
    from ottla.broker.io_threads import IoThreads
    from ottla.broker.randomness import Randomness
    from ottla.broker.replicas.partition_table import PartitionTable
    from ottla.config.load import BrokerConfig
    from ottla.config.topic_config import ConfigLayers
    from ottla.storage.cleaning.job import CleanJob
    from ottla.storage.cleaning.plan import CleanPlan
    from ottla.storage.log import PartitionLog
    from ottla.storage.manager.log_manager import LogManager

log = logging.getLogger("ottla.cleaner")

Result = TypeVar("Result")

PAUSE_MS_MIN = 10
BUFFER_BYTES_MAX = 2**31 - 1


class Cleaner:
    def __init__(
        self,
        config: BrokerConfig,
        layers: ConfigLayers,
        logs: LogManager,
        partitions: PartitionTable,
        randomness: Randomness,
        clock: Callable[[], int],
        io: IoThreads,
        tasks: BackgroundTasks,
    ) -> None:
        self._config = config
        self._layers = layers
        self._logs = logs
        self._partitions = partitions
        self._randomness = randomness
        self._clock = clock
        self._io = io
        self._tasks = tasks
        self._task: asyncio.Task[None] | None = None
        self._job: CleanJob | None = None
        self._pause: asyncio.Future[None] | None = None
        self._stopping = False
        # Logs with damaged batches: served as far as they can be read, and not cleaned.
        self._uncleanable: dict[PartitionLog, None] = {}

    def start(self) -> None:
        if self._config.get_bool("log.cleaner.enable"):
            self._task = self._tasks.run_to_end("cleaner", self._run)

    async def stop(self) -> None:
        """Wait for the running step: it owns files."""
        self._stopping = True
        if self._job is not None:
            self._job.abort()
        if self._pause is not None and not self._pause.done():
            self._pause.set_result(None)
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        worked = False
        while not self._stopping:
            if not worked:
                await self._sleep(max(PAUSE_MS_MIN, self._value("log.cleaner.backoff.ms")))
            worked = False
            try:
                found = self._dirtiest() if self._value("log.cleaner.threads") else None
                if found is not None:
                    worked = await self._clean(*found)
            except Exception:
                log.exception("cleaning failed")

    async def _sleep(self, ms: float) -> None:
        if self._stopping:
            return
        loop = asyncio.get_running_loop()
        pause = self._pause = loop.create_future()
        timer = loop.call_later(ms / 1000, lambda: None if pause.done() else pause.set_result(None))
        try:
            await pause
        finally:
            timer.cancel()
            self._pause = None

    def _value(self, name: str) -> float:
        value: float = self._layers.broker_value(name)
        return value

    # -- selection

    def _dirtiest(self) -> tuple[PartitionLog, CleanPlan] | None:
        """The log with the largest dirty ratio of those that are due."""
        from ottla.storage.cleaning.plan import plan_clean

        now_ms = self._clock()
        best: tuple[PartitionLog, CleanPlan] | None = None
        for candidate in self._logs.logs.values():
            if not candidate.config.cleanup_compact or not self._may_be_cleaned(candidate):
                continue
            partition = self._partitions.by_name(candidate.topic, candidate.partition)
            if partition is None or partition.log is not candidate:
                continue
            try:
                # Compute the last stable offset only where it matters: it may have to be read from the log.
                plan = plan_clean(candidate, partition.high_watermark, now_ms)
                if not plan.is_due(candidate.config) or (best and plan.ratio <= best[1].ratio):
                    continue
                plan = plan_clean(candidate, partition.last_stable_offset, now_ms)
            except StorageError as error:
                log.error("cleaning: partition=%s error=%s", _name(candidate), error)
                continue
            if plan.is_due(candidate.config) and (best is None or plan.ratio > best[1].ratio):
                best = candidate, plan
        return best

    def _may_be_cleaned(self, candidate: PartitionLog) -> bool:
        return (
            candidate.topic != METADATA_TOPIC
            and candidate.log_dir.error is None
            and candidate not in self._uncleanable
        )

    # -- cleaning

    async def _clean(self, partition_log: PartitionLog, plan: CleanPlan) -> bool:
        """Clean one log; returns whether its dirty part has shrunk."""
        from ottla.storage.cleaning.job import CleaningAborted, CleanJob, CleanSettings

        settings = CleanSettings(
            buffer_bytes=min(BUFFER_BYTES_MAX, int(self._value("log.cleaner.dedupe.buffer.size"))),
            load_factor=self._value("log.cleaner.io.buffer.load.factor"),
            chunk_bytes=int(self._value("log.cleaner.io.buffer.size")) // 2,
            secret=self._randomness.uuid(),
        )
        began_ms = self._clock()
        job = self._job = partition_log.cleaning = CleanJob(partition_log, plan, settings, began_ms)
        try:
            await self._take_steps(partition_log, job)
        except CleaningAborted:
            log.info("cleaning aborted: partition=%s", _name(partition_log))
            return False
        except StorageError as error:
            if not job.aborted:
                self._failed(partition_log, error)
            return False
        finally:
            self._job = partition_log.cleaning = None
            await self._in_thread(partition_log, job.discard)
        if partition_log.cleaned_offset != job.end_offset:
            partition_log.cleaned_offset = job.end_offset
        log.info(
            "cleaned: partition=%s to=%d bytes=%d->%d records=%d->%d ms=%d",
            _name(partition_log),
            job.end_offset,
            job.bytes_before,
            job.bytes_after,
            job.records_read,
            job.records_kept,
            self._clock() - began_ms,
        )
        return job.end_offset > plan.first_dirty

    async def _take_steps(self, partition_log: PartitionLog, job: CleanJob) -> None:
        from ottla.storage.cleaning.job import DONE
        from ottla.storage.segments.swap import CleanedGroup

        loop = asyncio.get_running_loop()
        began_s, moved_bytes = loop.time(), 0
        while (step := await self._in_thread(partition_log, job.step)) is not DONE:
            if isinstance(step, CleanedGroup):
                if not partition_log.replace_segments(step, self._clock()):
                    job.abort()
                continue
            moved_bytes += step.moved_bytes
            due_s = moved_bytes / max(1.0, self._value("log.cleaner.io.max.bytes.per.second"))
            if due_s > loop.time() - began_s:
                await self._sleep(1000 * (due_s - (loop.time() - began_s)))

    def _in_thread(self, partition_log: PartitionLog, work: Callable[[], Result]) -> asyncio.Future[Result]:
        threads = self._io.of(partition_log.log_dir.path)
        return threads.run(threads.background, work)

    def _failed(self, partition_log: PartitionLog, error: StorageError) -> None:
        name = _name(partition_log)
        if isinstance(error, CorruptLog):
            self._uncleanable[partition_log] = None
            log.error("cleaning: partition=%s is damaged and will not be cleaned: %s", name, error)
        elif isinstance(error, DiskFull):
            log.warning("cleaning: partition=%s disk is full: %s", name, error)
        else:
            log.error("cleaning: partition=%s error=%s", name, error)
            partition_log.log_dir.fail(error)


def _name(partition_log: PartitionLog) -> str:
    return f"{partition_log.topic}-{partition_log.partition}"
