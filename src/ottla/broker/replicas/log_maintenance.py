"""Periodic work on the logs: retention, removal of deleted files, checkpoints, flushes of closed segments."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.io_threads import IoThreads
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.periodic_tasks import Job
    from ottla.broker.replicas.flusher import Flusher
    from ottla.broker.replicas.partition_table import PartitionTable
    from ottla.config.load import BrokerConfig
    from ottla.storage.log import PartitionLog
    from ottla.storage.manager.log_manager import LogManager
    from ottla.storage.manager.managed_dir import ManagedDir

log = logging.getLogger("ottla.maintenance")

REMOVAL_INTERVAL_MS = 1000
FLUSH_INTERVAL_MS = 1000


class LogMaintenance:
    def __init__(
        self,
        config: BrokerConfig,
        logs: LogManager,
        partitions: PartitionTable,
        metadata: MetadataCache,
        flusher: Flusher,
        clock: Callable[[], int],
        io: IoThreads,
    ) -> None:
        self._config = config
        self._logs = logs
        self._partitions = partitions
        self._metadata = metadata
        self._flusher = flusher
        self._clock = clock
        self._io = io
        self._checkpointed: dict[ManagedDir, tuple[int, ...]] = {}

    def jobs(self) -> list[Job]:
        """The periodic jobs, each with its interval in milliseconds. Work in threads is a job per log
        directory: one that hangs delays no other."""
        checkpoint_interval_ms = self._config.get_int("replica.high.watermark.checkpoint.interval.ms")
        jobs: list[Job] = [
            (self.apply_retention, self._config.get_int("log.retention.check.interval.ms")),
            (self.flush_closed_segments, FLUSH_INTERVAL_MS),
        ]
        for log_dir in self._logs.dirs:
            jobs.append((partial(self.remove_files, log_dir), REMOVAL_INTERVAL_MS))
            jobs.append((partial(self.write_checkpoints, log_dir), checkpoint_interval_ms))
        return jobs

    def apply_retention(self) -> None:
        deleted = self._logs.retention_pass(self._clock(), self._high_watermark_of)
        if deleted:
            log.info("retention: segments=%d", deleted)

    def _high_watermark_of(self, partition_log: PartitionLog) -> int:
        partition = self._partitions.by_name(partition_log.topic, partition_log.partition)
        return 0 if partition is None else partition.high_watermark

    async def remove_files(self, log_dir: ManagedDir) -> None:
        """Remove deleted files off the event loop: freeing the blocks of large ones takes time."""
        job = self._logs.begin_removals(log_dir, self._clock())
        if job:
            await self._in_background(log_dir, job.run)
            self._logs.finish_removals(job)

    async def write_checkpoints(self, log_dir: ManagedDir) -> None:
        positions = self._positions(log_dir)
        if log_dir.error is not None or positions == self._checkpointed.get(log_dir):
            return  # nothing has changed
        job = self._logs.checkpoint(self._partitions.high_watermarks(), [log_dir])
        await self._in_background(log_dir, job.run)
        self._logs.finish_checkpoint(job)
        if not job.failures:
            self._checkpointed[log_dir] = positions

    async def _in_background(self, log_dir: ManagedDir, work: Callable[[], None]) -> None:
        threads = self._io.of(log_dir.path)
        await threads.run(threads.background, work)

    def flush_closed_segments(self) -> None:
        """Flush segments that were closed since the last run, so that recovery stays short."""
        for candidate in self._logs.flush_candidates(self._clock()):
            partition = self._partitions.by_name(candidate.topic, candidate.partition)
            if partition is not None:
                self._flusher.flush(partition, background=True)

    def _positions(self, log_dir: ManagedDir) -> tuple[int, ...]:
        """A value that changes with every checkpoint: offsets only rise unless logs are added or removed."""
        logs = [each for each in self._logs.logs.values() if each.log_dir is log_dir]
        return (
            len(logs),
            sum(partition.high_watermark for partition in self._partitions),
            sum(each.recovery_point for each in logs),
            sum(each.log_start_offset for each in logs),
            sum(each.cleaned_offset for each in logs),
            self._metadata.offset,
        )
