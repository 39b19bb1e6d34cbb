"""A cleaned segment while it is written: `.cleaned` files, which are not read before they are synced."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.records import cleaning
from ottla.storage.files import Files
from ottla.storage.index.offset_index import OffsetIndex
from ottla.storage.index.time_index import TimeIndex
from ottla.storage.index.txn_index import AbortedTransaction, TxnIndex
from ottla.storage.segments.interrupted_changes import CLEANED_SUFFIX
from ottla.storage.segments.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)


class CleanedSegment:
    __slots__ = (
        "_files",
        "_interval_bytes",
        "_log",
        "_max_offset",
        "_max_timestamp",
        "_offsets",
        "_since_bytes",
        "_times",
        "base_offset",
        "directory",
        "last_offset",
        "size",
    )

    def __init__(self, files: Files, directory: str, base_offset: int, interval_bytes: int) -> None:
        self._files = files
        self.directory = directory
        self.base_offset = base_offset
        for suffix in SUFFIXES:
            files.remove(self.path(suffix))
        self._log = files.create(self.path(LOG_SUFFIX))
        self._offsets = OffsetIndex(files, self.path(INDEX_SUFFIX), base_offset)
        self._times = TimeIndex(files, self.path(TIME_INDEX_SUFFIX), base_offset)
        self._interval_bytes = interval_bytes
        self._since_bytes = 0
        self._max_timestamp = -1
        self._max_offset = base_offset
        self.last_offset = -1
        self.size = 0

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{self.base_offset:020d}{suffix}{CLEANED_SUFFIX}"

    def append(self, batches: memoryview) -> None:
        """Write whole batches and index them."""
        position = self.size
        self._log.append(batches)
        self.size += len(batches)
        points, self._since_bytes, self._max_timestamp, self._max_offset, self.last_offset = (
            cleaning.index_points(
                batches,
                0,
                len(batches),
                self._interval_bytes,
                self._since_bytes,
                self._max_timestamp,
                self._max_offset,
            )
        )
        for at, last_offset, max_timestamp, max_offset in points:
            self._offsets.append(last_offset, position + at)
            self._times.maybe_append(max_timestamp, max_offset)
        if self._offsets.wants_write:
            self._offsets.write_out()
            self._times.write_out()

    def finish(self, aborted: Sequence[AbortedTransaction], modified_ms: int) -> None:
        """Write and sync everything, with the modification time of the replaced segment."""
        if self._max_timestamp >= 0:
            self._times.maybe_append(self._max_timestamp, self._max_offset)
        self._offsets.write_out()
        self._times.write_out()
        written = [self._log, self._offsets.file, self._times.file]
        if aborted:
            index = TxnIndex(self._files, self.path(TXN_INDEX_SUFFIX), self.base_offset)
            for entry in aborted:
                index.append(entry)
            index.write_out()
            written.append(index.file)
        for file in written:
            file.sync()
            file.close()
        self._files.set_modified_ms(self.path(LOG_SUFFIX), modified_ms)

    def discard(self) -> None:
        for file in (self._log, self._offsets.file, self._times.file):
            file.close()
        for suffix in SUFFIXES:
            self._files.remove(self.path(suffix))
