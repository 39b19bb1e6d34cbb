"""Compaction in pure Python: the counterpart of `_cleaning.pxi`, for systems without the compiled kernel."""

from __future__ import annotations

from hashlib import blake2b

from ottla.records import faults
from ottla.records._pure import Buffer, _BadRecord, _record, _view, _wrapped
from ottla.records.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    CorruptBatch,
    crc_ok,
    read_header,
    seal,
)
from ottla.records.faults import OK

ALL_DONE = 0
LOOK = 1
FULL = 2
DAMAGED = 3
NO_ROOM = 4

_NOT_PLAIN = 0x07 | TRANSACTIONAL_BIT | CONTROL_BIT


class KeyMap:
    """The last offset of each key; a key is identified by 128 bits of its hash."""

    ENTRY_BYTES = 160  # memory of a dict entry with its digest and offset

    def __init__(self, slots: int, secret: bytes) -> None:
        if slots < 1 or len(secret) != 16:
            raise ValueError("a map needs at least one slot and a secret of 16 bytes")
        self.slots = slots
        self._secret = secret
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def _digest(self, key: Buffer) -> bytes:
        return blake2b(key, digest_size=16, key=self._secret).digest()

    def get(self, key: Buffer) -> int:
        """Return the key's last offset, -1 if it is unknown."""
        return self._offsets.get(self._digest(key), -1)

    def put(self, key: Buffer, offset: int, limit: int) -> bool:
        """Set the last offset of a key; return False if the key is new and the map is full."""
        digest = self._digest(key)
        if len(self._offsets) >= min(limit, self.slots - 1) and digest not in self._offsets:
            return False
        self._offsets[digest] = offset
        return True


def map_records(
    keys: KeyMap,
    buf: Buffer,
    pos: int,
    end: int,
    count: int,
    base_offset: int,
    start_offset: int,
    limit: int,
) -> tuple[int, int]:
    view = _view(buf, pos, end)
    for _ in range(count):
        try:
            (_, offset_delta, key, _, _), pos = _record(view, pos, end)
        except _BadRecord as bad:
            return bad.reason, -1
        offset = base_offset + offset_delta
        if key is not None and offset >= start_offset and not keys.put(key, offset, limit):
            return OK, offset
    return OK, -1


def _opened(view: memoryview, pos: int, end: int) -> tuple[int, BatchHeader | None]:
    """Return a whole batch and ALL_DONE, LOOK if it is incomplete, or DAMAGED."""
    if end - pos < HEADER_BYTES:
        return LOOK, None
    try:
        header = read_header(view, pos)
    except CorruptBatch:
        return DAMAGED, None
    return (ALL_DONE, header) if header.size_bytes <= end - pos else (LOOK, None)


def map_batches(
    keys: KeyMap, buf: Buffer, pos: int, end: int, start_offset: int, limit: int
) -> tuple[int, int, int]:
    view = _view(buf, pos, end)
    next_offset = -1
    while pos < end:
        status, header = _opened(view, pos, end)
        if header is None:
            return (ALL_DONE if status == LOOK else DAMAGED), pos, next_offset
        if header.attributes & _NOT_PLAIN:
            return LOOK, pos, next_offset
        if not crc_ok(view, pos, header):
            return DAMAGED, pos, next_offset
        reason, stopped_at = map_records(
            keys,
            view,
            pos + HEADER_BYTES,
            pos + header.size_bytes,
            header.records_count,
            header.base_offset,
            start_offset,
            limit,
        )
        if reason != OK:
            return LOOK, pos, next_offset
        if stopped_at >= 0:
            return FULL, pos, stopped_at
        next_offset = header.next_offset
        pos += header.size_bytes
    return ALL_DONE, pos, next_offset


def filter_records(
    keys: KeyMap,
    buf: Buffer,
    pos: int,
    end: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    latest_offset: int,
    keep_tombstones: bool,
) -> tuple[int, int, int, int, bytearray | None]:
    view = _view(buf, pos, end)
    out = bytearray()
    kept, tombstones, max_timestamp = 0, 0, -1
    for _ in range(count):
        began = pos
        try:
            (timestamp_delta, offset_delta, key, value, _), pos = _record(view, pos, end)
        except _BadRecord as bad:
            return bad.reason, 0, 0, -1, None
        offset = base_offset + offset_delta
        if offset <= latest_offset and (
            key is None or (value is None and not keep_tombstones) or offset < keys.get(key)
        ):
            continue
        out += view[began:pos]
        timestamp = _wrapped(base_timestamp + timestamp_delta)
        max_timestamp = max(max_timestamp, timestamp) if kept else timestamp
        kept += 1
        tombstones += value is None
    if pos != end:
        return faults.TRAILING_BYTES, 0, 0, -1, None
    return OK, kept, tombstones, max_timestamp, out


