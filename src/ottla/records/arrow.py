"""Conversion between record batches and Arrow columns, for clients and pipelines. Not used by the broker.

The kernel reads and writes Arrow's buffers directly, without a Python object per record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ottla.records import faults, kernel
from ottla.records.batch import (
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    CorruptBatch,
    increment_sequence,
    iter_headers,
)
from ottla.records.build import compressed, finish_batch
from ottla.records.record import DECOMPRESSED_BYTES_MAX, records_section

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ottla.records._pure import Column, Section
    from ottla.records.batch import BatchHeader, Buffer
    from ottla.records.compression import Scratch

HEADER_TYPE = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("timestamp_type", pa.int32(), nullable=False),
        pa.field("headers", pa.list_(pa.field("element", HEADER_TYPE, nullable=False)), nullable=False),
    ]
)

# The offsets of Arrow's binary columns are int32.
COLUMN_BYTES_MAX = 0x7FFFFFFF


def batches_to_arrow(
    buffers: Iterable[Buffer],
    *,
    from_offset: int | None = None,
    keep: Callable[[BatchHeader], bool] | None = None,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> pa.RecordBatch:
    """Decode the records of all whole batches in the buffers, in order, with `SCHEMA`.

    Control batches, batches for which `keep` returns False (for example aborted transactions) and records
    before `from_offset` are skipped. Raises CorruptBatch, RecordsError for invalid compressed data, and
    ValueError if a column would exceed Arrow's limit of 2 GB: pass fewer buffers then.
    """
    found = (
        (buf, pos, header)
        for buf in buffers
        for pos, header in iter_headers(buf)
        if not header.is_control and (keep is None or keep(header))
    )
    return headed_to_arrow(found, from_offset=from_offset, decompressed_bytes_max=decompressed_bytes_max)


def headed_to_arrow(
    batches: Iterable[tuple[Buffer, int, BatchHeader]],
    *,
    from_offset: int | None = None,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
    scratch: Scratch | None = None,
) -> pa.RecordBatch:
    """Decode data batches whose headers were read already, given as (buffer, position, header).

    Frequent callers pass the same `scratch`, whose memory is reused.
    """
    if scratch is not None:
        scratch.clear()
    sections: list[Section] = []
    measured: list[tuple[int, ...]] = []
    rows = 0
    for buf, pos, header in batches:
        if from_offset is not None and header.last_offset < from_offset:
            continue
        plain, start, end = records_section(buf, pos, header, decompressed_bytes_max, scratch)
        count = header.records_count
        if count < 0:
            raise CorruptBatch(f"the batch at offset {header.base_offset} has a negative record count")
        reason, index, *column_sizes = kernel.measure(plain, start, end, count)
        if reason:
            where = f"record {index} of the batch at offset {header.base_offset}"
            raise CorruptBatch(f"{where}: {faults.TEXTS[reason]}")
        rows += count
        measured.append(tuple(column_sizes))
        sections.append(
            (
                plain,
                start,
                end,
                count,
                header.base_offset,
                header.base_timestamp,
                int(header.is_log_append_time),
                header.max_timestamp,
            )
        )
    sizes = [sum(column) for column in zip(*measured, strict=True)] or [0, 0, 0, 0, 0]
    if max(rows, *sizes) > COLUMN_BYTES_MAX:
        raise ValueError(
            f"{rows} records with {max(sizes)} bytes in a column exceed the limits of an Arrow batch"
        )
    batch = _decode(sections, rows, sizes)
    return batch if from_offset is None else _from_offset(batch, from_offset)


def _decode(sections: list[Section], rows: int, column_sizes: list[int]) -> pa.RecordBatch:
    key_bytes, value_bytes, header_rows, header_key_bytes, header_value_bytes = column_sizes
    bitmap_bytes = (rows + 7) // 8
    sizes = (
        *(rows * 8, rows * 8, rows * 4),
        *(bitmap_bytes, (rows + 1) * 4, key_bytes),
        *(bitmap_bytes, (rows + 1) * 4, value_bytes),
        (rows + 1) * 4,
        *((header_rows + 1) * 4, header_key_bytes),
        *((header_rows + 7) // 8, (header_rows + 1) * 4, header_value_bytes),
    )
    out: list[Any] = [pa.allocate_buffer(size) for size in sizes]
    done = kernel.decode(sections, rows, header_rows, [memoryview(buffer) for buffer in out])
    _, null_keys, null_values, _, null_header_values, ascii_keys = done

    def binary(count: int, first: int, nulls: int) -> pa.Array:
        validity = out[first] if nulls else None
        return pa.Array.from_buffers(pa.binary(), count, [validity, out[first + 1], out[first + 2]], nulls)

    header_keys = pa.Array.from_buffers(pa.string(), header_rows, [None, out[10], out[11]], 0)
    if not ascii_keys:
        header_keys = _valid_text(header_keys)
    header_fields = pa.StructArray.from_arrays(
        [header_keys, binary(header_rows, 12, null_header_values)], fields=list(HEADER_TYPE)
    )
    columns = [
        binary(rows, 3, null_keys),
        binary(rows, 6, null_values),
        pa.Array.from_buffers(pa.int64(), rows, [None, out[0]], 0),
        pa.Array.from_buffers(pa.timestamp("ms", tz="UTC"), rows, [None, out[1]], 0),
        pa.Array.from_buffers(pa.int32(), rows, [None, out[2]], 0),
        pa.Array.from_buffers(
            SCHEMA.field("headers").type, rows, [None, out[9]], 0, children=[header_fields]
        ),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _valid_text(keys: pa.Array) -> pa.Array:
    """Decode header keys. Invalid UTF-8 is replaced, as other clients do."""
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        raw = keys.view(pa.binary()).to_pylist()
        return pa.array([key.decode("utf-8", "replace") for key in raw], pa.string())
    return keys


def _from_offset(batch: pa.RecordBatch, from_offset: int) -> pa.RecordBatch:
    before = pc.sum(pc.less(batch.column("offset"), from_offset)).as_py() or 0
    if before == 0:
        return batch
    # Offsets increase within a partition, so earlier records are at the front.
    return batch.slice(before)


class LaidOut(NamedTuple):
    """Encoded records after space for a header, not yet compressed or sealed."""

    data: bytearray
    records_count: int
    base_timestamp: int
    max_timestamp: int


class RecordColumns:
    """The columns of records, looked up once, so that small batches are cheap.

    Columns: value, and optionally key, headers and timestamp, of the types in `SCHEMA` or types that Arrow
    casts to them (integers are milliseconds). A null or missing timestamp becomes `now_ms`.
    """

    __slots__ = ("_headers", "_key", "_timestamps", "_value")

    def __init__(self, rows: pa.RecordBatch, now_ms: int) -> None:
        self._timestamps = _timestamps(rows, now_ms)
        self._key, self._value = _binary_column(rows, "key"), _binary_column(rows, "value")
        self._headers = _header_columns(rows)

    def lay_out(self, start: int, stop: int, batch_bytes: int) -> Iterator[LaidOut]:
        """Encode the rows from `start` to `stop` in batches of at most `batch_bytes`, but at least one row
        each."""
        while start < stop:
            plain, end, base_timestamp, max_timestamp = kernel.encode(
                start,
                stop,
                *self._timestamps,
                self._key,
                self._value,
                *self._headers,
                HEADER_BYTES,
                batch_bytes,
            )
            yield LaidOut(plain, end - start, base_timestamp, max_timestamp)
            start = end


def arrow_to_batches(
    rows: pa.RecordBatch,
    now_ms: int,
    *,
    batch_bytes: int = 1 << 20,
    codec: int = 0,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> Iterator[bytearray]:
    """Encode rows as batches of at most `batch_bytes` before compression; a larger record gets its own batch.

    See `RecordColumns` for the columns.
    """
    for part in RecordColumns(rows, now_ms).lay_out(0, rows.num_rows, batch_bytes):
        yield finish_batch(
            compressed(part.data, codec, level),
            *part[1:],
            codec=codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )
        if base_sequence != NO_SEQUENCE:
            base_sequence = increment_sequence(base_sequence, part.records_count)


def arrow_to_batch(
    rows: pa.RecordBatch, now_ms: int, *, codec: int = 0, level: int | None = None
) -> bytearray:
    """Encode all rows, at least one, as a single batch."""
    batches = list(arrow_to_batches(rows, now_ms, batch_bytes=COLUMN_BYTES_MAX, codec=codec, level=level))
    if len(batches) != 1:
        raise ValueError(f"{rows.num_rows} rows need {len(batches)} batches")
    return batches[0]


def _timestamps(rows: pa.RecordBatch, now_ms: int) -> tuple[Any, int]:
    """Return (buffer, first index) of the timestamps as int64 milliseconds without nulls."""
    if "timestamp" in rows.schema.names:
        column = rows.column("timestamp")
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", tz=column.type.tz), safe=False)
        column = column.cast(pa.int64()).fill_null(now_ms)
    else:
        column = pa.repeat(pa.scalar(now_ms, pa.int64()), rows.num_rows)
    return memoryview(column.buffers()[1] or b""), column.offset


def _binary_column(rows: pa.RecordBatch, name: str) -> Column:
    if name in rows.schema.names:
        return _column(rows.column(name))
    if name == "key":
        return _column(pa.nulls(rows.num_rows, pa.binary()))
    raise ValueError(f"column {name!r} is missing; the columns are {rows.schema.names}")


def _column(array: pa.Array) -> Column:
    if array.type != pa.binary():
        array = array.cast(pa.binary())
    validity, offsets, data = array.buffers()
    return validity, offsets, data if data is not None else b"", array.offset, len(array)


def _header_columns(rows: pa.RecordBatch) -> tuple[Column, Column, Column]:
    none: Column = (None, None, None, 0, 0)
    if "headers" not in rows.schema.names or pa.types.is_null(rows.schema.field("headers").type):
        return none, none, none
    array = rows.column("headers")
    header_type = pa.list_(pa.struct([pa.field("key", pa.binary()), pa.field("value", pa.binary())]))
    if array.type != header_type:
        array = array.cast(header_type)
    validity, offsets = array.buffers()[:2]
    keys, values = array.values.flatten()
    return (validity, offsets, None, array.offset, len(array)), _column(keys), _column(values)
