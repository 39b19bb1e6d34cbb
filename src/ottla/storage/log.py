"""The log of one partition: what the broker appends to and reads from.

All methods belong to one thread. Only `FlushJob.run` may run elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.records.batch import CorruptBatch, RecordsError, crc_ok, iter_headers, stamp
from ottla.storage import log_read
from ottla.storage.errors import (
    CorruptLog,
    DiskFull,
    OffsetOutOfRange,
    StorageError,
    UnexpectedAppendOffset,
)
from ottla.storage.files import Bytes, Files
from ottla.storage.log_base import LogBase
from ottla.storage.log_config import LogConfig
from ottla.storage.log_dir import LogDir, guarded
from ottla.storage.log_name import parent
from ottla.storage.log_producers import Headers, check_producers, follow_producers
from ottla.storage.recovery import load_log
from ottla.storage.region import EMPTY_REGION, FileRegion
from ottla.storage.report import logger
from ottla.storage.retention import deletable_count
from ottla.storage.segment import RELATIVE_OFFSET_MAX, Appended, Segment
from ottla.storage.txn_index import AbortedTransaction

if TYPE_CHECKING:
    from ottla.records.validate import CheckedRecords
    from ottla.storage.cleaning.job import CleanedGroup


class AppendResult(NamedTuple):
    first_offset: int
    last_offset: int
    log_append_time_ms: int
    duplicate: bool


class PartitionLog(LogBase):
    __slots__ = ()

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        config: LogConfig,
        *,
        now_ms: int,
        clean: bool = False,
        recovery_point: int | None = None,
        log_start_offset: int = 0,
        cleaned_offset: int = 0,
        log_dir: LogDir | None = None,
    ) -> PartitionLog:
        """Open or create the log in `directory`. `clean`: the last process closed it, so nothing is scanned.

        Raises CorruptLog if what lies below the recovery point is damaged.
        """
        files.mkdir(directory)
        loaded = load_log(
            files,
            directory,
            config,
            now_ms,
            clean=clean,
            recovery_point=recovery_point,
            start=log_start_offset,
            cleaned_offset=cleaned_offset,
        )
        log_dir = log_dir or LogDir(parent(directory))
        log = cls(files, directory, config, loaded=loaded, log_dir=log_dir, now_ms=now_ms)
        log.cleaned_offset = cleaned_offset
        return log

    # -- appending -------------------------------------------------------------------------------------------

    def append_as_leader(self, checked: CheckedRecords, leader_epoch: int, now_ms: int) -> AppendResult:
        """Give the batch its offsets and write it; a producer's repetition is answered, not written.

        All that clients produce comes this way, so it spells out for one batch what `_write` does for many.
        """
        if self.log_dir.error is not None or self._closed:
            self._require_usable()
        buffer, header, append_time_ms = checked.buffer, checked.header, checked.log_append_time_ms
        state = self._producer_state or self.producer_state
        if header[9] >= 0:
            duplicate = state.check(header)
            if duplicate is not None:
                append_time_ms = duplicate.timestamp if append_time_ms >= 0 else -1
                return AppendResult(duplicate.first_offset, duplicate.last_offset, append_time_ms, True)
        first_offset = self.log_end_offset
        last_offset = first_offset + header[6]
        stamp(buffer, 0, first_offset, leader_epoch)
        config = self.config
        try:
            active = self._segments.active
            if active.should_roll(len(buffer), header[8], last_offset, config, now_ms):
                active = self._roll(first_offset, now_ms)
            active.append_batch(buffer, last_offset, header[8], config.index_interval_bytes)
        except StorageError as error:
            stamp(buffer, 0, 0, leader_epoch)  # as it was: the same records may be tried again
            if isinstance(error, DiskFull | CorruptLog):
                raise
            raise self.log_dir.fail(error) from error
        self.log_end_offset = state.map_end_offset = last_offset + 1
        self._changed = True
        if header[9] >= 0:
            state.update(header, first_offset)
        if leader_epoch != self.leader_epochs.latest_epoch and leader_epoch >= 0:
            self.leader_epochs.assign(leader_epoch, first_offset)
        return AppendResult(first_offset, last_offset, append_time_ms, False)

    def append_group(
        self, group: Sequence[CheckedRecords], leader_epoch: int, now_ms: int
    ) -> list[AppendResult]:
        """Append batches one after the other, with a single write where that is possible.

        Ends before the first batch that cannot be appended; if that is the very first its error is raised.
        What came back is in the log, the rest is untouched.
        """
        if len(group) == 1:
            return [self.append_as_leader(group[0], leader_epoch, now_ms)]
        last_offset = self.log_end_offset + sum(checked.header[6] + 1 for checked in group) - 1
        nbytes = sum(len(checked.buffer) for checked in group)
        latest = max(checked.header[8] for checked in group)
        active = self._segments.active
        if not active.should_roll(nbytes, latest, last_offset, self.config, now_ms):
            return self._append_together(group, leader_epoch)
        results: list[AppendResult] = []
        for checked in group:
            try:
                results.append(self.append_as_leader(checked, leader_epoch, now_ms))
            except (RecordsError, StorageError):
                if not results:
                    raise
                break
        return results

    def _append_together(self, group: Sequence[CheckedRecords], leader_epoch: int) -> list[AppendResult]:
        if self.log_dir.error is not None or self._closed:
            self._require_usable()
        state = self._producer_state or self.producer_state
        results: list[AppendResult] = []
        buffers: list[bytearray | memoryview] = []
        batches: list[Appended] = []
        offset = first_offset = self.log_end_offset
        for checked in group:
            buffer, header = checked.buffer, checked.header
            if header[9] >= 0:
                try:
                    duplicate = state.check(header)
                except RecordsError:
                    if not results:
                        raise
                    break
                if duplicate is not None:
                    append_time_ms = duplicate.timestamp if checked.log_append_time_ms >= 0 else -1
                    found = AppendResult(duplicate.first_offset, duplicate.last_offset, append_time_ms, True)
                    results.append(found)
                    continue
                state.update(header, offset)  # so that the next of its batches is checked against this one
            last_offset = offset + header[6]
            stamp(buffer, 0, offset, leader_epoch)
            buffers.append(buffer)
            batches.append(Appended(len(buffer), last_offset, header[8]))
            results.append(AppendResult(offset, last_offset, checked.log_append_time_ms, False))
            offset = last_offset + 1
        if not buffers:
            return results
        try:
            self._segments.active.append(buffers, batches, self.config.index_interval_bytes)
        except StorageError as error:
            # As it was: the records may be tried again, and the producers are read from the log again.
            for buffer in buffers:
                stamp(buffer, 0, 0, leader_epoch)
            self._producer_state = None
            if isinstance(error, DiskFull | CorruptLog):
                raise
            raise self.log_dir.fail(error) from error
        self.log_end_offset = state.map_end_offset = offset
        self._changed = True
        if leader_epoch != self.leader_epochs.latest_epoch and leader_epoch >= 0:
            self.leader_epochs.assign(leader_epoch, first_offset)
        return results

    def append_own(self, buffer: bytearray | memoryview, leader_epoch: int, now_ms: int) -> AppendResult:
        """Append batches that this process has built itself: coordinators' records, control batches."""
        headers = list(iter_headers(buffer))
        check_producers(self.producer_state, buffer, headers)
        first_offset = self.log_end_offset
        self._append_stamped(buffer, headers, leader_epoch, now_ms)
        return AppendResult(first_offset, self.log_end_offset - 1, -1, False)

    def append_as_follower(self, buffer: Bytes, now_ms: int) -> AppendResult:
        """Write batches as the leader has them; an incomplete batch at the end of the buffer is left out."""
        headers = list(iter_headers(buffer))
        expected = self.log_end_offset
        if not headers:
            return AppendResult(expected, expected - 1, -1, False)
        for position, header in headers:
            if header.base_offset < expected:
                raise UnexpectedAppendOffset(header.base_offset, expected)
            if not crc_ok(buffer, position, header):
                raise CorruptBatch(f"checksum of the batch at offset {header.base_offset} does not hold")
            expected = header.next_offset
        end = headers[-1][0] + headers[-1][1].size_bytes
        offsets = [header.base_offset for _, header in headers]
        begins = self.log_end_offset
        self._write(memoryview(buffer)[:end], headers, offsets, now_ms)
        for _, header in headers:
            if header.leader_epoch >= 0 and header.leader_epoch != self.leader_epochs.latest_epoch:
                # Where compaction left a gap the epoch may have begun in it: nobody may take what another
                # wrote there under an older epoch for ours.
                self.leader_epochs.assign(header.leader_epoch, begins)
            begins = header.next_offset
        return AppendResult(offsets[0], self.log_end_offset - 1, -1, False)

    def _append_stamped(
        self, buffer: bytearray | memoryview, headers: Headers, leader_epoch: int, now_ms: int
    ) -> None:
        offset = first_offset = self.log_end_offset
        offsets = []
        for position, header in headers:
            stamp(buffer, position, offset, leader_epoch)
            offsets.append(offset)
            offset += header[6] + 1
        self._write(buffer, headers, offsets, now_ms)
        if leader_epoch != self.leader_epochs.latest_epoch and leader_epoch >= 0:
            self.leader_epochs.assign(leader_epoch, first_offset)

    def _write(self, buffer: Bytes, headers: Headers, offsets: list[int], now_ms: int) -> None:
        """Write batches whose offsets are in place, roll first if it is time, then follow the producers."""
        if self.log_dir.error is not None or self._closed:
            self._require_usable()
        batches = []
        max_timestamp = -1
        has_producer = False
        for (_, header), offset in zip(headers, offsets, strict=True):
            batches.append(Appended(header[1] + 12, offset + header[6], header[8]))
            max_timestamp = max(max_timestamp, header[8])
            if header[9] >= 0:
                has_producer = True
        last_offset = batches[-1][1]
        try:
            # Its first use reads snapshot and log, which must not hold these batches yet.
            state = self._producer_state or self.producer_state
            active = self._segments.active
            if active.should_roll(len(buffer), max_timestamp, last_offset, self.config, now_ms):
                # It begins where the log ends, also where a leader's compaction left a gap: a segment that
                # was lost between two others is known by that.
                fits = last_offset - self.log_end_offset <= RELATIVE_OFFSET_MAX
                active = self._roll(self.log_end_offset if fits else offsets[0], now_ms)
            active.append((buffer,), batches, self.config.index_interval_bytes)
            self.log_end_offset = last_offset + 1
            self._changed = True
            if has_producer:
                follow_producers(state, active, buffer, headers, offsets)
                if self._txn_unsynced_from is None and active.unsynced_txn_index() is not None:
                    self._txn_unsynced_from = active.base_offset
            state.map_end_offset = last_offset + 1
        except (DiskFull, CorruptLog):
            raise
        except StorageError as error:
            raise self.log_dir.fail(error) from error

    def roll(self, now_ms: int) -> None:
        """Close the active segment and begin another; nothing happens if it is empty."""
        self._require_usable()
        with guarded(self.log_dir):
            self._roll(self.log_end_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        """On a full disk nothing has changed, and the roll can be tried again."""
        active = self._segments.active
        if active.base_offset == base_offset:
            assert not active.size
            return active
        active.write_indexes()
        state = self.producer_state
        state.map_end_offset = base_offset
        self._snapshots.write(state, self._segments)
        segment = Segment.create(self._files, self.directory, base_offset, now_ms)
        self._segments.add(segment)
        self._changed = True
        self._names_version += 1
        return segment

    # -- reading ---------------------------------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, upper_offset: int | None = None, min_one_batch: bool = True
    ) -> FileRegion:
        """Whole batches from the one that holds `offset`, up to `max_bytes`, none at or above `upper_offset`.

        The first batch may be larger than `max_bytes`, unless `min_one_batch` is off. The region may begin
        before `offset`, where that lies inside a batch.
        """
        end = self.log_end_offset
        if not self.log_start_offset <= offset <= end:
            raise OffsetOutOfRange(offset, self.log_start_offset, end)
        if self.log_dir.error is not None or self._closed:
            self._require_usable()
        upper = end if upper_offset is None or upper_offset > end else upper_offset
        if offset >= upper:
            return EMPTY_REGION
        memo = self._memo
        if memo is None:
            memo = self._memo = log_read.PositionMemo()
        try:
            return log_read.read_region(self._segments, memo, offset, max_bytes, upper, end, min_one_batch)
        except (DiskFull, CorruptLog):
            raise
        except StorageError as error:
            raise self.log_dir.fail(error) from error

    def offset_for_timestamp(
        self, timestamp: int, upper_offset: int | None = None
    ) -> log_read.TimestampOffset | None:
        """The first record at or after `timestamp`, None if there is none below `upper_offset`."""
        self._require_usable()
        with guarded(self.log_dir):
            found = log_read.find_timestamp(self._segments, timestamp, self.log_start_offset)
        upper = self.log_end_offset if upper_offset is None else upper_offset
        return found if found is not None and found.offset < upper else None

    def max_timestamp_offset(self, upper_offset: int | None = None) -> log_read.TimestampOffset | None:
        """The first record with the largest timestamp, None if there is none below `upper_offset`."""
        self._require_usable()
        with guarded(self.log_dir):
            found = log_read.find_max_timestamp(self._segments, self.log_start_offset)
        upper = self.log_end_offset if upper_offset is None else upper_offset
        return found if found is not None and found.offset < upper else None

    def aborted_transactions(self, start_offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """What a read_committed consumer of [start, upper) has to leave out."""
        self._require_usable()
        with guarded(self.log_dir):
            return log_read.find_aborted(self._segments, start_offset, upper_offset)

    # -- shortening ------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Drop every batch that reaches `offset` or beyond; False if there is none."""
        self._require_usable()
        if offset >= self.log_end_offset:
            return False
        if offset < self._segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        with guarded(self.log_dir):
            self._lower_recovery_point(offset)
            index = self._segments.floor(offset)
            segment = self._segments[index]
            found = segment.find(offset)
            for later in self._segments.drop_after(index):
                later.remove()
            if found is not None:
                segment.truncate_at(found[0], offset)
            # Without this a crash could bring the old batches back behind newer ones.
            segment.log.sync()
            self._files.sync_dir(self.directory)
            self._after_truncation(max(segment.base_offset, segment.next_offset()))
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the next batch gets `offset`."""
        self._require_usable()
        with guarded(self.log_dir):
            self._lower_recovery_point(offset)
            for segment in self._segments:
                segment.remove()
            fresh = Segment.create(self._files, self.directory, offset, self._segments.active.created_ms)
            self._segments.replace_all(fresh)
            self._files.sync_dir(self.directory)
            self.log_start_offset = offset
            self.leader_epochs.clear()
            self._snapshots.remove_above(-1)
            self._after_truncation(offset)

    def _lower_recovery_point(self, offset: int) -> None:
        """The checkpoint must not claim as durable what will be written anew behind the cut."""
        self._generation += 1
        self.abort_cleaning()
        if offset < self.recovery_point:
            self.recovery_point = offset
            if self.log_dir.on_recovery_point_lowered is not None:
                self.log_dir.on_recovery_point_lowered(self.log_dir)

    def _after_truncation(self, end_offset: int) -> None:
        self.log_end_offset = end_offset
        self.recovery_point = min(self.recovery_point, end_offset)
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.cleaned_offset = min(self.cleaned_offset, self._segments.active.base_offset)
        self.leader_epochs.truncate_from_end(end_offset)
        self._snapshots.remove_above(end_offset)
        self._producer_state = None
        if self._memo is not None:
            self._memo.clear()
        self._changed = True
        self._names_version += 1

    def advance_log_start_offset(self, offset: int) -> bool:
        """Everything below `offset` is no longer served; its segments go with the next retention pass."""
        self._require_usable()
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)
        return True

    # -- retention -------------------------------------------------------------------------------------------

    def delete_old_segments(self, now_ms: int, upper_offset: int) -> int:
        """Drop what retention allows, nothing at or above `upper_offset`; returns the number of segments.

        The files are renamed now and removed after file.delete.delay.ms.
        """
        self._require_usable()
        with guarded(self.log_dir):
            count = deletable_count(
                self._segments,
                self.config,
                now_ms,
                upper_offset=upper_offset,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
            )
            if not count:
                return 0
            if count == len(self._segments):
                self._roll(self.log_end_offset, now_ms)
            self.abort_cleaning()
            start = max(self.log_start_offset, self._segments[count].base_offset)
            self.log_start_offset = start
            self.leader_epochs.truncate_from_start(start)
            due_ms = now_ms + self.config.file_delete_delay_ms
            for segment in self._segments.drop_first(count):
                for path in segment.rename_deleted():
                    self.due_removals.append((due_ms, path))
            self._snapshots.remove_below(self._segments.first.base_offset)
            self._changed = True
        logger.info("%s: %d segments deleted, log starts at %d", self.directory, count, start)
        return count

    def replace_segments(self, group: CleanedGroup, now_ms: int) -> bool:
        """Swap in what the cleaner made of some segments; False if these have changed meanwhile."""
        self._require_usable()
        if self.cleaning is None or self.cleaning.aborted or not self._segments.holds(group.old):
            return False
        from ottla.storage.cleaning.swap import swap_in

        try:
            self._names_version += 1
            segment, replaced = swap_in(
                self._files, self.directory, group.base_offset, group.old, now_ms, f".{self._names_version}"
            )
        except StorageError as error:
            raise self.log_dir.fail(error) from error  # the next start finishes it, or undoes it
        self._segments.replace(group.old, segment)
        due_ms = now_ms + self.config.file_delete_delay_ms
        self.due_removals += [(due_ms, path) for path in replaced]
        if self._memo is not None:
            self._memo.clear()
        self._changed = True
        return True

    def take_due_removals(self, now_ms: int) -> list[str]:
        """The files whose delay has passed: the caller removes them."""
        if not self.due_removals or self.log_dir.error is not None or self._closed:
            return []
        due = [path for due_ms, path in self.due_removals if due_ms <= now_ms]
        self.due_removals = [entry for entry in self.due_removals if entry[0] > now_ms]
        return due

    def remove_due(self, now_ms: int) -> int:
        """Remove the files whose delay has passed."""
        due = self.take_due_removals(now_ms)
        with guarded(self.log_dir):
            for path in due:
                self._files.remove(path)
        return len(due)

    def expire_producers(self, now_ms: int) -> int:
        if self._producer_state is None:
            return 0
        return self._producer_state.expire(now_ms, self.config.producer_id_expiration_ms)
