"""How much of a log is on disk: the recovery point, and what has to be synced to move it."""

from __future__ import annotations

from ottla.storage.checkpoints import PARTITION_METADATA
from ottla.storage.errors import OutOfDescriptors, StorageError
from ottla.storage.files import Files, SyncHandle
from ottla.storage.index.txn_index import TxnIndex
from ottla.storage.log.flush_job import FlushJob
from ottla.storage.log.leader_epochs import FILE_NAME as LEADER_EPOCHS_FILE
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.log_config import LogConfig
from ottla.storage.log_dir import LogDir
from ottla.storage.segments.segment_list import SegmentList


class Durability:
    """Tracks what is synced. Everything below `recovery_point` survives a power loss.

    `changed`: something happened since the log was opened that a clean shutdown must make durable.
    """

    __slots__ = (
        "_directory",
        "_files",
        "_generation",
        "_leader_epochs",
        "_log_dir",
        "_names_version",
        "_segments",
        "_synced_names_version",
        "_txn_unsynced_from",
        "changed",
        "last_flush_ms",
        "recovery_point",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        log_dir: LogDir,
        segments: SegmentList,
        leader_epochs: LeaderEpochs,
        *,
        recovery_point: int,
        now_ms: int,
    ) -> None:
        self._files = files
        self._directory = directory
        self._log_dir = log_dir
        self._segments = segments
        self._leader_epochs = leader_epochs
        self.recovery_point = recovery_point
        self.last_flush_ms = now_ms
        self.changed = False
        # Incremented by each truncation: a flush that began before it must not move the recovery point.
        self._generation = 0
        # Counts created and renamed files, whose directory entries have to be synced with the data. The first
        # flush always syncs them, because an empty log is closed without a sync.
        self._names_version = 1
        self._synced_names_version = 0
        # No segment before this offset has an unsynced transaction index; None: no segment has.
        self._txn_unsynced_from: int | None = None

    # -- what has changed

    def names_changed(self) -> int:
        """Record that a file was created or renamed; return a number unique to this change."""
        self.changed = True
        self._names_version += 1
        return self._names_version

    def sync_names(self) -> None:
        """Make the next flush sync the directories."""
        self._names_version += 1

    def txn_indexes_changed(self, first_offset: int) -> None:
        """Record that the transaction indexes of the segments from `first_offset` on may be unsynced."""
        if self._txn_unsynced_from is None or first_offset < self._txn_unsynced_from:
            self._txn_unsynced_from = first_offset

    def truncating(self, offset: int) -> None:
        """Lower the recovery point before a truncation.

        The checkpoint must not declare durable what will be rewritten after the truncation point. If it
        cannot be written, the recovery point stays as it was: a retry has to write the checkpoint again.
        """
        self._generation += 1
        before = self.recovery_point
        if offset < before:
            self.recovery_point = offset
            if self._log_dir.on_recovery_point_lowered is not None:
                try:
                    self._log_dir.on_recovery_point_lowered(self._log_dir)
                except StorageError:
                    self.recovery_point = before
                    raise

    def truncated(self, log_end_offset: int) -> None:
        self.recovery_point = min(self.recovery_point, log_end_offset)
        self.names_changed()

    def synced(self, offset: int) -> None:
        """Record that everything below `offset` was made durable by other means than a FlushJob."""
        self.recovery_point = max(self.recovery_point, offset)

    # -- flushing

    def wants_flush(self, log_end_offset: int, config: LogConfig, now_ms: int) -> bool:
        """Whether flush.messages, flush.ms or a closed segment requires a flush now."""
        unflushed = log_end_offset - self.recovery_point
        if unflushed <= 0:
            return False
        return (
            unflushed >= config.flush_messages
            or now_ms - self.last_flush_ms >= config.flush_ms
            or self.recovery_point < self._segments.active.base_offset
        )

    def begin_flush(self, log_end_offset: int) -> FlushJob:
        """Collect what has to be synced. At most one job at a time."""
        handles: list[SyncHandle] = []
        txn_indexes: list[TxnIndex] = []
        try:
            self._collect(handles, txn_indexes, log_end_offset)
        except BaseException:
            for handle in handles:
                handle.close()
            raise
        for index in txn_indexes:
            if index.is_new:
                self._names_version += 1
            index.is_unsynced = index.is_new = False
        txn_unsynced_from, self._txn_unsynced_from = self._txn_unsynced_from, None
        names_unsynced = self._names_version != self._synced_names_version
        epochs = None
        if self._leader_epochs.dirty:
            epochs = (f"{self._directory}/{LEADER_EPOCHS_FILE}", self._leader_epochs.render())
        return FlushJob(
            self._files,
            end_offset=log_end_offset,
            generation=self._generation,
            handles=handles,
            directories=[self._directory, self._log_dir.path] if names_unsynced else [],
            epochs=epochs,
            names_version=self._names_version,
            epochs_version=self._leader_epochs.version,
            txn_indexes=txn_indexes,
            txn_unsynced_from=txn_unsynced_from,
        )

    def _collect(self, handles: list[SyncHandle], txn_indexes: list[TxnIndex], log_end_offset: int) -> None:
        """Changes nothing but the arguments: it may fail between two handles."""
        if self._txn_unsynced_from is not None:
            self._collect_txn_indexes(handles, txn_indexes, self._txn_unsynced_from)
        if log_end_offset > self.recovery_point:
            self._collect_segments(handles)
        names_unsynced = self._names_version != self._synced_names_version
        metadata_path = f"{self._directory}/{PARTITION_METADATA}"
        # An earlier process may have written the file and stopped before syncing it.
        if (names_unsynced or any(index.is_new for index in txn_indexes)) and self._files.exists(
            metadata_path
        ):
            metadata = self._files.open(metadata_path)
            handles.append(metadata.sync_handle())
            metadata.close()

    def _collect_segments(self, handles: list[SyncHandle]) -> None:
        segments = self._segments
        for index in range(segments.floor(self.recovery_point), len(segments)):
            segment = segments[index]
            handles.append(segment.log.sync_handle())
            if segment is not segments.active:
                for file in segment.index_files():
                    handles.append(file.sync_handle())  # noqa: PERF401 - each must be closed if a later fails

    def _collect_txn_indexes(
        self, handles: list[SyncHandle], txn_indexes: list[TxnIndex], first_offset: int
    ) -> None:
        """Include those of segments that ended at the recovery point, and that of the active segment."""
        for index in range(self._segments.floor(first_offset), len(self._segments)):
            unsynced = self._segments[index].unsynced_txn_index()
            if unsynced is not None:
                txn_indexes.append(unsynced)
                handles.append(unsynced.file.sync_handle())

    def flush_failed(self, job: FlushJob) -> None:
        """Raise the error of a job that only lacked descriptors, after which the next one has to sync the
        same. Any other error leaves open what is on disk."""
        if isinstance(job.error, OutOfDescriptors):
            for index in job.txn_indexes:
                index.is_unsynced = True
            if job.txn_unsynced_from is not None:
                self.txn_indexes_changed(job.txn_unsynced_from)
            raise job.error

    def finish_flush(self, job: FlushJob, now_ms: int | None) -> None:
        """Move the recovery point after a successful job, unless a truncation came in between."""
        if now_ms is not None:
            self.last_flush_ms = now_ms
        self._synced_names_version = max(self._synced_names_version, job.names_version)
        self._leader_epochs.saved_version = max(self._leader_epochs.saved_version, job.epochs_version)
        if job.generation == self._generation and job.end_offset > self.recovery_point:
            self.recovery_point = job.end_offset
