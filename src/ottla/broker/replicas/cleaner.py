"""Compaction by the clock: the filthiest log first, one at a time, a step at a time beside the loop.

One cleaning runs at once, whatever `log.cleaner.threads` says above 0: it is bound by the disk and the other
core, and the memory for keys is then all its own. Between two steps the loop is asked nothing but to swap in
a segment, so clients wait for some renames at most.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from ottla.storage.errors import CorruptLog, DiskFull, StorageError
from ottla.storage.manager.log_manager import METADATA_TOPIC

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.storage.cleaning.job import CleanJob
    from ottla.storage.cleaning.plan import CleanPlan
    from ottla.storage.log import PartitionLog

log = logging.getLogger("ottla.cleaner")

PAUSE_MS_MIN = 10
BUFFER_BYTES_MAX = 2**31 - 1


class Cleaner:
    def __init__(self, broker: Node, executor: Executor) -> None:
        self._broker = broker
        self._executor = executor
        self._task: asyncio.Task[None] | None = None
        self._job: CleanJob | None = None
        self._pause: asyncio.Future[None] | None = None
        self._stopping = False
        # Logs that hold damaged batches: they are served as far as they can be read, and left alone.
        self._uncleanable: dict[PartitionLog, None] = {}

    def start(self) -> None:
        if self._broker.config.get_bool("log.cleaner.enable"):
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """The step under way is waited for: it owns files."""
        self._stopping = True
        if self._job is not None:
            self._job.abort()
        if self._pause is not None and not self._pause.done():
            self._pause.set_result(None)
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        # Producers repeat what the last process did not answer: the batches that tell so stay for that long.
        worked = False
        while not self._stopping:
            if not worked:
                await self._sleep(max(PAUSE_MS_MIN, self._value("log.cleaner.backoff.ms")))
            worked = False
            try:
                found = self._filthiest() if self._value("log.cleaner.threads") else None
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
        value: float = self._broker.layers.broker_value(name)
        return value

    # -- which

    def _filthiest(self) -> tuple[PartitionLog, CleanPlan] | None:
        """Of the logs that are due the one with the largest share of what was not cleaned."""
        from ottla.storage.cleaning.plan import plan_clean

        broker = self._broker
        now_ms = broker.clock()
        best: tuple[PartitionLog, CleanPlan] | None = None
        for candidate in broker.logs.logs.values():
            if not candidate.config.cleanup_compact or not self._may_be_cleaned(candidate):
                continue
            partition = broker.partitions.by_name(candidate.topic, candidate.partition)
            if partition is None or partition.log is not candidate:
                continue
            try:
                # The last stable offset may have to be read from the log: only where it matters.
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

    # -- how

    async def _clean(self, partition_log: PartitionLog, plan: CleanPlan) -> bool:
        """Returns whether it got anywhere."""
        from ottla.storage.cleaning.job import CleaningAborted, CleanJob, CleanSettings

        broker = self._broker
        settings = CleanSettings(
            buffer_bytes=min(BUFFER_BYTES_MAX, int(self._value("log.cleaner.dedupe.buffer.size"))),
            load_factor=self._value("log.cleaner.io.buffer.load.factor"),
            chunk_bytes=int(self._value("log.cleaner.io.buffer.size")) // 2,
            secret=broker.random_uuid(),
        )
        began_ms = broker.clock()
        job = self._job = partition_log.cleaning = CleanJob(partition_log, plan, settings, began_ms)
        try:
            await self._take_steps(partition_log, job)
        except CleaningAborted:
            log.info("cleaning given up: partition=%s", _name(partition_log))
            return False
        except StorageError as error:
            if not job.aborted:
                self._failed(partition_log, error)
            return False
        finally:
            self._job = partition_log.cleaning = None
            await asyncio.get_running_loop().run_in_executor(self._executor, job.discard)
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
            broker.clock() - began_ms,
        )
        return job.end_offset > plan.first_dirty

    async def _take_steps(self, partition_log: PartitionLog, job: CleanJob) -> None:
        from ottla.storage.cleaning.job import DONE
        from ottla.storage.segments.swap import CleanedGroup

        loop = asyncio.get_running_loop()
        began_s, moved_bytes = loop.time(), 0
        while (step := await loop.run_in_executor(self._executor, job.step)) is not DONE:
            if isinstance(step, CleanedGroup):
                if not partition_log.replace_segments(step, self._broker.clock()):
                    job.abort()
                continue
            moved_bytes += step.moved_bytes
            due_s = moved_bytes / max(1.0, self._value("log.cleaner.io.max.bytes.per.second"))
            if due_s > loop.time() - began_s:
                await self._sleep(1000 * (due_s - (loop.time() - began_s)))

    def _failed(self, partition_log: PartitionLog, error: StorageError) -> None:
        name = _name(partition_log)
        if isinstance(error, CorruptLog):
            self._uncleanable[partition_log] = None
            log.error("cleaning: partition=%s is damaged and is not cleaned any more: %s", name, error)
        elif isinstance(error, DiskFull):
            log.warning("cleaning: partition=%s found no room: %s", name, error)
        else:
            log.error("cleaning: partition=%s error=%s", name, error)
            partition_log.log_dir.fail(error)


def _name(partition_log: PartitionLog) -> str:
    return f"{partition_log.topic}-{partition_log.partition}"
