"""Scans of a segment in pure Python: the counterpart of `_scan.pxi`."""

from __future__ import annotations

from ottla.records._pure import Buffer, _view
from ottla.records.batch import HEADER_BYTES, BatchHeader, CorruptBatch, crc_ok, read_header

SCANNED = 0
BROKEN = 1
OTHER_EPOCH = 2
GAP = 3

LAST_BATCHES = 5


def _next_header(view: memoryview, pos: int, end: int) -> tuple[int, BatchHeader | None]:
    """Return (status, header); the header is None unless the whole batch is there and begins well."""
    if end - pos < HEADER_BYTES:
        return SCANNED, None
    try:
        header = read_header(view, pos)
    except CorruptBatch:
        return BROKEN, None
    if header.size_bytes > end - pos:
        return SCANNED, None
    return SCANNED, header


def check_batches(
    buf: Buffer, pos: int, end: int, next_offset: int, gaps_below: int, offset_max: int, epoch: int
) -> tuple[int, int, int, int]:
    view = _view(buf, pos, end)
    count = 0
    while True:
        status, header = _next_header(view, pos, end)
        if header is None:
            return status, pos, next_offset, count
        if not (
            next_offset <= header.base_offset <= header.last_offset <= offset_max
            and crc_ok(view, pos, header)
        ):
            return BROKEN, pos, next_offset, count
        if header.base_offset > next_offset and header.base_offset >= gaps_below:
            return GAP, pos, next_offset, count
        if header.leader_epoch != epoch:
            return OTHER_EPOCH, pos, next_offset, count
        next_offset = header.next_offset
        pos += header.size_bytes
        count += 1


def producer_batches(buf: Buffer, pos: int, end: int, next_offset: int) -> tuple[int, list[int], int, int]:
    view = _view(buf, pos, end)
    found: list[tuple[int, BatchHeader]] = []
    while True:
        status, header = _next_header(view, pos, end)
        if header is None:
            break
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            status = BROKEN
            break
        if header.has_producer:
            found.append((pos, header))
        next_offset = header.next_offset
        pos += header.size_bytes
    kept = set()
    previous: dict[int, BatchHeader] = {}
    for at, header in found:
        before = previous.get(header.producer_id)
        begins = before is None or not before.is_transactional or before.is_control
        if header.is_control or (header.is_transactional and begins):
            kept.add(at)
        previous[header.producer_id] = header
    counts: dict[int, int] = {}
    for at, header in reversed(found):
        count = counts.get(header.producer_id, 0)
        if not header.is_control and count < LAST_BATCHES:
            counts[header.producer_id] = count + 1
            kept.add(at)
    return status, sorted(kept), pos, next_offset
