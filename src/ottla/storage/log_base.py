"""What every part of a partition log rests on: its state, its identity, and how it becomes durable.

`PartitionLog` in log.py adds appending, reading and shortening.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.uuids import ZERO_UUID
from ottla.storage import log_read
from ottla.storage.checkpoints import PARTITION_METADATA, read_partition_metadata, write_partition_metadata
from ottla.storage.errors import StorageOffline
from ottla.storage.files import Files, SyncHandle
from ottla.storage.flush import FlushJob
from ottla.storage.leader_epochs import FILE_NAME as LEADER_EPOCHS_FILE
from ottla.storage.log_config import LogConfig
from ottla.storage.log_dir import LogDir, guarded
from ottla.storage.log_name import parent, parse_directory_name
from ottla.storage.producer_recovery import replay
from ottla.storage.producer_state import ProducerState
from ottla.storage.recovery import LoadedLog
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments

if TYPE_CHECKING:
    from ottla.storage.cleaning.job import CleanJob


class LogBase:
    __slots__ = (
        "_changed",
        "_closed",
        "_files",
        "_generation",
        "_memo",
        "_names_version",
        "_producer_state",
        "_segments",
        "_snapshots",
        "_synced_names_version",
        "_topic_id",
        "_txn_unsynced_from",
        "cleaned_offset",
        "cleaning",
        "config",
        "directory",
        "due_removals",
        "last_flush_ms",
        "leader_epochs",
        "log_dir",
        "log_end_offset",
        "log_start_offset",
        "partition",
        "recovery_point",
        "topic",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        config: LogConfig,
        *,
        loaded: LoadedLog,
        log_dir: LogDir,
        now_ms: int,
    ) -> None:
        self._files = files
        self.directory = directory
        self.config = config
        self.log_dir = log_dir
        self.topic, self.partition = parse_directory_name(directory)
        self._topic_id: bytes | None = None
        self._segments = loaded.segments
        self._snapshots = loaded.snapshots
        self._producer_state = loaded.producer_state
        self.leader_epochs = loaded.leader_epochs
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point
        self.last_flush_ms = now_ms
        self._memo: log_read.PositionMemo | None = None
        self.due_removals: list[tuple[int, str]] = []
        # Counts new names: the directories have to be synced with the data. The first flush always does, for
        # an empty log is closed without a sync.
        self._names_version = 1
        self._synced_names_version = 0
        # No segment before it has a transaction index that is not synced; None: no segment at all.
        self._txn_unsynced_from: int | None = loaded.log_start_offset if loaded.recovered else None
        self._changed = loaded.recovered or loaded.created
        self._generation = 0
        self._closed = False
        # Everything below was compacted.
        self.cleaned_offset = 0
        self.cleaning: CleanJob | None = None

    # -- identity and figures --------------------------------------------------------------------------------

    @property
    def topic_id(self) -> bytes:
        """From partition.metadata; ZERO_UUID if the file is missing."""
        if self._topic_id is None:
            self._topic_id = read_partition_metadata(self._files, self.directory) or ZERO_UUID
        return self._topic_id

    def set_topic_id(self, topic_id: bytes) -> None:
        if self.topic_id != topic_id:
            assert self._topic_id == ZERO_UUID, "a log never changes its topic"
            with guarded(self.log_dir):
                write_partition_metadata(self._files, self.directory, topic_id)
            self._topic_id = topic_id
            self._names_version += 1

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    @property
    def active_segment_base_offset(self) -> int:
        return self._segments.active.base_offset

    @property
    def segments(self) -> list[Segment]:
        return list(self._segments)

    @property
    def segment_list(self) -> Segments:
        return self._segments

    def files_beside(self) -> Files:
        """For a job in another thread."""
        return self._files.beside()

    def abort_cleaning(self) -> None:
        """What the cleaner reads is about to change."""
        if self.cleaning is not None:
            self.cleaning.abort()

    @property
    def producer_state(self) -> ProducerState:
        """Read from its snapshot on first use."""
        state = self._producer_state
        if state is None:
            state = ProducerState()
            self._snapshots.load_latest(state, self.log_start_offset)
            replay(state, self._segments, self.log_start_offset, self.log_end_offset)
            self._txn_unsynced_from = self.log_start_offset
            self._producer_state = state
        return state

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below the first open transaction. One that retention or DeleteRecords has cut into begins, for
        readers, where the log does."""
        stable = (self._producer_state or self.producer_state).last_stable_offset(high_watermark)
        return stable if stable >= self.log_start_offset else min(self.log_start_offset, high_watermark)

    def committed(self, high_watermark: int) -> None:
        """The high watermark has moved."""
        if self._producer_state is not None:
            self._producer_state.committed(high_watermark)

    def update_config(self, config: LogConfig) -> None:
        self.config = config

    def _require_usable(self) -> None:
        if self.log_dir.error is not None:
            raise self.log_dir.offline_error()
        if self._closed:
            raise StorageOffline(self.directory, "the log is closed")

    # -- durability ------------------------------------------------------------------------------------------

    @property
    def unflushed_messages(self) -> int:
        return self.log_end_offset - self.recovery_point

    def wants_flush(self, now_ms: int) -> bool:
        """Do flush.messages, flush.ms or a closed segment ask for a flush now."""
        unflushed = self.log_end_offset - self.recovery_point
        if unflushed <= 0:
            return False
        config = self.config
        return (
            unflushed >= config.flush_messages
            or now_ms - self.last_flush_ms >= config.flush_ms
            or self.recovery_point < self._segments.active.base_offset
        )

    @property
    def _has_new_names(self) -> bool:
        return self._names_version != self._synced_names_version

    def begin_flush(self) -> FlushJob:
        """Note what has to be synced. One job at a time per log."""
        self._require_usable()
        handles: list[SyncHandle] = []
        with guarded(self.log_dir):
            if self._txn_unsynced_from is not None:
                self._collect_txn_indexes(handles, self._txn_unsynced_from)
                self._txn_unsynced_from = None
            if self.log_end_offset > self.recovery_point:
                self._collect_unsynced(handles)
            metadata_path = f"{self.directory}/{PARTITION_METADATA}"
            # Perhaps an earlier process wrote it, and died or closed the log empty before it was synced.
            if self._has_new_names and self._files.exists(metadata_path):
                metadata = self._files.open(metadata_path)
                handles.append(metadata.sync_handle())
                metadata.close()
        epochs = None
        if self.leader_epochs.dirty:
            epochs = (f"{self.directory}/{LEADER_EPOCHS_FILE}", self.leader_epochs.render())
        return FlushJob(
            self._files,
            end_offset=self.log_end_offset,
            generation=self._generation,
            handles=handles,
            directories=[self.directory, self.log_dir.path] if self._has_new_names else [],
            epochs=epochs,
            names_version=self._names_version,
            epochs_version=self.leader_epochs.version,
        )

    def _collect_unsynced(self, handles: list[SyncHandle]) -> None:
        for index in range(self._segments.floor(self.recovery_point), len(self._segments)):
            segment = self._segments[index]
            handles.append(segment.log.sync_handle())
            if segment is not self._segments.active:
                handles += [file.sync_handle() for file in segment.index_files()]

    def _collect_txn_indexes(self, handles: list[SyncHandle], first_offset: int) -> None:
        """Also those of segments that ended at the recovery point, and that of the active one."""
        for index in range(self._segments.floor(first_offset), len(self._segments)):
            unsynced = self._segments[index].unsynced_txn_index()
            if unsynced is not None:
                if unsynced.is_new:
                    self._names_version += 1
                handles.append(unsynced.file.sync_handle())
                unsynced.is_unsynced = unsynced.is_new = False

    def finish_flush(self, job: FlushJob, now_ms: int | None = None) -> None:
        """Move the recovery point; a failed sync takes the directory offline: nobody knows what it lost."""
        if job.error is not None:
            if self._closed:
                return
            raise self.log_dir.fail(job.error) from job.error
        if now_ms is not None:
            self.last_flush_ms = now_ms
        self._synced_names_version = max(self._synced_names_version, job.names_version)
        self.leader_epochs.saved_version = max(self.leader_epochs.saved_version, job.epochs_version)
        if job.generation == self._generation and job.end_offset > self.recovery_point:
            self.recovery_point = job.end_offset

    def flush(self, now_ms: int) -> None:
        """Sync everything and wait for it."""
        job = self.begin_flush()
        job.run()
        self.finish_flush(job, now_ms)

    @property
    def is_changed(self) -> bool:
        """Has anything happened since the log was opened that closing it must make durable."""
        return self._changed and self.log_end_offset > 0

    def begin_close(self) -> FlushJob | None:
        """Write down what the next open needs, and say what to sync; None if nothing needs to be durable."""
        target = self.write_closing_state()
        if target is None:
            return None
        self._names_version += 1
        job = self.begin_flush()
        with guarded(self.log_dir):
            job.also(self._segments.active.index_files())
            if self._snapshots.latest >= 0:
                job.also([self._files.open(self._snapshots.path(self._snapshots.latest))])
        return job

    def write_closing_state(self) -> int | None:
        """Write indexes, producer state and epochs, no sync; the log end offset, None if unchanged."""
        if self._closed or self.log_dir.error is not None:
            return None
        with guarded(self.log_dir):
            for _, path in self.due_removals:
                self._files.remove(path)
            changed = self.is_changed
            if changed:
                if self._segments.active.size:
                    self._segments.active.write_indexes()
                if self._snapshots.latest != self.log_end_offset:
                    self._snapshots.write(self.producer_state, self._segments)
            if self.leader_epochs.dirty:
                self.leader_epochs.save(self._files, self.directory)
        return self.log_end_offset if changed or self.log_end_offset > self.recovery_point else None

    def synced(self, offset: int) -> None:
        """All below `offset` has become durable by other means."""
        self.recovery_point = max(self.recovery_point, min(offset, self.log_end_offset))

    def close(self, now_ms: int) -> None:
        """A clean end: the next open finds all it needs and scans nothing."""
        if self._closed:
            return
        job = self.begin_close()
        if job is not None:
            job.run()
            self.finish_flush(job, now_ms)
        self.abandon()

    def abandon(self) -> None:
        """Let go of the files without writing anything."""
        self.abort_cleaning()
        self._closed = True
        for segment in self._segments:
            segment.close()

    def rename_directory(self, directory: str) -> None:
        """Move the whole partition, as deletion does; the log cannot be used any more."""
        self.abort_cleaning()
        with guarded(self.log_dir):
            self._files.rename(self.directory, directory)
            self._files.sync_dir(parent(directory))
        self.directory = directory
        for segment in self._segments:
            segment.moved(directory)
        self.abandon()
