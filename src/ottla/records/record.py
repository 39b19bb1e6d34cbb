"""Records as Python objects, for coordinators, tools and tests; not used on the produce path."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.records import faults, kernel
from ottla.records.batch import HEADER_BYTES, Buffer, CorruptBatch
from ottla.records.compression import decompress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.records.batch import BatchHeader
    from ottla.records.compression import Scratch

# The limit for one stored batch, which was checked when it was written: protects against accidents only.
DECOMPRESSED_BYTES_MAX = 1 << 30


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def records_section(
    buf: Buffer,
    pos: int,
    header: BatchHeader,
    limit_bytes: int = DECOMPRESSED_BYTES_MAX,
    scratch: Scratch | None = None,
) -> tuple[Buffer, int, int]:
    """Return (buffer, start, end) of the uncompressed records of the batch at `pos`."""
    start = pos + HEADER_BYTES
    end = pos + header.size_bytes
    if end > len(buf):
        raise CorruptBatch(
            f"the batch has {header.size_bytes} bytes, but only {len(buf) - pos} are available"
        )
    if header.codec == 0:
        return buf, start, end
    plain = decompress(header.codec, memoryview(buf)[start:end], limit_bytes, scratch)
    return plain, 0, len(plain)


def iter_records(
    buf: Buffer, pos: int, header: BatchHeader, limit_bytes: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Record]:
    """Yield the records of a batch. Raises CorruptBatch at the first faulty record."""
    plain, start, end = records_section(buf, pos, header, limit_bytes)
    append_timestamp = header.max_timestamp if header.is_log_append_time else None
    reason, index, records = kernel.split(
        plain, start, end, header.records_count, header.base_offset, header.base_timestamp, append_timestamp
    )
    for record in records:
        yield tuple.__new__(Record, record)
    if reason:
        raise CorruptBatch(
            f"record {index} of the batch at offset {header.base_offset}: {faults.TEXTS[reason]}"
        )
