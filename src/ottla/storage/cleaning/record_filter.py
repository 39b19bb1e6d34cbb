"""Which records and batches are kept.

A record is kept if no later record has its key, unless it is an expired tombstone, has no key, or belongs to
an aborted transaction. The header of a batch that loses all records is kept if it is one of the last five of
a known producer, because it carries the sequence numbers that identify retries, also after a restart. (Kafka
keeps the last one.) Offsets, sequences and leader epochs do not change, nor does the last offset of a batch.

A batch with tombstones gets a delete horizon when it is first cleaned: now + delete.retention.ms, stored as
its base timestamp. Until then consumers can still see the deletion. The marker of a transaction without
remaining records gets one, too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple

from ottla.records import cleaning, faults
from ottla.records.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    CorruptBatch,
    RecordsError,
    crc_ok,
    read_header,
    seal,
)
from ottla.records.build import with_codec
from ottla.records.record import records_section
from ottla.storage.cleaning.key_offsets import KeyOffsets
from ottla.storage.cleaning.segment_files import CleanedSegment
from ottla.storage.cleaning.transactions import CleanedTransactions
from ottla.storage.errors import CorruptLog
from ottla.storage.logger import logger
from ottla.storage.producers.markers import read_marker

OFFSET_MAX = (1 << 63) - 1


class LastOfProducer(NamedTuple):
    """The last offsets of a producer's last batches; empty if it only wrote markers."""

    offsets: tuple[int, ...]
    epoch: int


