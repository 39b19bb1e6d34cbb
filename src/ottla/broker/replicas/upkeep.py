"""What runs by the clock: retention, removal of files, checkpoints, flushes of closed segments, snapshots."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from ottla.protocol.messages.kraft_version_record import KRaftVersionRecord

if TYPE_CHECKING:
    from ottla.broker.node import Node

log = logging.getLogger("ottla.upkeep")

REMOVAL_INTERVAL_MS = 1000
FLUSH_INTERVAL_MS = 1000


class Upkeep:
    """A task per duty. A duty that fails is logged and comes round again; it never takes the others along."""

    def __init__(self, broker: Node, executor: Executor) -> None:
        self._broker = broker
        self._executor = executor
        self._tasks: list[asyncio.Task[None]] = []
        self._jobs: set[asyncio.Future[Any]] = set()
        self._checkpointed: tuple[int, ...] = ()

    def start(self) -> None:
        config = self._broker.config
        duties: list[tuple[Callable[[], object], int]] = [
            (self._retention, config.get_int("log.retention.check.interval.ms")),
            (self._remove, REMOVAL_INTERVAL_MS),
            (self._broker.host_what_waits, REMOVAL_INTERVAL_MS),
            (self._checkpoint, config.get_int("replica.high.watermark.checkpoint.interval.ms")),
            (self._flush, FLUSH_INTERVAL_MS),
            (self._snapshot, FLUSH_INTERVAL_MS),
        ]
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._every(duty, period_ms)) for duty, period_ms in duties]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        # A job that has begun owns files: it is waited for, not cut short.
        waiting: list[asyncio.Future[Any]] = [*self._tasks, *self._jobs]
        if waiting:
            await asyncio.wait(waiting)

    async def _every(self, duty: Callable[[], object], period_ms: int) -> None:
        while True:
            await asyncio.sleep(period_ms / 1000)
            try:
                result = duty()
                if asyncio.iscoroutine(result):
                    job = asyncio.ensure_future(result)
                    self._jobs.add(job)
                    job.add_done_callback(self._jobs.discard)
                    await asyncio.shield(job)
            except Exception:
                log.exception("upkeep failed")

    def _retention(self) -> None:
        broker = self._broker
        partitions = broker.partitions

        def upper_of(partition_log: object) -> int:
            partition = partitions.by_name(partition_log.topic, partition_log.partition)  # type: ignore[attr-defined]
            return 0 if partition is None else partition.high_watermark

        deleted = broker.logs.retention_pass(broker.clock(), upper_of)
        if deleted:
            log.info("retention: segments=%d", deleted)

    async def _remove(self) -> None:
        """Freeing the blocks of large files takes its time: not on the loop."""
        logs = self._broker.logs
        job = logs.begin_removals(self._broker.clock())
        if job:
            await asyncio.get_running_loop().run_in_executor(self._executor, job.run)
            logs.finish_removals(job)

    async def _checkpoint(self) -> None:
        broker = self._broker
        positions = _positions(broker)
        if positions == self._checkpointed:
            return  # many partitions at rest should cost nothing
        job = broker.logs.checkpoint({(p.topic, p.index): p.high_watermark for p in broker.partitions})
        await asyncio.get_running_loop().run_in_executor(self._executor, job.run)
        broker.logs.finish_checkpoint(job)
        if not job.failures:
            self._checkpointed = positions

    def _flush(self) -> None:
        """Segments that were closed since the last look go to the disk, so that recovery stays short."""
        broker = self._broker
        for candidate in broker.logs.flush_candidates(broker.clock()):
            partition = broker.partitions.by_name(candidate.topic, candidate.partition)
            if partition is not None:
                broker.flusher.flush(partition)

    async def _snapshot(self) -> None:
        """A snapshot of the metadata as far as it is applied here, with the voters of that point."""
        broker = self._broker
        quorum = broker.quorum
        # Of the image: while partitions follow a change, the image has it, but it does not count as applied.
        end_offset = broker.image_offset + 1
        version, voters = quorum.machine.history.at(end_offset)
        job = quorum.log.maybe_snapshot(
            broker.image.to_records,
            end_offset,
            broker.clock(),
            kraft_version=KRaftVersionRecord(kraft_version=version) if version else None,
            voters=None if voters is None else voters.to_record(),
        )
        if job is not None:
            await asyncio.get_running_loop().run_in_executor(self._executor, job.run)
            quorum.log.finish_snapshot(job, broker.clock())


def _positions(broker: Node) -> tuple[int, ...]:
    """Differs when anything in the checkpoints does: the offsets only rise, or a log has come or gone."""
    logs = broker.logs.logs.values()
    return (
        len(logs),
        sum(partition.high_watermark for partition in broker.partitions),
        sum(each.recovery_point for each in logs),
        sum(each.log_start_offset for each in logs),
        sum(each.cleaned_offset for each in logs),
        broker.image_offset,
    )
