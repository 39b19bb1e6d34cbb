"""Rows that no broker would accept: found before the others are sent; reported, or dead-lettered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.blocking.arrow_batch import shown_key
from ottla.client.errors import ClientError, broker_error
from ottla.protocol.errors import ErrorCode

HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
# What a dead letter keeps of a value that was too large for its topic, and so is for most.
KEPT_BYTES = 500_000
KEPT_KEY_BYTES = 10_000

# Why a row cannot be written: Kafka's error code and a text.
Fault = tuple[ErrorCode, str]


def faults_of(rows: pa.RecordBatch, partition_count: int, record_bytes_max: int) -> dict[int, Fault]:
    """The rows that cannot be written, by row number; almost always none, which is cheap to find out."""
    found: dict[int, Fault] = {}
    found.update(_partition_faults(rows, partition_count))
    found.update(_header_faults(rows))
    found.update(_size_faults(rows, record_bytes_max))
    return found


def _partition_faults(rows: pa.RecordBatch, partition_count: int) -> dict[int, Fault]:
    if "partition" not in rows.schema.names:
        return {}
    column = rows.column("partition")
    bounds = pc.min_max(column)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is None or (low >= 0 and high < partition_count):
        return {}
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return {
        row: (code, f"partition {number} does not exist; the topic has partitions 0 to {partition_count - 1}")
        for row, number in enumerate(column.to_pylist())
        if number is not None and not 0 <= number < partition_count
    }


def _header_faults(rows: pa.RecordBatch) -> dict[int, Fault]:
    if "headers" not in rows.schema.names or pa.types.is_null(rows.schema.field("headers").type):
        return {}
    column = rows.column("headers")
    headers = column.values
    if not headers.null_count and not headers.field("key").null_count:
        return {}
    return {
        row: (ErrorCode.INVALID_RECORD, "a header has no key")
        for row, listed in enumerate(column.to_pylist())
        if any(header is None or header["key"] is None for header in listed or ())
    }


def _size_faults(rows: pa.RecordBatch, record_bytes_max: int) -> dict[int, Fault]:
    lengths = [
        pc.binary_length(rows.column(name)).fill_null(0)
        for name in ("key", "value")
        if name in rows.schema.names
    ]
    if sum(pc.max(column).as_py() for column in lengths) <= record_bytes_max:
        return {}
    sizes = lengths[0].cast(pa.int64())
    for column in lengths[1:]:
        sizes = pc.add(sizes, column.cast(pa.int64()))
    return {
        row: (
            ErrorCode.MESSAGE_TOO_LARGE,
            f"it has {sizes[row].as_py()} bytes, more than the {record_bytes_max} that are allowed",
        )
        for row in pc.indices_nonzero(pc.greater(sizes, record_bytes_max)).to_pylist()
    }


def fault_error(topic: str, rows: pa.RecordBatch, faults: Mapping[int, Fault]) -> ClientError:
    """The error without a dead letter topic: the key of the first row, and how many more there are."""
    row, (code, reason) = min(faults.items())
    key = rows.column("key")[row].as_py() if "key" in rows.schema.names else None
    more = f" (and {len(faults) - 1} more like it)" if len(faults) > 1 else ""
    detail = f"the record with key {shown_key(key)} cannot be written: {reason}{more}"
    partition = None
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        partition = rows.column("partition")[row].as_py()
    return broker_error(code, topic=topic, partition=partition, detail=detail)


def dead_letters(topic: str | None, rows: pa.RecordBatch, reasons: Sequence[str]) -> pa.RecordBatch:
    """The rows as records of a dead letter topic.

    Their headers follow `topic`, `partition` (if the row has one) and `reason`, which say where the row was
    to be written and why it was not. What is too long is cut; the header `bytes` has the original size.
    """
    letters = []
    for row, reason in enumerate(reasons):
        values = {name: rows.column(name)[row].as_py() for name in rows.schema.names}
        key, value = values.get("key"), values.get("value")
        headers = [("topic", topic), ("partition", values.get("partition")), ("reason", reason)]
        size_bytes = len(key or b"") + len(value or b"")
        if size_bytes > KEPT_BYTES:
            headers.append(("bytes", size_bytes))
            key = None if key is None else key[:KEPT_KEY_BYTES]
            value = None if value is None else value[:KEPT_BYTES]
        letters.append(
            {
                "key": key,
                "value": value,
                "headers": [
                    *(
                        {"key": name, "value": str(text).encode()}
                        for name, text in headers
                        if text is not None
                    ),
                    *(
                        header
                        for header in values.get("headers") or ()
                        if header and header["key"] is not None
                    ),
                ],
            }
        )
    return pa.RecordBatch.from_pydict(
        {name: [letter[name] for letter in letters] for name in ("key", "value", "headers")},
        schema=pa.schema([("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS_TYPE)]),
    )
