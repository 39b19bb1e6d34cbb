"""Lookups that scan the log: by timestamp, and for aborted transactions."""

from __future__ import annotations

from typing import NamedTuple

from ottla.records.batch import BatchHeader, CorruptBatch, RecordsError
from ottla.storage.index.txn_index import AbortedTransaction
from ottla.storage.segments.batch_scan import iter_batches
from ottla.storage.segments.segment import Segment
from ottla.storage.segments.segment_list import SegmentList

RECORDS_OPENED_MAX = 100_000  # in one batch, in search of a timestamp: each becomes a Python object


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


def find_timestamp(segments: SegmentList, timestamp: int, log_start_offset: int) -> TimestampOffset | None:
    """Return the first record at or after `timestamp`."""
    for segment in segments:
        if not segment.size or segment.max_timestamp < timestamp:
            continue
        start = max(segment.time_index.offset_for(timestamp), log_start_offset)
        position = segment.offset_index.position_for(start)
        for at, header in iter_batches(segment.log, position, segment.size):
            if header.max_timestamp >= timestamp and header.last_offset >= log_start_offset:
                found = _first_record(segment, at, header, timestamp, log_start_offset)
                if found is not None:
                    return found
    return None


def _first_record(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, log_start_offset: int
) -> TimestampOffset | None:
    """Return the first record of a batch at or after `timestamp`.

    Compressed batches are stored as the producer sent them, so one may contain garbage or millions of tiny
    records. For such a batch the result is its first offset: a consumer that starts there misses no record.
    """
    from ottla.records.record import iter_records

    segment.check(position, position + header.size_bytes)
    if header.records_count <= RECORDS_OPENED_MAX:
        batch = segment.log.read(position, header.size_bytes)
        try:
            for record in iter_records(batch, 0, header):
                if record.timestamp >= timestamp and record.offset >= log_start_offset:
                    return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
        except (CorruptBatch, RecordsError):
            pass
        else:
            return None
    first_offset = max(header.base_offset, log_start_offset)
    return TimestampOffset(header.max_timestamp, first_offset, header.leader_epoch)


def find_max_timestamp(segments: SegmentList, log_start_offset: int) -> TimestampOffset | None:
    """Return the first record that has the largest timestamp of the log."""
    best: Segment | None = None
    for segment in segments:
        if segment.size and (best is None or segment.max_timestamp > best.max_timestamp):
            best = segment
    if best is None or best.max_timestamp < 0:
        return None
    found = best.find(best.max_timestamp_offset)
    if found is None:
        return None
    position, header = found
    record = _first_record(best, position, header, best.max_timestamp, log_start_offset)
    return record or _find_max_by_scan(segments, log_start_offset)


def _find_max_by_scan(segments: SegmentList, log_start_offset: int) -> TimestampOffset | None:
    """The same, for a log whose compaction left only the header of the batch with the largest timestamp."""
    largest: tuple[int, Segment, int, BatchHeader] | None = None
    for segment in segments:
        for position, header in iter_batches(segment.log, 0, segment.size):
            if header.records_count and (largest is None or header.max_timestamp > largest[0]):
                largest = (header.max_timestamp, segment, position, header)
    if largest is None:
        return None
    timestamp, segment, position, header = largest
    return _first_record(segment, position, header, timestamp, log_start_offset)


def find_aborted(segments: SegmentList, start_offset: int, upper_offset: int) -> list[AbortedTransaction]:
    """Return the aborted transactions that have records in [start, upper)."""
    found = []
    for index in range(segments.floor(start_offset), len(segments)):
        txn_index = segments[index].txn_index
        if not txn_index:
            continue
        for aborted in txn_index.entries_from(start_offset):
            if aborted.first_offset < upper_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_offset:
                return found
    return found
