"""Build a record batch from Python values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.records import kernel
from ottla.records.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    seal,
)
from ottla.records.compression import compress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.records._pure import NewRecord
    from ottla.records.batch import Buffer


def build_batch(
    records: Sequence[NewRecord],
    *,
    base_offset: int = 0,
    codec: int = 0,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    leader_epoch: int = NO_LEADER_EPOCH,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
) -> bytearray:
    """Build a batch from (timestamp ms, key, value, headers) tuples."""
    if not records:
        raise ValueError("a batch must contain at least one record")
    plain, base_timestamp, max_timestamp = kernel.pack(records, HEADER_BYTES)
    return finish_batch(
        compressed(plain, codec, level),
        len(records),
        base_timestamp,
        max_timestamp,
        base_offset=base_offset,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        leader_epoch=leader_epoch,
        transactional=transactional,
        control=control,
        log_append_time_ms=log_append_time_ms,
    )


def finish_batch(
    batch: bytearray,
    records_count: int,
    base_timestamp: int,
    max_timestamp: int,
    *,
    base_offset: int = 0,
    codec: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    leader_epoch: int = NO_LEADER_EPOCH,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
) -> bytearray:
    """Write the header and checksum in front of records that are already compressed, if at all."""
    attributes = codec
    if transactional:
        attributes |= TRANSACTIONAL_BIT
    if control:
        attributes |= CONTROL_BIT
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME_BIT
        max_timestamp = log_append_time_ms
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=records_count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=records_count,
    )
    seal(batch, header)
    return batch


def compressed(plain: bytearray, codec: int, level: int | None = None) -> bytearray:
    """Compress records that are encoded after space for a header; without a codec they are unchanged."""
    return plain if codec == 0 else with_codec(memoryview(plain)[HEADER_BYTES:], codec, level)


def with_codec(records: Buffer, codec: int, level: int | None = None) -> bytearray:
    """Return a buffer with space for a header, followed by the compressed records."""
    batch = bytearray(HEADER_BYTES)
    batch += compress(codec, records, level)
    return batch
