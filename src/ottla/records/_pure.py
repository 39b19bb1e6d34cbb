"""The kernel in pure Python: the same functions and results as the compiled kernel, for systems without it.

It also specifies the compiled kernel. The functions raise ValueError only for invalid ranges; faults in
records are returned as (fault, index of the record).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

from ottla.records import faults
from ottla.records.faults import INT64_MAX, INT64_MIN, OK

Buffer: TypeAlias = bytes | bytearray | memoryview
RecordTuple: TypeAlias = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
NewRecord: TypeAlias = tuple[int, Buffer | None, Buffer | None, Sequence[tuple[str, Buffer | None]]]
Walked: TypeAlias = tuple[int, int, int, int, int, int, int, list[tuple[int, int, int]] | None]

# (timestamp delta, offset delta, key, value, [(header key, header value)])
_Parsed: TypeAlias = tuple[
    int, int, memoryview | None, memoryview | None, list[tuple[memoryview, memoryview | None]]
]


class _BadRecord(Exception):
    def __init__(self, reason: int) -> None:
        self.reason = reason


def _number(buf: memoryview, pos: int, end: int, bits: int) -> tuple[int, int]:
    """Read a zigzag varint of at most `bits`; return (value, position after it)."""
    if pos < end and (byte := buf[pos]) < 0x80:  # the common case
        return (byte >> 1) ^ -(byte & 1), pos + 1
    value = shift = 0
    while pos < end:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if value >> bits:
            break
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), pos
        shift += 7
        if shift >= bits:
            break
    raise _BadRecord(faults.BAD_VARINT)


def _field(buf: memoryview, pos: int, end: int, reason: int, least: int) -> tuple[memoryview | None, int]:
    """Read a length, -1 for null where `least` allows it, and the bytes."""
    size, pos = _number(buf, pos, end, 32)
    if size < least or size > end - pos:
        raise _BadRecord(reason)
    if size < 0:
        return None, pos
    return buf[pos : pos + size], pos + size


def _record(buf: memoryview, pos: int, batch_end: int) -> tuple[_Parsed, int]:
    if pos >= batch_end:
        raise _BadRecord(faults.MISSING_RECORDS)
    length, pos = _number(buf, pos, batch_end, 32)
    if length < 1 or length > batch_end - pos:
        raise _BadRecord(faults.BAD_LENGTH)
    end = pos + length
    timestamp_delta, pos = _number(buf, pos + 1, end, 64)  # the attributes byte is still empty
    offset_delta, pos = _number(buf, pos, end, 32)
    key, pos = _field(buf, pos, end, faults.BAD_KEY_LENGTH, -1)
    value, pos = _field(buf, pos, end, faults.BAD_VALUE_LENGTH, -1)
    headers_count, pos = _number(buf, pos, end, 32)
    if headers_count < 0 or headers_count > end - pos:
        raise _BadRecord(faults.BAD_HEADER_COUNT)
    headers: list[tuple[memoryview, memoryview | None]] = []
    for _ in range(headers_count):
        header_key, pos = _field(buf, pos, end, faults.BAD_HEADER_KEY, 0)
        header_value, pos = _field(buf, pos, end, faults.BAD_HEADER_VALUE, -1)
        assert header_key is not None
        headers.append((header_key, header_value))
    if pos != end:
        raise _BadRecord(faults.LENGTH_MISMATCH)
    return (timestamp_delta, offset_delta, key, value, headers), end


def _view(buf: Buffer, pos: int, end: int) -> memoryview:
    if not 0 <= pos <= end <= len(buf):
        raise ValueError("range outside the buffer")
    return memoryview(buf)


def _wrapped(value: int) -> int:
    """Wrap around like a signed 64-bit integer."""
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def walk(
    buf: Buffer,
    pos: int,
    end: int,
    count: int,
    base_timestamp: int,
    low_ms: int = INT64_MIN,
    high_ms: int = INT64_MAX,
    need_keys: bool = False,
) -> Walked:
    """Check the records of one uncompressed section; see `ottla.records.kernel`."""
    view = _view(buf, pos, end)
    min_timestamp, max_timestamp, max_index, null_keys, bad_timestamps = INT64_MAX, -1, -1, 0, 0
    errors: list[tuple[int, int, int]] = []
    reason, stopped_at = OK, -1
    for index in range(count):
        try:
            (timestamp_delta, offset_delta, key, _, _), pos = _record(view, pos, end)
            if offset_delta != index:
                raise _BadRecord(faults.BAD_OFFSET_DELTA)
        except _BadRecord as bad:
            reason, stopped_at = bad.reason, index
            break
        timestamp = _wrapped(base_timestamp + timestamp_delta)
        if timestamp > max_timestamp or index == 0:
            max_timestamp, max_index = timestamp, index
        min_timestamp = min(min_timestamp, timestamp)
        null_keys += key is None
        out_of_range = not low_ms <= timestamp <= high_ms and timestamp != -1
        bad_timestamps += out_of_range
        if need_keys and key is None:
            errors.append((index, faults.NULL_KEY, timestamp))
        elif out_of_range:
            errors.append((index, faults.TIMESTAMP_OUT_OF_RANGE, timestamp))
    else:
        if pos != end:
            reason, stopped_at = faults.TRAILING_BYTES, max(count, 0)
    kept = errors[: faults.RECORD_ERRORS_MAX] or None
    return reason, stopped_at, min_timestamp, max_timestamp, max_index, null_keys, bad_timestamps, kept


def _bytes_or_none(field: memoryview | None) -> bytes | None:
    return None if field is None else bytes(field)


def quick_check(
    buf: Buffer, bytes_max: int, target_codec: int, high_ms: int, crc32c: Callable[[memoryview], int]
) -> tuple[int, ...] | None:
    """Return None: the caller does the checks one by one. Only the compiled kernel has a quick check."""
    return None


def split(
    buf: Buffer,
    pos: int,
    end: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_timestamp: int | None,
) -> tuple[int, int, list[RecordTuple]]:
    """Split a section into one tuple per record; records before a fault are returned with it."""
    view = _view(buf, pos, end)
    records: list[RecordTuple] = []
    for index in range(count):
        try:
            (timestamp_delta, offset_delta, key, value, headers), pos = _record(view, pos, end)
        except _BadRecord as bad:
            return bad.reason, index, records
        timestamp = append_timestamp
        if timestamp is None:
            timestamp = _wrapped(base_timestamp + timestamp_delta)
        pairs = tuple([(str(name, "utf-8", "replace"), _bytes_or_none(content)) for name, content in headers])
        offset = _wrapped(base_offset + offset_delta)
        records.append((offset, timestamp, _bytes_or_none(key), _bytes_or_none(value), pairs))
    if pos != end:
        return faults.TRAILING_BYTES, max(count, 0), records
    return OK, -1, records


def _put_number(out: bytearray, value: int) -> None:
    left = (value << 1) ^ (value >> 63)
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)


def _put_field(out: bytearray, field: Buffer | None) -> None:
    if field is None:
        out.append(1)
    else:
        _put_number(out, len(field))
        out += field


def _body(
    timestamp_delta: int,
    offset_delta: int,
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[tuple[Buffer, Buffer | None]],
) -> bytearray:
    body = bytearray(1)
    _put_number(body, _wrapped(timestamp_delta))
    _put_number(body, offset_delta)
    _put_field(body, key)
    _put_field(body, value)
    _put_number(body, len(headers))
    for header_key, header_value in headers:
        _put_field(body, header_key)
        _put_field(body, header_value)
    return body


def pack(records: Iterable[NewRecord], prefix_bytes: int) -> tuple[bytearray, int, int]:
    """Encode records after `prefix_bytes` of space; return (buffer, base timestamp, max timestamp)."""
    out = bytearray(prefix_bytes)
    base_timestamp = max_timestamp = 0
    for index, (timestamp, key, value, headers) in enumerate(records):
        if index == 0:
            base_timestamp = max_timestamp = timestamp
        max_timestamp = max(max_timestamp, timestamp)
        pairs = [(name.encode(), content) for name, content in headers or ()]
        body = _body(timestamp - base_timestamp, index, key, value, pairs)
        _put_number(out, len(body))
        out += body
    return out, base_timestamp, max_timestamp


# -- Arrow columns ---------------------------------------------------------------------------------

Measured: TypeAlias = tuple[int, int, int, int, int, int, int]
# (buffer, position, end, count, base offset, base timestamp, timestamp type, append timestamp)
Section: TypeAlias = tuple[Buffer, int, int, int, int, int, int, int]
# (validity or None, offsets, data or None, first index, length)
Column: TypeAlias = tuple[Buffer | None, Buffer | None, Buffer | None, int, int]


def measure(buf: Buffer, pos: int, end: int, count: int) -> Measured:
    """Check a section and compute the size of its columns.

    Returns (fault, index, key bytes, value bytes, headers, header key bytes, header value bytes).
    """
    view = _view(buf, pos, end)
    keys = values = header_rows = header_keys = header_values = 0
    for index in range(count):
        try:
            (_, _, key, value, headers), pos = _record(view, pos, end)
        except _BadRecord as bad:
            return bad.reason, index, 0, 0, 0, 0, 0
        keys += len(key or b"")
        values += len(value or b"")
        header_rows += len(headers)
        for name, content in headers:
            header_keys += len(name)
            header_values += len(content or b"")
    if pos != end:
        return faults.TRAILING_BYTES, max(count, 0), 0, 0, 0, 0, 0
    return OK, -1, keys, values, header_rows, header_keys, header_values


class _Output:
    """One variable-length column being filled."""

    __slots__ = ("data", "data_bytes", "nulls", "offsets", "rows", "validity")

    def __init__(self, validity: Buffer | None, offsets: Buffer, data: Buffer, rows: int) -> None:
        self.validity = None if validity is None else _writable(validity, (rows + 7) >> 3, "B")
        if self.validity is not None:
            self.validity[: (rows + 7) >> 3] = bytes((rows + 7) >> 3)
        self.offsets = _writable(offsets, (rows + 1) * 4, "i")
        self.offsets[0] = 0
        self.data = _writable(data, 0, "B")
        self.rows = self.data_bytes = self.nulls = 0

    def put(self, field: memoryview | None) -> None:
        if field is None:
            self.nulls += 1
        else:
            end = self.data_bytes + len(field)
            if end > min(len(self.data), 0x7FFFFFFF):
                raise ValueError("more bytes than measured")
            self.data[self.data_bytes : end] = field
            self.data_bytes = end
            if self.validity is not None:
                self.validity[self.rows >> 3] |= 1 << (self.rows & 7)
        self.rows += 1
        self.offsets[self.rows] = self.data_bytes


def _writable(buf: Buffer, least_bytes: int, kind: Literal["B", "i", "q"]) -> memoryview:
    view = memoryview(buf).cast("B")
    if view.readonly or len(view) < least_bytes:
        raise ValueError("buffer too small or not writable")
    size = 8 if kind == "q" else 4 if kind == "i" else 1
    return view[: len(view) // size * size].cast(kind)


def decode(
    sections: Iterable[Section], rows_max: int, headers_max: int, outputs: Sequence[Buffer]
) -> tuple[int, int, int, int, int, bool]:
    """Fill column buffers with the records of several sections that `measure` has checked.

    The outputs are: offset, timestamp, timestamp type; validity, offsets and data of the keys; the same of
    the values; offsets of the header lists; offsets and data of the header keys; validity, offsets and data
    of the header values. Returns (rows, null keys, null values, headers, null header values, header keys are
    ASCII).
    """
    if rows_max < 0 or headers_max < 0 or len(outputs) != 15:
        raise ValueError("bad shape")
    offset_column = _writable(outputs[0], rows_max * 8, "q")
    timestamp_column = _writable(outputs[1], rows_max * 8, "q")
    type_column = _writable(outputs[2], rows_max * 4, "i")
    keys = _Output(outputs[3], outputs[4], outputs[5], rows_max)
    values = _Output(outputs[6], outputs[7], outputs[8], rows_max)
    list_offsets = _writable(outputs[9], (rows_max + 1) * 4, "i")
    list_offsets[0] = 0
    header_keys = _Output(None, outputs[10], outputs[11], headers_max)
    header_values = _Output(outputs[12], outputs[13], outputs[14], headers_max)
    row = 0
    ascii_keys = True
    for buf, start, end, count, base_offset, base_timestamp, timestamp_type, append_timestamp in sections:
        view = _view(buf, start, end)
        pos = start
        for _ in range(count):
            try:
                (timestamp_delta, offset_delta, key, value, headers), pos = _record(view, pos, end)
            except _BadRecord:
                raise ValueError("records changed since they were measured") from None
            if row >= rows_max or len(headers) > headers_max - header_keys.rows:
                raise ValueError("more records than measured")
            offset_column[row] = _wrapped(base_offset + offset_delta)
            delta_timestamp = _wrapped(base_timestamp + timestamp_delta)
            timestamp_column[row] = append_timestamp if timestamp_type else delta_timestamp
            type_column[row] = timestamp_type
            keys.put(key)
            values.put(value)
            for name, content in headers:
                ascii_keys = ascii_keys and bytes(name).isascii()
                header_keys.put(name)
                header_values.put(content)
            row += 1
            list_offsets[row] = header_keys.rows
    return row, keys.nulls, values.nulls, header_keys.rows, header_values.nulls, ascii_keys


class _Input:
    """One variable-length column being read."""

    __slots__ = ("data", "length", "offsets", "start", "validity")

    def __init__(self, column: Column) -> None:
        validity, offsets, data, self.start, self.length = column
        if self.start < 0 or self.length < 0:
            raise ValueError("bad column")
        if self.length == 0:
            return
        self.validity = None if validity is None else memoryview(validity).cast("B")
        assert offsets is not None
        offset_bytes = memoryview(offsets).cast("B")
        self.offsets = offset_bytes[: len(offset_bytes) // 4 * 4].cast("i")
        self.data = None if data is None else memoryview(data).cast("B")
        last = self.start + self.length
        if len(self.offsets) <= last or (self.validity is not None and len(self.validity) < (last + 7) >> 3):
            raise ValueError("buffer too small")

    def range(self, row: int) -> tuple[int, int] | None:
        if not 0 <= row < self.length:
            raise ValueError("a column does not have the row")
        place = self.start + row
        if self.validity is not None and not self.validity[place >> 3] >> (place & 7) & 1:
            return None
        first, last = self.offsets[place], self.offsets[place + 1]
        if first < 0 or last < first or (self.data is not None and last > len(self.data)):
            raise ValueError("a column does not have the row")
        return first, last

    def get(self, row: int) -> memoryview | None:
        cell = self.range(row)
        if cell is None:
            return None
        assert self.data is not None
        return self.data[cell[0] : cell[1]]


def encode(
    start: int,
    stop: int,
    timestamps: Buffer,
    timestamps_start: int,
    key_buffers: Column,
    value_buffers: Column,
    list_buffers: Column,
    header_key_buffers: Column,
    header_value_buffers: Column,
    prefix_bytes: int,
    bytes_max: int,
) -> tuple[bytearray, int, int, int]:
    """Encode rows from `start` on after `prefix_bytes` of space, up to `bytes_max` but at least one row.

    Returns (buffer, the row after the last encoded one, base timestamp, max timestamp).
    """
    keys, values, lists = _Input(key_buffers), _Input(value_buffers), _Input(list_buffers)
    header_keys, header_values = _Input(header_key_buffers), _Input(header_value_buffers)
    if not 0 <= start < stop or timestamps_start < 0 or prefix_bytes < 0:
        raise ValueError("bad rows")
    timestamp_column = memoryview(timestamps).cast("B").cast("q")[timestamps_start:]
    if len(timestamp_column) < stop:
        raise ValueError("buffer too small")
    base_timestamp = max_timestamp = timestamp_column[start]
    out = bytearray(prefix_bytes)
    for row in range(start, stop):
        headers: list[tuple[memoryview, memoryview | None]] = []
        for header in range(*((lists.range(row) or (0, 0)) if lists.length else (0, 0))):
            header_key = header_keys.get(header)
            if header_key is None:
                raise ValueError("a header's key is null")
            headers.append((header_key, header_values.get(header)))
        timestamp = timestamp_column[row]
        body = _body(timestamp - base_timestamp, row - start, keys.get(row), values.get(row), headers)
        before = len(out)
        _put_number(out, len(body))
        out += body
        if row > start and len(out) > bytes_max:
            del out[before:]
            return out, row, base_timestamp, max_timestamp
        max_timestamp = max(max_timestamp, timestamp)
    return out, stop, base_timestamp, max_timestamp
