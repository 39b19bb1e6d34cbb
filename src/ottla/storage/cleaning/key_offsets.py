"""The last offset of each key in the dirty part of a log, in bounded memory.

When the map is full, the cleaning ends before the next key; the next cleaning continues there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ottla.records import cleaning, kernel
from ottla.records.batch import BatchHeader, CorruptBatch, RecordsError, crc_ok, read_header
from ottla.records.record import records_section
from ottla.storage.cleaning.chunks import Chunks, SegmentView
from ottla.storage.cleaning.transactions import CleanedTransactions
from ottla.storage.errors import CorruptLog
from ottla.storage.files import Files
from ottla.storage.producers.markers import read_marker

SLOTS_MIN = 1024


class KeyOffsets:
    """`end_offset`: everything below it, from `start_offset` on, is in `keys`."""

    __slots__ = ("_limit", "_transactions", "end_offset", "full", "keys", "start_offset")

    def __init__(
        self,
        start_offset: int,
        upper_offset: int,
        *,
        buffer_bytes: int,
        load_factor: float,
        secret: bytes,
        transactions: CleanedTransactions,
    ) -> None:
        entry_bytes = cleaning.KeyMap.ENTRY_BYTES
        slots_max = max(SLOTS_MIN, buffer_bytes // entry_bytes)
        # There are no more keys than offsets: most cleanings need little of the allowed memory.
        useful = int((upper_offset - start_offset) / max(load_factor, 0.01)) + 2
        slots = max(SLOTS_MIN, min(slots_max, useful))
        self.keys = cleaning.KeyMap(slots, secret)
        self._limit = max(1, int(slots * load_factor))
        self._transactions = transactions
        self.start_offset = self.end_offset = start_offset
        self.full = False

    def read(self, files: Files, views: Sequence[SegmentView], chunk_bytes: int) -> Iterator[int]:
        """Read the segments; yield the number of bytes read from time to time."""
        for view in views:
            chunks = Chunks(files, view, chunk_bytes)
            for data in chunks:
                chunks.used = self._take(view.path, data)
                yield len(data)
                if self.full:
                    return
            self.end_offset = max(self.end_offset, view.end_offset)

    def _take(self, path: str, data: bytes) -> int:
        """Add the keys of a chunk; return how many of its bytes were consumed."""
        pos, end = 0, len(data)
        while True:
            status, pos, next_offset = cleaning.map_batches(
                self.keys, data, pos, end, self.start_offset, self._limit
            )
            self.end_offset = max(self.end_offset, next_offset)
            if status == cleaning.DAMAGED:
                raise CorruptLog(path, "a stored batch is damaged; the partition is not cleaned")
            if status == cleaning.FULL:
                self.full = True
            if status != cleaning.LOOK:
                return pos
            header = read_header(data, pos)
            if not crc_ok(data, pos, header):
                raise CorruptLog(
                    path, f"batch at offset {header.base_offset} is damaged; the partition is not cleaned"
                )
            self._look(data, pos, header)
            if self.full:
                return pos
            self.end_offset = max(self.end_offset, header.next_offset)
            pos += header.size_bytes

    def _look(self, data: bytes, pos: int, header: BatchHeader) -> None:
        if header.is_control:
            self._transactions.is_marker_of_nothing(header, read_marker(data, pos, header))
            return
        if self._transactions.is_aborted(header):
            return
        try:
            plain, start, end = records_section(data, pos, header)
        except (CorruptBatch, RecordsError):
            return  # unreadable: the filter keeps it unchanged
        if kernel.measure(plain, start, end, header.records_count)[0]:
            return
        _, stopped_at = cleaning.map_records(
            self.keys,
            plain,
            start,
            end,
            header.records_count,
            header.base_offset,
            self.start_offset,
            self._limit,
        )
        if stopped_at >= 0:
            self.full = True
            self.end_offset = max(self.end_offset, stopped_at)
