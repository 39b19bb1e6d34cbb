"""Periodic work on the logs: retention, removal of deleted files, checkpoints, flushes of closed segments."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.periodic_tasks import Job
    from ottla.broker.replicas.flusher import Flusher
    from ottla.broker.replicas.partition_table import PartitionTable
    from ottla.config.load import BrokerConfig
    from ottla.storage.log import PartitionLog
    from ottla.storage.manager.log_manager import LogManager

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
        executor: Executor,
    ) -> None:
        self._config = config
        self._logs = logs
        self._partitions = partitions
        self._metadata = metadata
        self._flusher = flusher
        self._clock = clock
        self._executor = executor
        self._checkpointed: tuple[int, ...] = ()

    def jobs(self) -> list[Job]:
        """The periodic jobs, each with its interval in milliseconds."""
        config = self._config
        return [
            (self.apply_retention, config.get_int("log.retention.check.interval.ms")),
            (self.remove_files, REMOVAL_INTERVAL_MS),
            (self.write_checkpoints, config.get_int("replica.high.watermark.checkpoint.interval.ms")),
            (self.flush_closed_segments, FLUSH_INTERVAL_MS),
        ]

    def apply_retention(self) -> None:
        deleted = self._logs.retention_pass(self._clock(), self._high_watermark_of)
        if deleted:
            log.info("retention: segments=%d", deleted)

    def _high_watermark_of(self, partition_log: PartitionLog) -> int:
        partition = self._partitions.by_name(partition_log.topic, partition_log.partition)
        return 0 if partition is None else partition.high_watermark

    async def remove_files(self) -> None:
        """Remove deleted files off the event loop: freeing the blocks of large ones takes time."""
        job = self._logs.begin_removals(self._clock())
        if job:
            await asyncio.get_running_loop().run_in_executor(self._executor, job.run)
            self._logs.finish_removals(job)

    async def write_checkpoints(self) -> None:
        positions = self._positions()
        if positions == self._checkpointed:
            return  # nothing has changed
        job = self._logs.checkpoint(self._partitions.high_watermarks())
        await asyncio.get_running_loop().run_in_executor(self._executor, job.run)
        self._logs.finish_checkpoint(job)
        if not job.failures:
            self._checkpointed = positions

    def flush_closed_segments(self) -> None:
        """Flush segments that were closed since the last run, so that recovery stays short."""
        for candidate in self._logs.flush_candidates(self._clock()):
            partition = self._partitions.by_name(candidate.topic, candidate.partition)
            if partition is not None:
                self._flusher.flush(partition)

    def _positions(self) -> tuple[int, ...]:
        """A value that changes with every checkpoint: offsets only rise unless logs are added or removed."""
        logs = self._logs.logs.values()
        return (
            len(logs),
            sum(partition.high_watermark for partition in self._partitions),
            sum(each.recovery_point for each in logs),
            sum(each.log_start_offset for each in logs),
            sum(each.cleaned_offset for each in logs),
            self._metadata.offset,
        )
