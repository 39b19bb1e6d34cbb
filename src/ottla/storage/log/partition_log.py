"""The log of one partition: what the broker appends to and reads from.

`PartitionLog` owns the log start and end offsets, the append path, and the order in which its parts change:

    segments        SegmentList: the segment files in offset order
    leader_epochs   LeaderEpochs: which leader epoch wrote from which offset
    durability      Durability: recovery point, and what has to be synced
    producers       LogProducers: sequence numbers and transactions, with their snapshots
    _reader         LogReader: lookups by offset
    removals        DelayedRemovals: files of deleted segments

A log belongs to one thread. Only `FlushJob.run` may run in another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.protocol.uuids import ZERO_UUID
from ottla.records.batch import stamp
from ottla.storage.checkpoints import read_partition_metadata, write_partition_metadata
from ottla.storage.directory_names import parent, parse_directory_name
from ottla.storage.errors import CorruptLog, DiskFull, OffsetOutOfRange, StorageError, StorageOffline
from ottla.storage.files import Files
from ottla.storage.index.txn_index import AbortedTransaction
from ottla.storage.log.append import (
    AppendResult,
    append_follower_batches,
    append_group,
    append_leader_batches,
)
from ottla.storage.log.durability import Durability
from ottla.storage.log.flush_job import FlushJob
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.log.lookup import TimestampOffset, find_aborted, find_max_timestamp, find_timestamp
from ottla.storage.log.reader import LogReader
from ottla.storage.log.region import EMPTY_REGION, FileRegion
from ottla.storage.log.removals import DelayedRemovals
from ottla.storage.log.retention import delete_old_segments
from ottla.storage.log_config import LogConfig
from ottla.storage.log_dir import LogDir, offline_on_error
from ottla.storage.producers.log_producers import LogProducers
from ottla.storage.producers.state import ProducerState
from ottla.storage.segments.segment import Segment
from ottla.storage.segments.segment_list import SegmentList
from ottla.storage.segments.swap import CleanedGroup, RunningClean

if TYPE_CHECKING:
    from ottla.records.validate import CheckedRecords


class PartitionLog:
    __slots__ = (
        "_reader",
        "_topic_id",
        "cleaned_offset",
        "cleaning",
        "closed",
        "config",
        "directory",
        "durability",
        "files",
        "leader_epochs",
        "log_dir",
        "log_end_offset",
        "log_start_offset",
        "outlasts_stalls",
        "partition",
        "producers",
        "removals",
        "segments",
        "topic",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        config: LogConfig,
        log_dir: LogDir,
        *,
        segments: SegmentList,
        leader_epochs: LeaderEpochs,
        producers: LogProducers,
        durability: Durability,
        log_start_offset: int,
        log_end_offset: int,
        cleaned_offset: int,
    ) -> None:
        """See `open_log`, which creates the parts from the files in `directory`."""
        self.files = files
        self.directory = directory
        self.config = config
        self.log_dir = log_dir
        self.topic, self.partition = parse_directory_name(directory)
        self._topic_id: bytes | None = None
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.segments = segments
        self.leader_epochs = leader_epochs
        self.durability = durability
        self.producers = producers
        # Most logs of a large node are never read and delete nothing: these parts are created on first use.
        self._reader: LogReader | None = None
        self.removals: DelayedRemovals | None = None
        self.closed = False
        self.cleaned_offset = cleaned_offset  # everything below was compacted
        self.cleaning: RunningClean | None = None
        # The metadata log: it waits for its disk, because no other directory could take over.
        self.outlasts_stalls = False

    # -- identity and state

    @property
    def topic_id(self) -> bytes:
        """The topic id of partition.metadata; ZERO_UUID if the file is missing."""
        if self._topic_id is None:
            self._topic_id = read_partition_metadata(self.files, self.directory) or ZERO_UUID
        return self._topic_id

    def set_topic_id(self, topic_id: bytes) -> None:
        if self.topic_id != topic_id:
            assert self._topic_id == ZERO_UUID, "the topic id of a log never changes"
            with offline_on_error(self.log_dir):
                write_partition_metadata(self.files, self.directory, topic_id)
            self._topic_id = topic_id
            self.durability.sync_names()

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is on disk."""
        return self.durability.recovery_point

    @property
    def producer_state(self) -> ProducerState:
        state = self.producers.state
        if state is None:
            state = self.producers.load(self.log_start_offset, self.log_end_offset)
            self.durability.txn_indexes_changed(self.log_start_offset)
        return state

    def last_stable_offset(self, high_watermark: int) -> int:
        """The start of the oldest open transaction, not below the log start offset, or the high watermark."""
        stable = (self.producers.state or self.producer_state).last_stable_offset(high_watermark)
        return stable if stable >= self.log_start_offset else min(self.log_start_offset, high_watermark)

    def committed(self, high_watermark: int) -> None:
        """Record that the high watermark has moved."""
        state = self.producers.state
        if state is not None:
            state.committed(high_watermark)

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that were idle for producer.id.expiration.ms; return their number."""
        state = self.producers.state
        return 0 if state is None else state.expire(now_ms, self.config.producer_id_expiration_ms)

    def require_usable(self) -> None:
        """Raise StorageOffline if the log directory is offline or the log closed."""
        if self.log_dir.error is not None and not (self.outlasts_stalls and self.log_dir.is_stalled):
            raise self.log_dir.offline_error()
        if self.closed:
            raise StorageOffline(self.directory, "the log is closed")

    # -- append

    def append_as_leader(self, checked: CheckedRecords, leader_epoch: int, now_ms: int) -> AppendResult:
        """Assign offsets to a batch and write it. A duplicate gets the offsets of the original batch.

        Every produced batch takes this path, so it does inline for one batch what append.py does for many.
        """
        if self.log_dir.error is not None or self.closed:
            self.require_usable()
        buffer, header, append_time_ms = checked.buffer, checked.header, checked.log_append_time_ms
        state = self.producers.state or self.producer_state
        if header.producer_id >= 0:
            duplicate = state.check(header)
            if duplicate is not None:
                append_time_ms = duplicate.timestamp if append_time_ms >= 0 else -1
                return AppendResult(duplicate.first_offset, duplicate.last_offset, append_time_ms, True)
        first_offset = self.log_end_offset
        last_offset = first_offset + header.last_offset_delta
        stamp(buffer, 0, first_offset, leader_epoch)
        config = self.config
        try:
            active = self.segments.active
            if active.should_roll(len(buffer), header.max_timestamp, last_offset, config, now_ms):
                active = self.roll_at(first_offset, now_ms)
            active.append_batch(buffer, last_offset, header.max_timestamp, config.index_interval_bytes)
        except StorageError as error:
            stamp(buffer, 0, 0, leader_epoch)  # restore the buffer: the caller may retry
            if isinstance(error, DiskFull | CorruptLog):
                raise
            raise self.log_dir.fail(error) from error
        self.log_end_offset = state.map_end_offset = last_offset + 1
        self.durability.changed = True
        if header.producer_id >= 0:
            state.update(header, first_offset)
        if leader_epoch != self.leader_epochs.latest_epoch and leader_epoch >= 0:
            self.leader_epochs.assign(leader_epoch, first_offset)
        return AppendResult(first_offset, last_offset, append_time_ms, False)

    def append_group(
        self, group: Sequence[CheckedRecords], leader_epoch: int, now_ms: int
    ) -> list[AppendResult]:
        """Append the batches of several requests in order, with a single write where possible.

        Stops before the first batch that cannot be appended; if that is the first one, its error is raised.
        Batches with a result are in the log, the others are unchanged.
        """
        if len(group) == 1:
            return [self.append_as_leader(group[0], leader_epoch, now_ms)]
        return append_group(self, group, leader_epoch, now_ms)

    # Batches that this process has built (coordinator records, control batches), and batches of the leader.
    append_internal = append_leader_batches
    append_as_follower = append_follower_batches

    def roll(self, now_ms: int) -> None:
        """Close the active segment and create the next one, unless the active one is empty."""
        self.require_usable()
        with offline_on_error(self.log_dir):
            self.roll_at(self.log_end_offset, now_ms)

    def roll_at(self, base_offset: int, now_ms: int) -> Segment:
        """Make a segment that begins at `base_offset` active. After DiskFull the roll can be retried."""
        active = self.segments.active
        if active.base_offset == base_offset:
            assert not active.size
            return active
        active.write_indexes()
        state = self.producer_state
        state.map_end_offset = base_offset
        self.producers.write_snapshot(state)
        segment = self.segments.roll(base_offset, now_ms)
        self.durability.names_changed()
        return segment

    # -- read

    def read(
        self, offset: int, max_bytes: int, upper_offset: int | None = None, min_one_batch: bool = True
    ) -> FileRegion:
        """Return whole batches from the one that contains `offset`, all of them below `upper_offset`.

        The region has at most `max_bytes`, but with `min_one_batch` at least one batch. It begins before
        `offset` if that is inside a batch.
        """
        end = self.log_end_offset
        if not self.log_start_offset <= offset <= end:
            raise OffsetOutOfRange(offset, self.log_start_offset, end)
        if self.log_dir.error is not None or self.closed:
            self.require_usable()
        upper = end if upper_offset is None or upper_offset > end else upper_offset
        if offset >= upper:
            return EMPTY_REGION
        reader = self._reader
        if reader is None:
            reader = self._reader = LogReader(self.segments)
        try:
            return reader.read(offset, max_bytes, upper, end, min_one_batch)
        except (DiskFull, CorruptLog):
            raise
        except StorageError as error:
            raise self.log_dir.fail(error) from error

    def offset_for_timestamp(self, timestamp: int, upper_offset: int | None = None) -> TimestampOffset | None:
        """Return the first record at or after `timestamp`, None if it is not below `upper_offset`."""
        self.require_usable()
        with offline_on_error(self.log_dir):
            found = find_timestamp(self.segments, timestamp, self.log_start_offset)
        return self._below(found, upper_offset)

    def max_timestamp_offset(self, upper_offset: int | None = None) -> TimestampOffset | None:
        """Return the first record with the largest timestamp, None if it is not below `upper_offset`."""
        self.require_usable()
        with offline_on_error(self.log_dir):
            found = find_max_timestamp(self.segments, self.log_start_offset)
        return self._below(found, upper_offset)

    def _below(self, found: TimestampOffset | None, upper_offset: int | None) -> TimestampOffset | None:
        upper = self.log_end_offset if upper_offset is None else upper_offset
        return found if found is not None and found.offset < upper else None

    def aborted_transactions(self, start_offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Return the transactions that a read_committed consumer of [start, upper) has to filter out."""
        self.require_usable()
        with offline_on_error(self.log_dir):
            return find_aborted(self.segments, start_offset, upper_offset)

    # -- truncation and log start

    def truncate_to(self, offset: int) -> bool:
        """Remove every batch that reaches `offset` or beyond, and rebuild the producer state (half a second
        per GiB of small batches after the snapshot); return False if there is none."""
        self.require_usable()
        if offset >= self.log_end_offset:
            return False
        if offset < self.segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        with offline_on_error(self.log_dir):
            self.abort_cleaning()
            self.durability.truncating(offset)
            self._after_truncation(self.segments.truncate_to(offset))
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything; the next batch gets `offset`."""
        self.require_usable()
        with offline_on_error(self.log_dir):
            self.abort_cleaning()
            self.durability.truncating(offset)
            self.segments.restart_at(offset, self.segments.active.created_ms)
            self.files.sync_dir(self.directory)
            self.log_start_offset = offset
            self.leader_epochs.clear()
            self.producers.truncated(-1)
            self._after_truncation(offset)

    def _after_truncation(self, end_offset: int) -> None:
        self.log_end_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.cleaned_offset = min(self.cleaned_offset, self.segments.active.base_offset)
        self.leader_epochs.truncate_from_end(end_offset)
        self.producers.truncated(end_offset)
        self._reader = None
        self.durability.truncated(end_offset)
        _ = self.producer_state  # rebuilt now, where the caller chose to truncate, not in the next append

    def advance_log_start_offset(self, offset: int) -> bool:
        """Stop serving everything below `offset`; the next retention pass deletes its segments."""
        self.require_usable()
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)
        return True

    # -- retention and cleaning

    delete_old_segments = delete_old_segments

    def replace_segments(self, group: CleanedGroup, now_ms: int) -> bool:
        """Replace segments by their cleaned version; return False if they have changed in the meantime."""
        self.require_usable()
        if self.cleaning is None or self.cleaning.aborted or not self.segments.contains(group.old):
            return False
        try:
            replaced = self.segments.replace(group, now_ms, mark=f".{self.durability.names_changed()}")
        except StorageError as error:
            raise self.log_dir.fail(error) from error  # the next start completes or undoes the replacement
        self.remove_later(replaced, now_ms)
        self._reader = None
        return True

    def abort_cleaning(self) -> None:
        """Stop a running cleaning, because the segments it reads are about to change."""
        if self.cleaning is not None:
            self.cleaning.abort()

    def remove_later(self, paths: list[str], now_ms: int) -> None:
        """Remove files after file.delete.delay.ms."""
        if self.removals is None:
            self.removals = DelayedRemovals()
        self.removals.add(now_ms + self.config.file_delete_delay_ms, paths)

    def take_due_removals(self, now_ms: int) -> list[str]:
        """Return the files whose delete delay has passed; the caller removes them."""
        if not self.removals or self.log_dir.error is not None or self.closed:
            return []
        return self.removals.take_due(now_ms)

    def remove_due(self, now_ms: int) -> int:
        """Remove the files whose delete delay has passed; return their number."""
        due = self.take_due_removals(now_ms)
        with offline_on_error(self.log_dir):
            for path in due:
                self.files.remove(path)
        return len(due)

    # -- flush

    @property
    def unflushed_messages(self) -> int:
        return self.log_end_offset - self.durability.recovery_point

    def wants_flush(self, now_ms: int) -> bool:
        """Whether flush.messages, flush.ms or a closed segment requires a flush now."""
        return self.durability.wants_flush(self.log_end_offset, self.config, now_ms)

    def begin_flush(self) -> FlushJob:
        """Collect what has to be synced. At most one job at a time per log."""
        self.require_usable()
        with offline_on_error(self.log_dir):
            return self.durability.begin_flush(self.log_end_offset)

    def finish_flush(self, job: FlushJob, now_ms: int | None = None) -> None:
        """Move the recovery point. A failed sync takes the directory offline: what it lost is unknown."""
        if job.error is None:
            self.durability.finish_flush(job, now_ms)
        elif not self.closed:
            self.durability.flush_failed(job)
            raise self.log_dir.fail(job.error) from job.error

    def flush(self, now_ms: int) -> None:
        """Sync everything, blocking."""
        job = self.begin_flush()
        job.run()
        self.finish_flush(job, now_ms)

    # -- close

    @property
    def is_changed(self) -> bool:
        """Whether a clean shutdown has to make anything of this log durable."""
        return self.durability.changed and self.log_end_offset > 0

    def write_closing_state(self) -> int | None:
        """Write indexes, producer snapshot and epochs without a sync; return the log end offset, None if
        unchanged."""
        if self.closed or self.log_dir.error is not None:
            return None
        changed = self.is_changed
        with offline_on_error(self.log_dir):
            for path in self.removals.paths() if self.removals else ():
                self.files.remove(path)
            if changed:
                if self.segments.active.size:
                    self.segments.active.write_indexes()
                if self.producers.snapshots.latest != self.log_end_offset:
                    self.producers.write_snapshot(self.producer_state)
            if self.leader_epochs.dirty:
                self.leader_epochs.save(self.files, self.directory)
        return self.log_end_offset if changed or self.unflushed_messages > 0 else None

    def close(self, now_ms: int) -> None:
        """Close cleanly: the next open scans nothing."""
        if self.closed:
            return
        if self.write_closing_state() is not None:
            self.durability.sync_names()
            job = self.begin_flush()
            with offline_on_error(self.log_dir):
                job.also(self.segments.active.index_files())
                job.also(self.producers.snapshots.latest_file())
            job.run()
            self.finish_flush(job, now_ms)
        self.abandon()

    def abandon(self) -> None:
        """Release the files without writing anything."""
        self.abort_cleaning()
        self.closed = True
        self.segments.close()

    def rename_directory(self, directory: str) -> None:
        """Rename the partition's directory for its deletion, and close the log."""
        self.abort_cleaning()
        with offline_on_error(self.log_dir):
            self.files.rename(self.directory, directory)
            self.files.sync_dir(parent(directory))
        self.directory = directory
        self.segments.moved(directory)
        self.abandon()
