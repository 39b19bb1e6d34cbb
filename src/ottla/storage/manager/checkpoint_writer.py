"""Writing the offset checkpoints of the log directories."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.storage import checkpoints
from ottla.storage.checkpoints import CorruptCheckpoint, TopicPartition
from ottla.storage.errors import CorruptLog, DiskFull
from ottla.storage.files import Files
from ottla.storage.log import PartitionLog
from ottla.storage.log_dir import LogDir, offline_on_error
from ottla.storage.logger import logger
from ottla.storage.manager.jobs import CheckpointJob
from ottla.storage.manager.managed_dir import ManagedDir


class CheckpointWriter:
    """`logs` and `corrupt` are the log manager's: open logs, and logs that could not be opened."""

    __slots__ = ("_corrupt", "_files", "_logs")

    def __init__(
        self,
        files: Files,
        logs: Mapping[TopicPartition, PartitionLog],
        corrupt: Mapping[TopicPartition, CorruptLog],
    ) -> None:
        self._files = files
        self._logs = logs
        self._corrupt = corrupt

    def begin(
        self, log_dirs: list[ManagedDir], high_watermarks: Mapping[TopicPartition, int] | None
    ) -> CheckpointJob:
        """Collect recovery points, log start offsets, cleaned offsets and, if given, high watermarks."""
        writes = []
        for log_dir in log_dirs:
            logs = [(key, log) for key, log in self._logs.items() if log.log_dir is log_dir]
            writes.append((log_dir, checkpoints.RECOVERY_POINTS, self._recovery_points(log_dir)))
            starts = {
                key: log.log_start_offset
                for key, log in logs
                if log.log_start_offset > log.segments.first.base_offset
            }
            writes.append((log_dir, checkpoints.LOG_STARTS, checkpoints.render_offsets(starts)))
            cleaned = {key: log.cleaned_offset for key, log in logs if log.cleaned_offset}
            if cleaned or log_dir.cleaned:
                log_dir.cleaned = cleaned
                writes.append((log_dir, checkpoints.CLEANED_OFFSETS, checkpoints.render_offsets(cleaned)))
            if high_watermarks is not None:
                own = {key: high_watermarks[key] for key, _ in logs if key in high_watermarks}
                writes.append((log_dir, checkpoints.HIGH_WATERMARKS, checkpoints.render_offsets(own)))
        return CheckpointJob(self._files, writes)

    def finish(self, job: CheckpointJob) -> None:
        """Take a directory offline if its checkpoint could not be written, unless the disk is full."""
        for log_dir, error in job.failures:
            if isinstance(error, DiskFull):
                logger.warning("checkpoint not written: %s", error)
            else:
                log_dir.fail(error)
            job.without.pop(log_dir, None)
        for log_dir, keys in job.without.items():
            for key in keys:
                log_dir.stale.pop(key, None)

    def write_recovery_points(self, log_dir: LogDir) -> None:
        """Write the recovery points at once, because a truncation has lowered one."""
        assert isinstance(log_dir, ManagedDir)
        data = self._recovery_points(log_dir)
        with log_dir.checkpoint_lock:
            log_dir.lowered += 1
            self._files.write_atomic(f"{log_dir.path}/{checkpoints.RECOVERY_POINTS}", data)

    def _recovery_points(self, log_dir: ManagedDir) -> bytes:
        # A damaged log keeps its recovery point: without it, the next start would silently truncate the
        # damage.
        points = {
            key: log_dir.recovery_points[key] for key in self._corrupt if key in log_dir.recovery_points
        }
        for key, log in self._logs.items():
            if log.log_dir is log_dir:
                points[key] = log.recovery_point
        return checkpoints.render_offsets(points)

    def drop_stale(self, log_dir: ManagedDir) -> None:
        """Remove deleted partitions from the files, before a partition of the same name is created.

        Otherwise, after a crash, it would end before the recovery point of the old one and count as damaged.
        """
        with offline_on_error(log_dir):
            for name in checkpoints.OFFSET_CHECKPOINTS:
                try:
                    offsets = checkpoints.read_offsets(self._files, log_dir.path, name)
                except CorruptCheckpoint:
                    continue  # equivalent to an empty one
                kept = {key: offset for key, offset in offsets.items() if key not in log_dir.stale}
                if len(kept) < len(offsets):
                    self._files.write_atomic(f"{log_dir.path}/{name}", checkpoints.render_offsets(kept))
        log_dir.stale.clear()