class RecordFilter:
    __slots__ = (
        "_complained",
        "_delete_retention_ms",
        "_keys",
        "_last",
        "_latest_offset",
        "_now_ms",
        "_out",
        "_out_bytes",
        "_producers",
        "_producers_ends",
        "records_kept",
        "records_read",
        "target",
        "transactions",
    )

    def __init__(
        self,
        known: KeyOffsets,
        transactions: CleanedTransactions,
        producers: Mapping[int, LastOfProducer],
        *,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._keys = known.keys
        self._latest_offset = known.end_offset - 1
        self.transactions = transactions
        self._producers = producers
        self._producers_ends = sorted({offset for last in producers.values() for offset in last.offsets})
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self._out = bytearray()
        self._out_bytes = 0
        self._last: BatchHeader | None = None
        self._complained = False
        self.target: CleanedSegment
        self.records_read = 0
        self.records_kept = 0

    # -- many batches ----------------------------------------------------------------------------------------

    def begin(self, target: CleanedSegment) -> None:
        """Write the records that are kept to `target` from now on."""
        self.target = target
        self._last = None

    def take(self, path: str, data: bytes) -> int:
        """Filter the whole batches of a chunk; return their size."""
        pos, end = 0, len(data)
        if len(self._out) < end:
            self._flush()
            self._out = bytearray(end)
        look_offset = self._look_from(read_header(data).base_offset - 1)
        while True:
            status, pos, self._out_bytes, read, kept, last_pos = cleaning.filter_batches(
                self._keys,
                data,
                pos,
                end,
                self._latest_offset,
                self._now_ms,
                look_offset,
                self._out,
                self._out_bytes,
            )
            self.records_read += read
            self.records_kept += kept
            if last_pos >= 0:
                self._last = read_header(data, last_pos)
            if status == cleaning.NO_ROOM:
                self._flush()
            elif status == cleaning.LOOK:
                header = read_header(data, pos)
                if not crc_ok(data, pos, header):
                    status = cleaning.DAMAGED
                else:
                    self._write(self._look(path, data, pos, header))
                    self._last = header
                    look_offset = self._look_from(header.last_offset)
                    pos += header.size_bytes
            if status == cleaning.DAMAGED:
                raise CorruptLog(
                    path, f"a stored batch before {pos} is damaged; the partition is not cleaned"
                )
            if status == cleaning.ALL_DONE:
                self._flush()
                return pos

    def end(self) -> None:
        """Finish the target. Its last batch is kept, at least its header: readers at that offset can proceed,
        and after a crash it shows the end of the target."""
        last = self._last
        if last is not None and self.target.last_offset < last.last_offset:
            self._write(emptied(last))
            self._flush()

    def _look_from(self, offset: int) -> int:
        """Return the next offset after `offset` at which a batch of `_producers` ends."""
        at = bisect_right(self._producers_ends, offset)
        return self._producers_ends[at] if at < len(self._producers_ends) else OFFSET_MAX

    def _write(self, batch: Buffer | None) -> None:
        if batch is None:
            return
        if self._out_bytes + len(batch) > len(self._out):
            self._flush()
        if len(batch) > len(self._out):
            self.target.append(memoryview(batch))
            return
        self._out[self._out_bytes : self._out_bytes + len(batch)] = batch
        self._out_bytes += len(batch)

    def _flush(self) -> None:
        if self._out_bytes:
            with memoryview(self._out) as view:
                self.target.append(view[: self._out_bytes])
            self._out_bytes = 0

    # -- one batch -------------------------------------------------------------------------------------------

    def _look(self, path: str, data: bytes, pos: int, header: BatchHeader) -> Buffer | None:
        """Filter a batch that is compressed, transactional or a control batch, or needs a closer look."""
        horizon_ms = header.delete_horizon_ms
        marker_of_nothing = False
        if header.is_control:
            marker = read_marker(data, pos, header)
            marker_of_nothing = self.transactions.is_marker_of_nothing(header, marker)
            discard = marker_of_nothing and horizon_ms is not None and horizon_ms <= self._now_ms
        else:
            discard = self.transactions.is_aborted(header)
        self.records_read += header.records_count
        if discard or not header.records_count:
            return emptied(header) if self._is_last_of_producer(header) else None
        original = memoryview(data)[pos : pos + header.size_bytes]
        if header.is_control:
            self.records_kept += header.records_count
            if not marker_of_nothing or horizon_ms is not None:
                return original
            plain = memoryview(data)[pos + HEADER_BYTES : pos + header.size_bytes]
            return self._rebuilt(header, plain, header.records_count, header.max_timestamp, True)
        return self._filtered(path, data, pos, header, original)

    def _filtered(
        self, path: str, data: bytes, pos: int, header: BatchHeader, original: memoryview
    ) -> Buffer | None:
        horizon_ms = header.delete_horizon_ms
        try:
            plain, start, end = records_section(data, pos, header)
            reason, kept, tombstones, max_timestamp, records = cleaning.filter_records(
                self._keys,
                plain,
                start,
                end,
                header.records_count,
                header.base_offset,
                header.base_timestamp,
                self._latest_offset,
                horizon_ms is None or self._now_ms < horizon_ms,
            )
        except (CorruptBatch, RecordsError) as error:
            return self._unreadable(path, header, original, error)
        if records is None:
            return self._unreadable(path, header, original, faults.TEXTS[reason])
        self.records_kept += kept
        wants_horizon = tombstones > 0 and horizon_ms is None
        if kept == header.records_count and not wants_horizon:
            return original
        if not kept:
            return emptied(header) if self._is_last_of_producer(header) else None
        if header.is_log_append_time:
            max_timestamp = header.max_timestamp
        return self._rebuilt(header, records, kept, max_timestamp, wants_horizon)

    def _rebuilt(
        self, header: BatchHeader, records: Buffer, count: int, max_timestamp: int, wants_horizon: bool
    ) -> bytearray:
        base_timestamp, attributes = header.base_timestamp, header.attributes
        if wants_horizon:
            base_timestamp = self._now_ms + self._delete_retention_ms
            attributes |= DELETE_HORIZON_BIT
            shift = header.base_timestamp - base_timestamp
            reason, rebased = cleaning.rebase_records(records, 0, len(records), count, shift)
            assert rebased is not None, f"cannot rebase readable records: {reason}"
            records = rebased
        batch = with_codec(records, header.codec)
        changed = header._replace(
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            records_count=count,
        )
        seal(batch, changed)
        return batch

    def _unreadable(self, path: str, header: BatchHeader, original: memoryview, error: object) -> memoryview:
        """Keep an unreadable batch: its checksum matches, so it is what the producer sent."""
        if not self._complained:
            self._complained = True
            logger.warning("%s: keeping the unreadable batch at %d: %s", path, header.base_offset, error)
        self.records_kept += header.records_count
        return original

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Whether the batch carries the last sequence numbers, or the epoch, of a known producer."""
        last = self._producers.get(header.producer_id) if header.has_producer else None
        if last is None:
            return False
        if last.offsets:
            return header.last_offset in last.offsets
        return header.is_control and header.producer_epoch == last.epoch


def emptied(header: BatchHeader) -> bytearray:
    """Return the batch without its records."""
    batch = bytearray(HEADER_BYTES)
    attributes = header.attributes & (LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT)
    seal(batch, header._replace(attributes=attributes, base_timestamp=-1, records_count=0))
    return batch
