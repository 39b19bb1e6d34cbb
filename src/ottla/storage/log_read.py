"""Finding batches: by offset, by timestamp, and the aborted transactions among them."""

from __future__ import annotations

from typing import NamedTuple

from ottla.records.batch import BatchHeader, CorruptBatch, RecordsError
from ottla.storage.batch_scan import iter_batches
from ottla.storage.region import EMPTY_REGION, FileRegion
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments
from ottla.storage.txn_index import AbortedTransaction

_MEMO_ENTRIES_MAX = 32
RECORDS_OPENED_MAX = 100_000  # of one batch, to look for a timestamp: Python objects are made of them


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


class PositionMemo:
    """Where the last reads ended, so that the next read of a sequential consumer needs no search.

    offset -> (segment, position of the first batch whose last offset is >= offset).
    """

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[int, tuple[Segment, int]] = {}

    def position(self, offset: int, segment: Segment) -> int:
        """The remembered position, or -1. A place in another segment is outdated."""
        place = self._places.get(offset)
        return place[1] if place is not None and place[0] is segment else -1

    def remember(self, offset: int, segment: Segment, position: int) -> None:
        places = self._places
        if offset not in places and len(places) >= _MEMO_ENTRIES_MAX:
            del places[next(iter(places))]
        places[offset] = (segment, position)

    def clear(self) -> None:
        self._places.clear()


def read_region(
    segments: Segments,
    memo: PositionMemo,
    offset: int,
    max_bytes: int,
    upper_offset: int,
    log_end_offset: int,
    min_one_batch: bool,
) -> FileRegion:
    """Whole batches of one segment, from the one that holds `offset`; none reaches `upper_offset`."""
    assert offset < upper_offset <= log_end_offset
    for index in range(segments.floor(offset), len(segments)):
        segment = segments[index]
        if segment.base_offset >= upper_offset:
            break
        position = memo.position(offset, segment)
        if position < 0:
            found = segment.find(offset)
            if found is None:
                # Nothing from here on in this segment: its end was compacted away.
                continue
            position = found[0]
        if position >= segment.size:
            continue
        limit = _limit(segments, index, memo, upper_offset, log_end_offset)
        if limit <= position:
            break
        end, next_offset = _end(segment, position, limit, upper_offset, max_bytes, min_one_batch)
        if end == position:
            break
        checked_end = segment.check(position, end)
        if checked_end == end and end < segment.size + (segment is segments.active):
            memo.remember(next_offset, segment, end)
        return FileRegion(segment.log, position, checked_end - position, next_offset)
    return EMPTY_REGION


def _limit(segments: Segments, index: int, memo: PositionMemo, upper_offset: int, log_end_offset: int) -> int:
    """The position in the segment that a read bounded by `upper_offset` must not pass."""
    segment = segments[index]
    if segments.end_offset(index, log_end_offset) <= upper_offset:
        return segment.size
    position = memo.position(upper_offset, segment)
    if position < 0:
        found = segment.find(upper_offset)
        position = segment.size if found is None else found[0]
        memo.remember(upper_offset, segment, position)
    return position


def _end(
    segment: Segment, position: int, limit: int, upper_offset: int, max_bytes: int, min_one_batch: bool
) -> tuple[int, int]:
    """(where the region ends, the offset that follows it)."""
    if limit - position <= max_bytes:
        return limit, upper_offset
    end, next_offset = segment.end_of_batches(position, position + max(0, max_bytes))
    if end == position and min_one_batch:
        header = segment.header_at(position)
        return position + header.size_bytes, header.next_offset
    return end, next_offset


def find_timestamp(segments: Segments, timestamp: int, log_start_offset: int) -> TimestampOffset | None:
    """The first record at or after `timestamp`."""
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
    """The first record of a batch at or after `timestamp`.

    Compressed batches are stored unopened: what a producer put into one may be garbage, or millions of tiny
    records. Such a batch is answered with its beginning: nobody who starts reading there misses a record.
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


def find_max_timestamp(segments: Segments, log_start_offset: int) -> TimestampOffset | None:
    """The first record that has the largest timestamp of the log."""
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
    return record or _find_max_left(segments, log_start_offset)


def _find_max_left(segments: Segments, log_start_offset: int) -> TimestampOffset | None:
    """The same where compaction has left nothing of the batch but its header."""
    largest: tuple[int, Segment, int, BatchHeader] | None = None
    for segment in segments:
        for position, header in iter_batches(segment.log, 0, segment.size):
            if header.records_count and (largest is None or header.max_timestamp > largest[0]):
                largest = (header.max_timestamp, segment, position, header)
    if largest is None:
        return None
    timestamp, segment, position, header = largest
    return _first_record(segment, position, header, timestamp, log_start_offset)


def find_aborted(segments: Segments, start_offset: int, upper_offset: int) -> list[AbortedTransaction]:
    """The aborted transactions that have records in [start, upper)."""
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
