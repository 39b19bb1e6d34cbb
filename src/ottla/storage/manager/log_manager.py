"""All partition logs of a node, in one or more log directories.

    manager = LogManager(files, ["/var/lib/ottla"])
    manager.open()                                        locks the directories, reads their checkpoints
    manager.open_or_create("__cluster_metadata", 0, ...)  logs that are needed before the others
    manager.load(config_of, now_ms)                       opens every partition found in the directories
    ...
    manager.close(now_ms, broker_epoch)                   clean shutdown

An I/O error takes a directory and its partitions offline; the others stay online. A full disk is not an I/O
error: appends fail with DiskFull until there is space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Self

from ottla.storage import checkpoints
from ottla.storage.checkpoints import TopicPartition
from ottla.storage.directory_names import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    STRAY_SUFFIX,
    deleted_directory_name,
    directory_name,
    parse_directory_name,
)
from ottla.storage.errors import CorruptLog, OutOfDescriptors, StorageError, StorageOffline
from ottla.storage.files import Files
from ottla.storage.log import PartitionLog, open_log
from ottla.storage.log_config import LogConfig
from ottla.storage.log_dir import LogDir
from ottla.storage.logger import logger
from ottla.storage.manager.checkpoint_writer import CheckpointWriter
from ottla.storage.manager.jobs import CheckpointJob, RemovalJob
from ottla.storage.manager.managed_dir import ManagedDir

METADATA_TOPIC = "__cluster_metadata"
_SYNC_SINGLY_MAX = 64


class LogManager:
    """Belongs to one thread, as its logs do."""

    __slots__ = (
        "_checkpoints",
        "_due_removals",
        "_files",
        "_postponed",
        "corrupt",
        "dirs",
        "logs",
        "on_offline",
    )

    def __init__(self, files: Files, paths: Iterable[str]) -> None:
        self._files = files
        self.logs: dict[TopicPartition, PartitionLog] = {}
        # Partitions that could not be opened because synced data is damaged, and the error.
        self.corrupt: dict[TopicPartition, CorruptLog] = {}
        self._checkpoints = CheckpointWriter(files, self.logs, self.corrupt)
        self.on_offline: Callable[[ManagedDir], None] | None = None
        self._due_removals: list[tuple[int, ManagedDir, str]] = []
        self._postponed: list[tuple[int, PartitionLog, str]] = []  # deletions in directories that are stalled
        self.dirs = [ManagedDir(path) for path in paths]
        assert self.dirs, "no log directory"

    def open(self) -> Self:
        """Lock the directories and read their checkpoints.

        Raises DirectoryInUse if another process uses one of them, StorageError if none is usable.
        """
        try:
            for log_dir in self.dirs:
                log_dir.open(self._files)
                log_dir.on_offline = self._dir_failed
                log_dir.on_recovery_point_lowered = self._checkpoints.write_recovery_points
        except BaseException:
            self._release_locks()
            raise
        if not self.live_dirs():
            error = self.dirs[0].error
            assert error is not None
            self._release_locks()
            raise error
        return self

    # -- directories

    def live_dirs(self) -> list[ManagedDir]:
        return [log_dir for log_dir in self.dirs if log_dir.error is None]

    def offline_dirs(self) -> list[ManagedDir]:
        return [log_dir for log_dir in self.dirs if log_dir.error is not None]

    def _dir_failed(self, log_dir: LogDir) -> None:
        assert isinstance(log_dir, ManagedDir)
        if self.on_offline is not None:
            self.on_offline(log_dir)

    def _choose_dir(self) -> ManagedDir:
        live = self.live_dirs()
        if not live:
            raise StorageOffline(self.dirs[0].path, "all log directories are offline")
        return min(live, key=lambda log_dir: log_dir.partition_count)

    def free_bytes(self, log_dir: ManagedDir) -> int:
        return self._files.free_bytes(log_dir.path)

    def total_bytes(self, log_dir: ManagedDir) -> int:
        return self._files.total_bytes(log_dir.path)

    def write_meta_properties(self, log_dir: ManagedDir, meta: checkpoints.MetaProperties) -> None:
        checkpoints.write_meta_properties(self._files, log_dir.path, meta)
        log_dir.meta = meta

    # -- opening

    def load(self, config_of: Callable[[str], LogConfig], now_ms: int) -> None:
        """Open every partition in the directories except the metadata log, which the quorum opens."""
        configs: dict[str, LogConfig] = {}
        for log_dir in self.live_dirs():
            try:
                names = self._files.listdir(log_dir.path)
            except StorageError as error:
                log_dir.fail(error)
                continue
            for name in names:
                if log_dir.error is not None:
                    break
                self._load_one(log_dir, name, configs, config_of, now_ms)
            self._forget_deleted(log_dir)

    def _forget_deleted(self, log_dir: ManagedDir) -> None:
        """Drop the offsets of partitions that were deleted after the checkpoints were written."""
        for key in log_dir.known_partitions():
            open_here = key in self.logs and self.logs[key].log_dir is log_dir
            if not open_here and key not in self.corrupt and key[0] != METADATA_TOPIC:
                log_dir.forget(key)

    def _load_one(
        self,
        log_dir: ManagedDir,
        name: str,
        configs: dict[str, LogConfig],
        config_of: Callable[[str], LogConfig],
        now_ms: int,
    ) -> None:
        path = f"{log_dir.path}/{name}"
        if name.endswith(DELETE_SUFFIX):
            self._due_removals.append((now_ms, log_dir, path))
            return
        if name.endswith((FUTURE_SUFFIX, STRAY_SUFFIX)):
            logger.warning("ignoring %s", path)
            return
        try:
            topic, partition = parse_directory_name(name)
        except ValueError:
            return
        key = (topic, partition)
        if topic == METADATA_TOPIC or not self._files.is_dir(path):
            return
        if key in self.logs:
            other = self.logs[key].directory
            logger.error(
                "%s and %s are directories of the same partition; the second is ignored", other, path
            )
            return
        config = configs.get(topic)
        if config is None:
            config = configs[topic] = config_of(topic)
        try:
            self._open(log_dir, key, config, now_ms)
        except CorruptLog as error:
            self.corrupt[key] = error
        except StorageError as error:
            log_dir.fail(error)

    def _open(self, log_dir: ManagedDir, key: TopicPartition, config: LogConfig, now_ms: int) -> PartitionLog:
        log = open_log(
            self._files,
            f"{log_dir.path}/{directory_name(*key)}",
            config,
            now_ms=now_ms,
            clean=log_dir.clean,
            recovery_point=log_dir.recovery_points.get(key),
            log_start_offset=log_dir.log_starts.get(key, 0),
            cleaned_offset=log_dir.cleaned.get(key, 0),
            log_dir=log_dir,
        )
        self.logs[key] = log
        log_dir.partition_count += 1
        return log

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """Return the log or None. Raises CorruptLog if it is damaged, StorageOffline if its directory is
        offline."""
        key = (topic, partition)
        log = self.logs.get(key)
        if log is None:
            if key in self.corrupt:
                raise self.corrupt[key]
            return None
        if log.log_dir.error is not None:
            raise log.log_dir.offline_error()
        return log

    def open_or_create(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: LogConfig,
        now_ms: int,
        *,
        log_dir: ManagedDir | None = None,
        is_new: bool = False,
    ) -> PartitionLog:
        """Return the log of a partition; a new log is created in the online directory with the fewest
        partitions.

        `is_new`: the partition was just created. Otherwise a log that is not found may be in an offline
        directory, and must not be replaced by an empty one: StorageOffline is raised.
        """
        log = self.get(topic, partition)
        if log is not None:
            log.set_topic_id(topic_id)
            return log
        key = (topic, partition)
        if log_dir is None:
            offline = self.offline_dirs()
            if offline and not is_new:
                raise offline[0].offline_error()
            log_dir = self._choose_dir()
        elif log_dir.error is not None:
            raise log_dir.offline_error()
        if key in log_dir.stale:
            self._checkpoints.drop_stale(log_dir)
        log = self._open(log_dir, key, config, now_ms)
        log.set_topic_id(topic_id)
        return log

    # -- deletion

    def delete(self, topic: str, partition: int, unique_hex: str, now_ms: int) -> bool:
        """Delete a partition; its files are removed after file.delete.delay.ms. Return False if it is
        unknown."""
        log = self.logs.pop((topic, partition), None)
        if log is None:
            return self._delete_corrupt((topic, partition), unique_hex, now_ms)
        log_dir = log.log_dir
        assert isinstance(log_dir, ManagedDir)
        log_dir.partition_count -= 1
        path = f"{log_dir.path}/{deleted_directory_name(topic, partition, unique_hex)}"
        due_ms = now_ms + log.config.file_delete_delay_ms
        if log_dir.error is None:
            log.rename_directory(path)
            self._due_removals.append((due_ms, log_dir, path))
        elif log_dir.is_stalled:
            log.abandon()
            self._postponed.append((due_ms, log, path))
        log_dir.forget((topic, partition))
        return True

    def resumed(self, log_dir: ManagedDir) -> None:
        """Carry out what was postponed while the disk did not answer."""
        here = [entry for entry in self._postponed if entry[1].log_dir is log_dir]
        self._postponed = [entry for entry in self._postponed if entry not in here]
        for due_ms, log, path in here:
            log.rename_directory(path)
            self._due_removals.append((due_ms, log_dir, path))

    def _delete_corrupt(self, key: TopicPartition, unique_hex: str, now_ms: int) -> bool:
        if self.corrupt.pop(key, None) is None:
            return False
        for log_dir in self.live_dirs():
            path = f"{log_dir.path}/{directory_name(*key)}"
            if self._files.is_dir(path):
                gone = f"{log_dir.path}/{deleted_directory_name(*key, unique_hex)}"
                self._files.rename(path, gone)
                self._due_removals.append((now_ms, log_dir, gone))
                log_dir.forget(key)
        return True

    def find_strays(self, is_known: Callable[[str, int, bytes], bool]) -> list[PartitionLog]:
        """Return the logs for which `is_known(topic, partition, topic id)` is false."""
        return [
            log
            for log in self.logs.values()
            if log.topic != METADATA_TOPIC and not is_known(log.topic, log.partition, log.topic_id)
        ]

    def set_aside(self, log: PartitionLog, unique_hex: str) -> str:
        """Rename the directory of a stray log, so that it is kept but not served; return the new path."""
        del self.logs[log.topic, log.partition]
        log_dir = log.log_dir
        assert isinstance(log_dir, ManagedDir)
        log_dir.partition_count -= 1
        name = deleted_directory_name(log.topic, log.partition, unique_hex, STRAY_SUFFIX)
        path = f"{log_dir.path}/{name}"
        logger.warning("%s does not belong to a topic of the cluster: renamed to %s", log.directory, path)
        log.rename_directory(path)
        log_dir.forget((log.topic, log.partition))
        return path

    # -- maintenance

    def retention_pass(self, now_ms: int, upper_of: Callable[[PartitionLog], int]) -> int:
        """Apply retention to every log, up to its high watermark; return the number of deleted segments."""
        count = 0
        for log in list(self.logs.values()):
            if log.log_dir.error is not None or log.topic == METADATA_TOPIC:
                continue
            try:
                count += log.delete_old_segments(now_ms, upper_of(log))
                log.expire_producers(now_ms)
            except StorageError as error:
                logger.error("retention failed in %s: %s", log.directory, error)
        return count

    def begin_removals(self, log_dir: ManagedDir, now_ms: int) -> RemovalJob:
        """Collect the files and directories whose delete delay has passed, as a job for any thread."""
        due: list[str] = []
        if log_dir.error is not None:
            return RemovalJob(self._files, log_dir, due)
        for log in [log for log in self.logs.values() if log.removals and log.log_dir is log_dir]:
            due += log.take_due_removals(now_ms)
        here = [entry for entry in self._due_removals if entry[1] is log_dir and entry[0] <= now_ms]
        if here:
            due += [path for _, _, path in here]
            self._due_removals = [entry for entry in self._due_removals if entry not in here]
        return RemovalJob(self._files, log_dir, due)

    def finish_removals(self, job: RemovalJob) -> None:
        for error in job.failures:
            if isinstance(error, OutOfDescriptors):
                logger.warning("not removed until the next start: %s", error)
            else:
                job.log_dir.fail(error)

    def remove_due(self, now_ms: int) -> None:
        """Remove the files and directories whose delete delay has passed, blocking."""
        for log_dir in self.dirs:
            job = self.begin_removals(log_dir, now_ms)
            job.run()
            self.finish_removals(job)

    def flush_candidates(self, now_ms: int) -> list[PartitionLog]:
        """Return the logs that flush.messages, flush.ms or a closed segment requires to be flushed."""
        # No call per log: idle logs should cost next to nothing.
        logs = self.logs.values()
        unflushed = [log for log in logs if log.log_end_offset > log.durability.recovery_point]
        return [log for log in unflushed if log.log_dir.error is None and log.wants_flush(now_ms)]

    # -- checkpoints

    def high_watermark(self, topic: str, partition: int) -> int | None:
        """Return the high watermark that the checkpoint contained at start, if any."""
        for log_dir in self.dirs:
            found = log_dir.high_watermarks.get((topic, partition))
            if found is not None:
                return found
        return None

    def checkpoint(
        self,
        high_watermarks: Mapping[TopicPartition, int] | None = None,
        log_dirs: list[ManagedDir] | None = None,
    ) -> CheckpointJob:
        """Collect the content of the checkpoint files, by default of all that are online, as a job for any
        thread."""
        return self._checkpoints.begin(self.live_dirs() if log_dirs is None else log_dirs, high_watermarks)

    def finish_checkpoint(self, job: CheckpointJob) -> None:
        self._checkpoints.finish(job)

    # -- shutdown

    def close(
        self, now_ms: int, broker_epoch: int = -1, high_watermarks: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Close every log, and mark the directories in which that succeeded as cleanly shut down."""
        unclean = self._close_logs(now_ms)
        job = self.checkpoint(high_watermarks)
        job.run()
        unclean.update(log_dir for log_dir, _ in job.failures)
        for log_dir in self.live_dirs():
            if log_dir not in unclean:
                try:
                    checkpoints.write_clean_shutdown(self._files, log_dir.path, broker_epoch)
                except StorageError as error:
                    logger.error("clean shutdown marker not written: %s", error)
        self._release_locks()

    def _close_logs(self, now_ms: int) -> set[LogDir]:
        """Close the logs; return the directories in which one could not be closed."""
        unclean: set[LogDir] = set()
        for log_dir in self.live_dirs():
            logs = [log for log in self.logs.values() if log.log_dir is log_dir]
            try:
                if sum(log.is_changed for log in logs) > _SYNC_SINGLY_MAX:
                    self._close_together(log_dir, logs)
                for log in logs:
                    log.close(now_ms)
            except StorageError as error:
                logger.error("unclean shutdown of log directory %s: %s", log_dir.path, error)
                unclean.add(log_dir)
        for log in self.logs.values():
            log.abandon()
        return unclean

    def _close_together(self, log_dir: ManagedDir, logs: list[PartitionLog]) -> None:
        """Close many logs with one sync of the file system instead of several per log."""
        written = [(log, log.write_closing_state()) for log in logs]
        try:
            self._files.sync_filesystem(log_dir.path)
        except StorageError as error:
            raise log_dir.fail(error) from error
        for log, offset in written:
            if offset is not None:
                log.durability.synced(offset)
            log.abandon()

    def abandon(self) -> None:
        """Release everything without writing, as a killed process would."""
        for log in self.logs.values():
            log.abandon()
        self._release_locks()

    def _release_locks(self) -> None:
        for log_dir in self.dirs:
            log_dir.release_lock()
