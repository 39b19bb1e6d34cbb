"""A segment: a `.log` file of batches and its three indexes, named by the base offset.

Bytes that this process has written or recovered are known to be valid. The checksums of older bytes are
verified when they are first read, so that bit rot never reaches a client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.records.batch import LENGTH_PREFIX_BYTES, BatchHeader
from ottla.storage.errors import CorruptLog, StorageError
from ottla.storage.files import Bytes, File, Files
from ottla.storage.index.index_file import CorruptIndex
from ottla.storage.index.offset_index import OFFSET_ENTRY_BYTES, OffsetIndex
from ottla.storage.index.time_index import TIME_ENTRY_BYTES, TimeIndex
from ottla.storage.index.txn_index import TxnIndex
from ottla.storage.log_config import LogConfig
from ottla.storage.logger import logger
from ottla.storage.segments.batch_scan import iter_batches, iter_checked
from ottla.storage.segments.checked_ranges import CheckedRanges

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
DELETED_SUFFIX = ".deleted"

RELATIVE_OFFSET_MAX = (1 << 31) - 1
_UNKNOWN = -2


class Appended(NamedTuple):
    """What the indexes need to know about an appended batch."""

    size_bytes: int
    last_offset: int
    max_timestamp: int


class Segment:
    __slots__ = (
        "_bytes_since_index",
        "_checked",
        "_files",
        "_first_timestamp",
        "_indexes_trusted",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_offset_index",
        "_time_index",
        "_txn_index",
        "_unchecked_bytes",
        "base_offset",
        "created_ms",
        "directory",
        "log",
        "size",
    )

    def __init__(
        self, files: Files, directory: str, base_offset: int, log: File, *, size: int, now_ms: int
    ) -> None:
        self._files = files
        self.directory = directory
        self.base_offset = base_offset
        self.log = log
        self.size = size
        self.created_ms = now_ms
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._txn_index: TxnIndex | None = None
        self._bytes_since_index = 0
        # Unknown until read from the file, which most segments never need.
        self._first_timestamp = _UNKNOWN if size else -1
        self._max_timestamp = _UNKNOWN if size else -1
        self._max_timestamp_offset = base_offset
        # The indexes of an existing segment are checked before their first use.
        self._indexes_trusted = not size
        self._unchecked_bytes = size
        self._checked: CheckedRanges | None = None

    @classmethod
    def create(cls, files: Files, directory: str, base_offset: int, now_ms: int) -> Segment:
        prefix = f"{directory}/{base_offset:020d}"
        log = files.create(prefix + LOG_SUFFIX)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            files.remove(prefix + suffix)
        return cls(files, directory, base_offset, log, size=0, now_ms=now_ms)

    @classmethod
    def load(cls, files: Files, directory: str, base_offset: int, now_ms: int) -> Segment:
        log = files.open(f"{directory}/{base_offset:020d}{LOG_SUFFIX}")
        return cls(files, directory, base_offset, log, size=log.size, now_ms=now_ms)

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{self.base_offset:020d}{suffix}"

    # -- indexes, loaded on first use ------------------------------------------------------------------------

    @property
    def offset_index(self) -> OffsetIndex:
        index = self._offset_index
        return self._load_indexes()[0] if index is None else index

    @property
    def time_index(self) -> TimeIndex:
        index = self._time_index
        return self._load_indexes()[1] if index is None else index

    @property
    def txn_index(self) -> TxnIndex:
        if self._txn_index is None:
            self._txn_index = TxnIndex(self._files, self.path(TXN_INDEX_SUFFIX), self.base_offset)
        return self._txn_index

    def load_indexes(self) -> None:
        if self._offset_index is None or self._time_index is None:
            self._load_indexes()

    def _load_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        offsets = OffsetIndex(self._files, self.path(INDEX_SUFFIX), self.base_offset)
        times = TimeIndex(self._files, self.path(TIME_INDEX_SUFFIX), self.base_offset)
        self._offset_index, self._time_index = offsets, times
        if self._indexes_trusted:
            # The segment was empty when it was opened: the content of the index files is outdated.
            offsets.forget_stored()
            times.forget_stored()
        else:
            self._indexes_trusted = True
            try:
                for index in (offsets, times):
                    if not index.file.size and not self._files.exists(index.file.path):
                        raise CorruptIndex(f"{index.file.path} is missing")
                offsets.check(self.size)
                times.check()
                if not len(times):
                    raise CorruptIndex(f"{times.file.path} is empty, but the segment is not")
            except CorruptIndex as error:
                logger.warning("rebuilding the indexes of %s: %s", self.log.path, error)
                return self.rebuild_indexes()
        return offsets, times

    def rebuild_indexes(self, interval_bytes: int = 4096) -> tuple[OffsetIndex, TimeIndex]:
        """Rebuild the offset and time index from the batch headers."""
        offsets, times = self._empty_indexes()
        offsets.truncate(0)
        times.truncate(0)
        for position, header in iter_batches(self.log, 0, self.size):
            self.index_batch(position, header, interval_bytes)
        if self._max_timestamp >= 0:
            times.maybe_append(self._max_timestamp, self._max_timestamp_offset)
        self._write_indexes_if_room()
        return offsets, times

    def reset_indexes(self, in_memory: bool = False) -> None:
        """Empty all indexes, for `index_batch` to fill; `in_memory` leaves the files unchanged."""
        offsets, times = self._empty_indexes()
        if in_memory:
            offsets.forget_stored()
            times.forget_stored()
            return
        offsets.truncate(0)
        times.truncate(0)
        self.txn_index.clear()

    def _empty_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        offsets = OffsetIndex(self._files, self.path(INDEX_SUFFIX), self.base_offset)
        times = TimeIndex(self._files, self.path(TIME_INDEX_SUFFIX), self.base_offset)
        self._offset_index, self._time_index = offsets, times
        self._indexes_trusted = True
        self._max_timestamp = self._first_timestamp = -1
        self._max_timestamp_offset = self.base_offset
        self._bytes_since_index = 0
        return offsets, times

    def index_batch(self, position: int, header: BatchHeader, interval_bytes: int) -> None:
        self._index(
            position, Appended(header.size_bytes, header.last_offset, header.max_timestamp), interval_bytes
        )

    def _index(self, position: int, batch: Appended, interval_bytes: int) -> None:
        size_bytes, last_offset, max_timestamp = batch
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
            if position == 0:
                self._first_timestamp = max_timestamp
        if self._bytes_since_index > interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self._max_timestamp, self._max_timestamp_offset)
            self._bytes_since_index = 0
        self._bytes_since_index += size_bytes

    # -- writing ---------------------------------------------------------------------------------------------

    def should_roll(
        self, incoming_bytes: int, max_timestamp: int, last_offset: int, config: LogConfig, now_ms: int
    ) -> bool:
        if last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return True
        size = self.size
        if not size:
            return False
        if size + incoming_bytes > config.segment_bytes:
            return True
        first = self._first_timestamp
        if first == _UNKNOWN:
            first = self._load_first_timestamp()
        waited_ms = max_timestamp - first if first >= 0 and max_timestamp >= 0 else now_ms - self.created_ms
        longest_ms = config.segment_ms
        if config.segment_jitter_ms:
            longest_ms -= self._jitter_ms(config)
        if waited_ms > longest_ms:
            return True
        # Only a batch that will be indexed needs space in the indexes.
        return self._bytes_since_index > config.index_interval_bytes and self._indexes_are_full(config)

    def _indexes_are_full(self, config: LogConfig) -> bool:
        limit = config.segment_index_bytes
        return (
            len(self.offset_index) >= max(1, limit // OFFSET_ENTRY_BYTES)
            or len(self.time_index) >= max(2, limit // TIME_ENTRY_BYTES) - 1
        )

    def _jitter_ms(self, config: LogConfig) -> int:
        """Derive the jitter from the segment's name, so that partitions created together do not roll at
        once."""
        from zlib import crc32

        name = f"{self.directory}/{self.base_offset}".encode()
        return crc32(name) % min(config.segment_jitter_ms, config.segment_ms)

    def _load_first_timestamp(self) -> int:
        _, header = next(iter_batches(self.log, 0, self.size))
        self._first_timestamp = header.max_timestamp
        return self._first_timestamp

    def append(self, pieces: Sequence[Bytes], batches: Sequence[Appended], interval_bytes: int) -> None:
        """Append whole batches atomically, given in one or more pieces, and index them."""
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        position = self.size
        self.log.append_many(pieces)
        self.size = position + sum(map(len, pieces))
        for batch in batches:
            self._index(position, batch, interval_bytes)
            position += batch[0]
        self._write_indexes_if_many()

    def append_batch(self, data: Bytes, last_offset: int, max_timestamp: int, interval_bytes: int) -> None:
        """Append and index a single batch: the produce path."""
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        position = self.size
        self.log.append(data)
        self.size = position + len(data)
        if max_timestamp > self._max_timestamp or self._bytes_since_index > interval_bytes:
            self._index(position, Appended(len(data), last_offset, max_timestamp), interval_bytes)
            self._write_indexes_if_many()
        else:
            self._bytes_since_index += len(data)

    def _write_indexes_if_many(self) -> None:
        if self._offset_index is not None and self._offset_index.wants_write:
            self._write_indexes_if_room()

    def _write_indexes_if_room(self) -> None:
        """The batch is in the log already, so a full disk must not fail its append, nor a read."""
        try:
            self.offset_index.write_out()
            self.time_index.write_out()
        except StorageError as error:
            logger.warning("index entries stay in memory: %s", error)

    def write_indexes(self) -> None:
        """Write all index entries to the files, as required when the segment is rolled or closed."""
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        times = self.time_index
        if self._max_timestamp >= 0:
            times.maybe_append(self._max_timestamp, self._max_timestamp_offset)
        self.offset_index.write_out()
        times.write_out()
        if self._txn_index is not None:
            self._txn_index.write_out()

    # -- times -----------------------------------------------------------------------------------------------

    def _load_max_timestamp(self) -> None:
        timestamp, offset = self.time_index.last_entry()
        if self._max_timestamp == _UNKNOWN:
            self._max_timestamp, self._max_timestamp_offset = timestamp, offset

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of the segment, -1 if there is none."""
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        return self._max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the first batch that has the largest timestamp."""
        return self._max_timestamp_offset if self.max_timestamp >= 0 else self.base_offset

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, -1 if there is none."""
        if self._first_timestamp == _UNKNOWN:
            self._load_first_timestamp()
        return self._first_timestamp

    def retention_timestamp(self) -> int:
        """The time of the segment's newest record, or of the file if its records have no timestamps."""
        newest = self.max_timestamp
        return newest if newest >= 0 else self._files.modified_ms(self.log.path)

    # -- reading ---------------------------------------------------------------------------------------------

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Return the first batch whose last offset is >= `offset`."""
        indexed_offset, start = self.base_offset, 0
        if offset > self.base_offset:
            indexed_offset, start = self.offset_index.floor_entry(offset)
        if start >= self.size:
            return None
        batches = iter_batches(self.log, start, self.size)
        try:
            position, header = next(batches)
        except CorruptLog:
            if not start:
                raise
            position = -1
        if start and (position < 0 or header.base_offset > indexed_offset):
            # A power loss can leave an index that does not fit the log. It would hide records.
            logger.warning("rebuilding the indexes of %s: wrong entry %d", self.log.path, indexed_offset)
            self.rebuild_indexes()
            return self.find(offset)
        while header.base_offset + header.last_offset_delta < offset:
            found = next(batches, None)
            if found is None:
                return None
            position, header = found
        return position, header

    def header_at(self, position: int) -> BatchHeader:
        return next(iter_batches(self.log, position, self.size))[1]

    def end_of_batches(self, start: int, limit: int) -> tuple[int, int]:
        """Return (position, next offset) at the end of the last whole batch in [start, limit); start if there
        is none."""
        indexed = self.offset_index.position_at_or_before(limit)
        end, next_offset = start, -1
        for position, header in iter_batches(self.log, max(start, indexed), self.size):
            batch_end = position + header.batch_length + LENGTH_PREFIX_BYTES
            if batch_end > limit:
                return (position, next_offset) if next_offset >= 0 else (position, header.base_offset)
            end, next_offset = batch_end, header.base_offset + header.last_offset_delta + 1
        return end, next_offset

    def next_offset(self) -> int:
        """Return the offset after the last batch. Scans from the last index entry, and so checks the end of
        the file."""
        if not self.size:
            return self.base_offset
        last = self.offset_index.last()
        start = last[1] if last else 0
        self._bytes_since_index = self.size - start
        end = self.base_offset
        for _, header in iter_batches(self.log, start, self.size):
            end = header.base_offset + header.last_offset_delta + 1
        return end

    def check(self, start: int, end: int) -> int:
        """Verify the checksums of the batches in [start, end); return where the valid ones end.

        Raises CorruptLog if the first batch is not valid.
        """
        unchecked_end = min(end, self._unchecked_bytes)
        if start >= unchecked_end:
            return end
        if self._checked is None:
            self._checked = CheckedRanges()
        at = self._checked.end_of_range_at(start)
        good = at
        if at < unchecked_end:
            for position, header, ok in iter_checked(self.log, at, unchecked_end):
                if not ok:
                    break
                good = position + header.batch_length + LENGTH_PREFIX_BYTES
            self._checked.add(at, good)
        if good >= unchecked_end:
            return end
        if good == start:
            reason = f"the batch at position {start} is damaged and not served"
            logger.error("%s: %s", self.log.path, reason)
            raise CorruptLog(self.log.path, reason)
        return good

    def mark_checked(self) -> None:
        """Record that the checksums of the whole segment were verified."""
        self._unchecked_bytes = 0
        self._checked = None

    def distrust(self) -> None:
        """Verify all bytes again before they are served: some of them could not be read."""
        self._unchecked_bytes = self.size
        self._checked = None

    # -- shortening, moving, removing ------------------------------------------------------------------------

    def truncate_at(self, position: int, offset: int) -> None:
        """Truncate the file at `position`, where the batch with `offset` would begin, and the indexes."""
        offsets, times = self.offset_index, self.time_index
        offsets.truncate_to(offset, position)
        times.truncate_to(offset)
        if self._txn_index is not None or self._files.exists(self.path(TXN_INDEX_SUFFIX)):
            self.txn_index.truncate_to(offset)
        self.log.truncate(position)
        self.size = position
        self._unchecked_bytes = min(self._unchecked_bytes, position)
        if self._checked is not None:
            self._checked.cut(position)
        if not position:
            self._first_timestamp = -1
        self._bytes_since_index = 0
        self._reload_max_timestamp()

    def cut(self, position: int) -> None:
        """Truncate the file after the last indexed batch."""
        self.log.truncate(position)
        self.size = position

    def _reload_max_timestamp(self) -> None:
        """Recompute the largest timestamp from the last time index entry and the batches after it."""
        self._max_timestamp, self._max_timestamp_offset = self.time_index.last_entry()
        start = self.offset_index.position_for(self._max_timestamp_offset)
        for _, header in iter_batches(self.log, start, self.size):
            if header.max_timestamp > self._max_timestamp:
                self._max_timestamp = header.max_timestamp
                self._max_timestamp_offset = header.last_offset

    def rename_deleted(self, mark: str = "") -> list[str]:
        """Rename the files to `.deleted`; return their new paths. Regions in flight stay readable."""
        moved = []
        for suffix in SUFFIXES:
            path = self.path(suffix)
            gone = path + mark + DELETED_SUFFIX
            if suffix == LOG_SUFFIX:
                self.log.rename(gone)
            elif self._files.exists(path):
                self._files.rename(path, gone)
            else:
                continue
            moved.append(gone)
        self.close()
        return moved

    def remove(self) -> None:
        self.close()
        for suffix in SUFFIXES:
            self._files.remove(self.path(suffix))

    def unsynced_txn_index(self) -> TxnIndex | None:
        index = self._txn_index
        return index if index is not None and index.is_unsynced else None

    def index_files(self) -> list[File]:
        """Return the index files in use, for syncing."""
        indexes = (self._offset_index, self._time_index, self._txn_index)
        return [index.file for index in indexes if index is not None and (index.file.size or index.was_cut)]

    def close(self) -> None:
        self.log.close()
        for index in (self._offset_index, self._time_index, self._txn_index):
            if index is not None:
                index.file.close()

    def moved(self, directory: str) -> None:
        """Update the paths after the partition's directory was renamed."""
        self.directory = directory
        self.log.moved(self.path(LOG_SUFFIX))
        if self._offset_index is not None:
            self._offset_index.file.moved(self.path(INDEX_SUFFIX))
        if self._time_index is not None:
            self._time_index.file.moved(self.path(TIME_INDEX_SUFFIX))
        if self._txn_index is not None:
            self._txn_index.file.moved(self.path(TXN_INDEX_SUFFIX))