def filter_batches(
    keys: KeyMap,
    buf: Buffer,
    pos: int,
    end: int,
    latest_offset: int,
    now_ms: int,
    look_offset: int,
    out: bytearray | memoryview,
    out_pos: int,
) -> tuple[int, int, int, int, int, int]:
    view, target = _view(buf, pos, end), _view(out, out_pos, out_pos)
    records_read = records_kept = 0
    last_pos = -1
    status = ALL_DONE
    while pos < end:
        opened, header = _opened(view, pos, end)
        if header is None:
            status = ALL_DONE if opened == LOOK else DAMAGED
            break
        if header.attributes & _NOT_PLAIN or header.last_offset >= look_offset:
            status = LOOK
            break
        size = header.size_bytes
        if size > len(target) - out_pos:
            status = NO_ROOM
            break
        if not crc_ok(view, pos, header):
            status = DAMAGED
            break
        horizon_ms = header.delete_horizon_ms
        _, kept, tombstones, max_timestamp, records = filter_records(
            keys,
            view,
            pos + HEADER_BYTES,
            pos + size,
            header.records_count,
            header.base_offset,
            header.base_timestamp,
            latest_offset,
            horizon_ms is None or now_ms < horizon_ms,
        )
        if records is None or (tombstones and not header.attributes & DELETE_HORIZON_BIT):
            status = LOOK
            break
        records_read += header.records_count
        records_kept += kept
        if kept == header.records_count and kept:
            target[out_pos : out_pos + size] = view[pos : pos + size]
            out_pos += size
        elif kept:
            if header.attributes & LOG_APPEND_TIME_BIT:
                max_timestamp = header.max_timestamp
            batch = bytearray(HEADER_BYTES) + records
            seal(batch, header._replace(records_count=kept, max_timestamp=max_timestamp))
            target[out_pos : out_pos + len(batch)] = batch
            out_pos += len(batch)
        last_pos = pos
        pos += size
    return status, pos, out_pos, records_read, records_kept, last_pos


def _zigzag(value: int) -> bytes:
    left = ((value << 1) ^ (value >> 63)) & ((1 << 64) - 1)
    out = bytearray()
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _skip_number(view: memoryview, pos: int) -> int:
    while view[pos] >= 0x80:
        pos += 1
    return pos + 1


def rebase_records(buf: Buffer, pos: int, end: int, count: int, shift: int) -> tuple[int, bytearray | None]:
    view = _view(buf, pos, end)
    out = bytearray()
    for _ in range(count):
        began = pos
        try:
            (timestamp_delta, *_), pos = _record(view, pos, end)
        except _BadRecord as bad:
            return bad.reason, None
        rest = _skip_number(view, _skip_number(view, began) + 1)
        delta = _zigzag(_wrapped(timestamp_delta + shift))
        out += _zigzag(1 + len(delta) + pos - rest) + b"\0" + delta + view[rest:pos]
    return OK, out


def index_points(
    buf: Buffer,
    pos: int,
    end: int,
    interval_bytes: int,
    since_bytes: int,
    max_timestamp: int,
    max_offset: int,
) -> tuple[list[tuple[int, int, int, int]], int, int, int, int]:
    view = _view(buf, pos, end)
    points = []
    at = pos
    last_offset = -1
    while at < end:
        _, header = _opened(view, at, end)
        if header is None:
            raise ValueError("not whole batches")
        if header.max_timestamp > max_timestamp:
            max_timestamp, max_offset = header.max_timestamp, header.last_offset
        if since_bytes > interval_bytes:
            points.append((at - pos, header.last_offset, max_timestamp, max_offset))
            since_bytes = 0
        since_bytes += header.size_bytes
        at += header.size_bytes
        last_offset = header.last_offset
    return points, since_bytes, max_timestamp, max_offset, last_offset
