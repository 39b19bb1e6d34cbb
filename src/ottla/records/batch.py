"""The record batch header, which the broker reads of every batch, and the errors of this package.

Offsets into the batch, all integers big-endian:

    0  base offset     8  batch length   12  leader epoch   16  magic (2)   17  CRC-32C
    21 attributes      23 last offset delta                 27  base timestamp   35  max timestamp
    43 producer id     51 producer epoch                    53  base sequence    57  records count

Records begin at 61. The checksum covers everything from the attributes on, so the leader may write base
offset and leader epoch in place.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ottla.records.checksum import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.protocol.errors import ErrorCode

Buffer: TypeAlias = "bytes | bytearray | memoryview"
WritableBuffer: TypeAlias = "bytearray | memoryview"

MAGIC = 2
HEADER_BYTES = 61
LENGTH_PREFIX_BYTES = 12
BATCH_LENGTH_MIN = HEADER_BYTES - LENGTH_PREFIX_BYTES
MAGIC_POS = 16
CRC_POS = 17
ATTRIBUTES_POS = 21
MAX_TIMESTAMP_POS = 35
PRODUCER_ID_POS = 43

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1
SEQUENCE_MAX = 0x7FFFFFFF

HEADER = struct.Struct(">qiibIhiqqqhii")
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_TIMESTAMP = struct.Struct(">q")
assert HEADER.size == HEADER_BYTES


class CorruptBatch(ValueError):
    """The bytes are not a record batch, or its checksum does not match."""


class RecordsError(Exception):
    """Records that must be rejected: the error code for the client, and the errors of single records."""

    def __init__(
        self, code: ErrorCode, message: str, record_errors: list[tuple[int, str]] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.record_errors: list[tuple[int, str]] = record_errors or []

    def __repr__(self) -> str:
        return f"RecordsError({self.code!r}, {self.message!r}, {self.record_errors!r})"


class BatchHeader(NamedTuple):
    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_bytes(self) -> int:
        return self.batch_length + LENGTH_PREFIX_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME_BIT != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_producer(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the tombstones of this batch may be removed; the cleaner stores it as the base timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None


def increment_sequence(sequence: int, by: int) -> int:
    """Add to a sequence number, which wraps from the largest int32 to 0."""
    return (sequence + by) & SEQUENCE_MAX


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Read the header at `pos`; the buffer need not contain the records."""
    if pos < 0 or len(buf) - pos < HEADER_BYTES:
        raise CorruptBatch(f"{max(len(buf) - pos, 0)} bytes are less than a batch header of {HEADER_BYTES}")
    header = tuple.__new__(BatchHeader, HEADER.unpack_from(buf, pos))
    if header.magic != MAGIC:
        raise CorruptBatch(f"magic {header.magic} is not {MAGIC}")
    if header.batch_length < BATCH_LENGTH_MIN:
        raise CorruptBatch(f"batch length {header.batch_length} is less than the header's {BATCH_LENGTH_MIN}")
    return header


def compute_crc(buf: Buffer, pos: int, size_bytes: int) -> int:
    return crc32c(memoryview(buf)[pos + ATTRIBUTES_POS : pos + size_bytes])


def crc_ok(buf: Buffer, pos: int, header: BatchHeader) -> bool:
    """Whether the whole batch is in the buffer and its checksum matches."""
    end = pos + header.batch_length + LENGTH_PREFIX_BYTES
    return end <= len(buf) and crc32c(memoryview(buf)[pos + ATTRIBUTES_POS : end]) == header.crc


def stamp(buf: WritableBuffer, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Write the fields that the leader assigns; the checksum does not cover them."""
    _OFFSET.pack_into(buf, pos, base_offset)
    _EPOCH.pack_into(buf, pos + 12, leader_epoch)


def set_max_timestamp(
    buf: WritableBuffer, pos: int, header: BatchHeader, max_timestamp: int, *, log_append_time: bool
) -> BatchHeader:
    """Write the maximum timestamp and timestamp type, and update the checksum; return the new header."""
    attributes = header.attributes & ~LOG_APPEND_TIME_BIT
    if log_append_time:
        attributes |= LOG_APPEND_TIME_BIT
    _ATTRIBUTES.pack_into(buf, pos + ATTRIBUTES_POS, attributes)
    _TIMESTAMP.pack_into(buf, pos + MAX_TIMESTAMP_POS, max_timestamp)
    crc = compute_crc(buf, pos, header.size_bytes)
    _CRC.pack_into(buf, pos + CRC_POS, crc)
    return header._replace(attributes=attributes, max_timestamp=max_timestamp, crc=crc)


def seal(buf: WritableBuffer, header: BatchHeader) -> BatchHeader:
    """Write `header` before the records that are already in `buf`, with their length and checksum."""
    length = len(buf) - LENGTH_PREFIX_BYTES
    HEADER.pack_into(buf, 0, header.base_offset, length, *header[2:])
    crc = compute_crc(buf, 0, len(buf))
    _CRC.pack_into(buf, CRC_POS, crc)
    return tuple.__new__(BatchHeader, (header.base_offset, length, *header[2:4], crc, *header[5:]))


def iter_headers(buf: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each whole batch.

    An incomplete batch at the end, as in a truncated fetch response, is skipped: compare the last position +
    size with the length to detect it. Raises CorruptBatch for an invalid header.
    """
    pos = 0
    length = len(buf)
    while length - pos >= HEADER_BYTES:
        header = read_header(buf, pos)
        end = pos + header.batch_length + LENGTH_PREFIX_BYTES
        if end > length:
            return
        yield pos, header
        pos = end
