"""All partition logs of a node, over one or more log directories.

    manager = LogManager(files, ["/var/lib/ottla"])       locks the directories, reads their checkpoints
    manager.open_or_create("__cluster_metadata", 0, ...)  what has to be read before the rest, if anything
    manager.load(config_of, now_ms)                       opens every partition that is there
    ...
    manager.close(now_ms, broker_epoch)                   clean stop

A directory that fails goes offline with its partitions; the others live on. A full disk is no failure:
appends are refused with DiskFull until there is room.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from ottla.storage import checkpoints
from ottla.storage.checkpoints import CorruptCheckpoint, TopicPartition
from ottla.storage.errors import CorruptLog, DirectoryInUse, StorageError, StorageOffline
from ottla.storage.files import Files, Lock
from ottla.storage.log import PartitionLog
from ottla.storage.log_config import LogConfig
from ottla.storage.log_dir import LogDir, guarded
from ottla.storage.log_name import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    STRAY_SUFFIX,
    deleted_directory_name,
    directory_name,
    parent,
    parse_directory_name,
)
from ottla.storage.report import logger

METADATA_TOPIC = "__cluster_metadata"
LOCK_NAME = ".lock"
_SYNC_SINGLY_MAX = 64


class ManagedDir(LogDir):
    """A log directory with its lock and what its checkpoints said at the start."""

    __slots__ = (
        "broker_epoch",
        "checkpointing",
        "clean",
        "cleaned",
        "high_watermarks",
        "lock",
        "log_starts",
        "lowered",
        "meta",
        "partition_count",
        "recovery_points",
        "stale",
    )

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.lock: Lock | None = None
        # A cut writes recovery points beside the thread that writes checkpoints: one at a time, and what was
        # gathered before the cut must not come after it.
        self.checkpointing = threading.Lock()
        self.lowered = 0
        self.clean = False
        self.broker_epoch = -1
        self.meta: checkpoints.MetaProperties | None = None
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_starts: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.cleaned: dict[TopicPartition, int] = {}
        self.partition_count = 0
        # Partitions that are gone, but perhaps not from the checkpoint files.
        self.stale: dict[TopicPartition, None] = {}

    def checkpointed(self) -> tuple[dict[TopicPartition, int], ...]:
        return (self.recovery_points, self.log_starts, self.high_watermarks, self.cleaned)


class CheckpointJob:
    """The checkpoint files as they should be now; `run` writes them, in any thread, and does not raise."""

    __slots__ = ("_files", "_lowered", "_writes", "failures", "without")

    def __init__(self, files: Files, writes: list[tuple[ManagedDir, str, bytes]]) -> None:
        self._files = files
        self._writes = writes
        self._lowered = {log_dir: log_dir.lowered for log_dir, _, _ in writes}
        # What it lets go of, by directory.
        self.without = {log_dir: list(log_dir.stale) for log_dir, _, _ in writes}
        self.failures: list[tuple[ManagedDir, StorageError]] = []

    def run(self) -> None:
        for log_dir, name, data in self._writes:
            with log_dir.checkpointing:
                overtaken = log_dir.lowered != self._lowered[log_dir]
                if name == checkpoints.RECOVERY_POINTS and overtaken:
                    continue
                try:
                    self._files.write_atomic(f"{log_dir.path}/{name}", data)
                except StorageError as error:
                    self.failures.append((log_dir, error))


class RemovalJob:
    """Files and directories that nobody uses; `run` removes them, in any thread, and does not raise."""

    __slots__ = ("_files", "_paths", "failures")

    def __init__(self, files: Files, paths: list[tuple[LogDir, str]]) -> None:
        self._files = files
        self._paths = paths
        self.failures: list[tuple[LogDir, StorageError]] = []

    def __bool__(self) -> bool:
        return bool(self._paths)

    def run(self) -> None:
        for log_dir, path in self._paths:
            try:
                if self._files.is_dir(path):
                    self._files.rmtree(path)
                else:
                    self._files.remove(path)
            except StorageError as error:
                self.failures.append((log_dir, error))


class LogManager:
    """One thread owns it, as it does the logs."""

    __slots__ = ("_due_removals", "_files", "corrupt", "dirs", "logs", "on_offline")

    def __init__(self, files: Files, paths: Iterable[str]) -> None:
        """Lock the directories and read their checkpoints.

        Raises DirectoryInUse if another process has one of them, StorageError if none is usable.
        """
        self._files = files
        self.logs: dict[TopicPartition, PartitionLog] = {}
        # Partitions that could not be opened because synced data is damaged, and why.
        self.corrupt: dict[TopicPartition, CorruptLog] = {}
        self.on_offline: Callable[[ManagedDir], None] | None = None
        self._due_removals: list[tuple[int, ManagedDir, str]] = []
        self.dirs = [ManagedDir(path) for path in paths]
        assert self.dirs, "no log directory"
        try:
            for log_dir in self.dirs:
                self._open_dir(log_dir)
        except BaseException:
            self._release_locks()
            raise
        if not self.live_dirs():
            error = self.dirs[0].error
            assert error is not None
            self._release_locks()
            raise error

    # -- directories -----------------------------------------------------------------------------------------

    def _make_dir(self, path: str) -> None:
        """Create a directory for good: each name above that is new has to reach the disk as well."""
        if not self._files.is_dir(path):
            above = parent(path)
            if above != path:
                self._make_dir(above)
            self._files.mkdir(path)
            self._files.sync_dir(above)

    def _open_dir(self, log_dir: ManagedDir) -> None:
        try:
            self._make_dir(log_dir.path)
            log_dir.lock = self._files.lock(f"{log_dir.path}/{LOCK_NAME}")
            log_dir.meta = checkpoints.read_meta_properties(self._files, log_dir.path)
            log_dir.clean, log_dir.broker_epoch = checkpoints.take_clean_shutdown(self._files, log_dir.path)
            self._read_checkpoints(log_dir)
        except DirectoryInUse:
            raise
        except StorageError as error:
            log_dir.fail(error)
        log_dir.on_offline = self._dir_failed
        log_dir.on_recovery_point_lowered = self._write_recovery_points

    def _read_checkpoints(self, log_dir: ManagedDir) -> None:
        for name, attribute in (
            (checkpoints.RECOVERY_POINTS, "recovery_points"),
            (checkpoints.LOG_STARTS, "log_starts"),
            (checkpoints.HIGH_WATERMARKS, "high_watermarks"),
        ):
            try:
                setattr(log_dir, attribute, checkpoints.read_offsets(self._files, log_dir.path, name))
            except CorruptCheckpoint as error:
                # Without it the logs are read in full, which is slow but right.
                logger.error("%s/%s cannot be read, going on without: %s", log_dir.path, name, error)
                log_dir.clean = False
        try:
            cleaned = checkpoints.read_offsets(self._files, log_dir.path, checkpoints.CLEANED_OFFSETS)
            log_dir.cleaned = cleaned
        except CorruptCheckpoint as error:
            logger.error("%s: what was compacted is compacted again: %s", log_dir.path, error)

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
            raise StorageOffline(self.dirs[0].path, "no log directory is left")
        return min(live, key=lambda log_dir: log_dir.partition_count)

    def free_bytes(self, log_dir: ManagedDir) -> int:
        return self._files.free_bytes(log_dir.path)

    def total_bytes(self, log_dir: ManagedDir) -> int:
        return self._files.total_bytes(log_dir.path)

    def write_meta_properties(self, log_dir: ManagedDir, meta: checkpoints.MetaProperties) -> None:
        checkpoints.write_meta_properties(self._files, log_dir.path, meta)
        log_dir.meta = meta

    # -- opening ---------------------------------------------------------------------------------------------

    def load(self, config_of: Callable[[str], LogConfig], now_ms: int) -> None:
        """Open every partition in the directories but the metadata log, which the quorum opens."""
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
            self._forget_what_is_gone(log_dir)

    def _forget_what_is_gone(self, log_dir: ManagedDir) -> None:
        """A partition may have been deleted after the checkpoints were written."""
        for offsets in log_dir.checkpointed():
            for key in list(offsets):
                known = key in self.corrupt or (key in self.logs and self.logs[key].log_dir is log_dir)
                if not known and key[0] != METADATA_TOPIC:
                    self._forget(key, log_dir)

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
            logger.warning("leaving %s alone", path)
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
            logger.error("%s and %s are the same partition; only the first is used", other, path)
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
        recovery_point = log_dir.recovery_points.get(key)
        log = PartitionLog.open(
            self._files,
            f"{log_dir.path}/{directory_name(*key)}",
            config,
            now_ms=now_ms,
            clean=log_dir.clean,
            recovery_point=recovery_point,
            log_start_offset=log_dir.log_starts.get(key, 0),
            cleaned_offset=log_dir.cleaned.get(key, 0),
            log_dir=log_dir,
        )
        self.logs[key] = log
        log_dir.partition_count += 1
        return log

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """The log or None. Raises CorruptLog if it is damaged, StorageOffline if its directory is gone."""
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
        """The log of a partition; a new one goes to the live directory with the fewest partitions.

        `is_new`: the partition was created just now. Otherwise, while a directory is offline, a log that is
        not found may be there, and an empty one must not take its place: StorageOffline.
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
            self._clear_stale(log_dir)
        log = self._open(log_dir, key, config, now_ms)
        log.set_topic_id(topic_id)
        return log

    # -- removing --------------------------------------------------------------------------------------------

    def delete(self, topic: str, partition: int, unique_hex: str, now_ms: int) -> bool:
        """Take a partition out of service; its files go after file.delete.delay.ms. False if unknown."""
        log = self.logs.pop((topic, partition), None)
        if log is None:
            return self._delete_corrupt((topic, partition), unique_hex, now_ms)
        log_dir = log.log_dir
        assert isinstance(log_dir, ManagedDir)
        log_dir.partition_count -= 1
        if log_dir.error is None:
            path = f"{log_dir.path}/{deleted_directory_name(topic, partition, unique_hex)}"
            log.rename_directory(path)
            self._due_removals.append((now_ms + log.config.file_delete_delay_ms, log_dir, path))
        self._forget((topic, partition), log_dir)
        return True

    def _delete_corrupt(self, key: TopicPartition, unique_hex: str, now_ms: int) -> bool:
        if self.corrupt.pop(key, None) is None:
            return False
        for log_dir in self.live_dirs():
            path = f"{log_dir.path}/{directory_name(*key)}"
            if self._files.is_dir(path):
                gone = f"{log_dir.path}/{deleted_directory_name(*key, unique_hex)}"
                self._files.rename(path, gone)
                self._due_removals.append((now_ms, log_dir, gone))
                self._forget(key, log_dir)
        return True

    def _forget(self, key: TopicPartition, log_dir: ManagedDir) -> None:
        """A later partition of that name must not inherit the old offsets."""
        for offsets in log_dir.checkpointed():
            offsets.pop(key, None)
        log_dir.stale[key] = None

    def _clear_stale(self, log_dir: ManagedDir) -> None:
        """Nor may it inherit them from a file after a crash: a log that ends before its recovery point
        counts as damaged."""
        with guarded(log_dir):
            for name in checkpoints.OFFSET_CHECKPOINTS:
                try:
                    offsets = checkpoints.read_offsets(self._files, log_dir.path, name)
                except CorruptCheckpoint:
                    continue  # as good as none
                kept = {key: offset for key, offset in offsets.items() if key not in log_dir.stale}
                if len(kept) < len(offsets):
                    self._files.write_atomic(f"{log_dir.path}/{name}", checkpoints.render_offsets(kept))
        log_dir.stale.clear()

    def find_strays(self, is_known: Callable[[str, int, bytes], bool]) -> list[PartitionLog]:
        """The logs that `is_known(topic, partition, topic id)` does not know."""
        return [
            log
            for log in self.logs.values()
            if log.topic != METADATA_TOPIC and not is_known(log.topic, log.partition, log.topic_id)
        ]

    def set_aside(self, log: PartitionLog, unique_hex: str) -> str:
        """Rename a stray's directory so that it is kept but not served; returns the new path."""
        del self.logs[log.topic, log.partition]
        log_dir = log.log_dir
        assert isinstance(log_dir, ManagedDir)
        log_dir.partition_count -= 1
        name = deleted_directory_name(log.topic, log.partition, unique_hex, STRAY_SUFFIX)
        path = f"{log_dir.path}/{name}"
        logger.warning("%s belongs to no topic of the cluster: kept as %s", log.directory, path)
        log.rename_directory(path)
        self._forget((log.topic, log.partition), log_dir)
        return path

    # -- upkeep ----------------------------------------------------------------------------------------------

    def retention_pass(self, now_ms: int, upper_of: Callable[[PartitionLog], int]) -> int:
        """Delete old segments of every log, up to its high watermark; returns how many."""
        count = 0
        for log in list(self.logs.values()):
            if log.log_dir.error is not None or log.topic == METADATA_TOPIC:
                continue
            try:
                count += log.delete_old_segments(now_ms, upper_of(log))
                log.expire_producers(now_ms)
            except StorageError as error:
                logger.error("retention of %s: %s", log.directory, error)
        return count

    def begin_removals(self, now_ms: int) -> RemovalJob:
        """What is due to be removed, files and whole directories, as a job for any thread."""
        due: list[tuple[LogDir, str]] = []
        for log in [log for log in self.logs.values() if log.due_removals]:
            due += [(log.log_dir, path) for path in log.take_due_removals(now_ms)]
        due += [(log_dir, path) for due_ms, log_dir, path in self._due_removals if due_ms <= now_ms]
        self._due_removals = [entry for entry in self._due_removals if entry[0] > now_ms]
        return RemovalJob(self._files, [(log_dir, path) for log_dir, path in due if log_dir.error is None])

    def finish_removals(self, job: RemovalJob) -> None:
        for log_dir, error in job.failures:
            log_dir.fail(error)

    def remove_due(self, now_ms: int) -> None:
        """Remove at once what is due."""
        job = self.begin_removals(now_ms)
        job.run()
        self.finish_removals(job)

    def flush_candidates(self, now_ms: int) -> list[PartitionLog]:
        """The logs that flush.messages, flush.ms or a closed segment want flushed."""
        # Of many logs at rest not one is called: they should cost nothing.
        unflushed = [log for log in self.logs.values() if log.log_end_offset > log.recovery_point]
        return [log for log in unflushed if log.log_dir.error is None and log.wants_flush(now_ms)]

    # -- checkpoints -----------------------------------------------------------------------------------------

    def high_watermark(self, topic: str, partition: int) -> int | None:
        """What the checkpoint of the last run said."""
        for log_dir in self.dirs:
            found = log_dir.high_watermarks.get((topic, partition))
            if found is not None:
                return found
        return None

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> CheckpointJob:
        """Recovery points, log start offsets, what was compacted and, if given, high watermarks: ready to be
        written."""
        writes = []
        for log_dir in self.live_dirs():
            logs = [(key, log) for key, log in self.logs.items() if log.log_dir is log_dir]
            writes.append((log_dir, checkpoints.RECOVERY_POINTS, self._recovery_points(log_dir)))
            starts = {
                key: log.log_start_offset
                for key, log in logs
                if log.log_start_offset > log.segments[0].base_offset
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

    def finish_checkpoint(self, job: CheckpointJob) -> None:
        """A checkpoint that cannot be written, but for lack of room, takes its directory offline."""
        from ottla.storage.errors import DiskFull

        for log_dir, error in job.failures:
            if isinstance(error, DiskFull):
                logger.warning("checkpoint not written: %s", error)
            else:
                log_dir.fail(error)
            job.without.pop(log_dir, None)
        for log_dir, keys in job.without.items():
            for key in keys:
                log_dir.stale.pop(key, None)

    def _recovery_points(self, log_dir: LogDir) -> bytes:
        assert isinstance(log_dir, ManagedDir)
        # A damaged partition keeps its point: without it the next start would cut the damage off in silence.
        points = {key: log_dir.recovery_points[key] for key in self.corrupt if key in log_dir.recovery_points}
        for key, log in self.logs.items():
            if log.log_dir is log_dir:
                points[key] = log.recovery_point
        return checkpoints.render_offsets(points)

    def _write_recovery_points(self, log_dir: LogDir) -> None:
        assert isinstance(log_dir, ManagedDir)
        data = self._recovery_points(log_dir)
        with log_dir.checkpointing:
            log_dir.lowered += 1
            self._files.write_atomic(f"{log_dir.path}/{checkpoints.RECOVERY_POINTS}", data)

    # -- the end ---------------------------------------------------------------------------------------------

    def close(
        self, now_ms: int, broker_epoch: int = -1, high_watermarks: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Close every log; a directory in which all went well is marked as cleanly stopped."""
        unclean = self._close_logs(now_ms)
        job = self.checkpoint(high_watermarks)
        job.run()
        unclean.update(log_dir for log_dir, _ in job.failures)
        for log_dir in self.live_dirs():
            if log_dir not in unclean:
                try:
                    checkpoints.write_clean_shutdown(self._files, log_dir.path, broker_epoch)
                except StorageError as error:
                    logger.error("no clean-shutdown marker: %s", error)
        self._release_locks()

    def _close_logs(self, now_ms: int) -> set[LogDir]:
        """Returns the directories in which a log could not be closed."""
        unclean: set[LogDir] = set()
        for log_dir in self.live_dirs():
            logs = [log for log in self.logs.values() if log.log_dir is log_dir]
            try:
                if sum(log.is_changed for log in logs) > _SYNC_SINGLY_MAX:
                    self._close_together(log_dir, logs)
                for log in logs:
                    log.close(now_ms)
            except StorageError as error:
                logger.error("log directory %s is not stopped cleanly: %s", log_dir.path, error)
                unclean.add(log_dir)
        for log in self.logs.values():
            log.abandon()
        return unclean

    def _close_together(self, log_dir: ManagedDir, logs: list[PartitionLog]) -> None:
        """One sync of the file system instead of several per log."""
        written = [(log, log.write_closing_state()) for log in logs]
        try:
            self._files.sync_filesystem(log_dir.path)
        except StorageError as error:
            raise log_dir.fail(error) from error
        for log, offset in written:
            if offset is not None:
                log.synced(offset)
            log.abandon()

    def abandon(self) -> None:
        """Let go of everything without writing, as a killed process would."""
        for log in self.logs.values():
            log.abandon()
        self._release_locks()

    def _release_locks(self) -> None:
        for log_dir in self.dirs:
            if log_dir.lock is not None:
                log_dir.lock.release()
                log_dir.lock = None
