"""Validation of produced batches by the leader, and the changes it makes to them.

How deep a batch is checked:

- Uncompressed: the compiled kernel checks every record. Without it only batches of up to
  `PURE_WALK_RECORDS_MAX` records are checked; for larger ones header and checksum suffice, so that a client
  cannot use seconds of CPU time with one request.
- Compressed: header and checksum suffice, because the stream is stored and sent unchanged.
- Both are decompressed and checked if the topic requires it: keys of a compacted topic, another codec, a
  lower limit for timestamps (the header has only the maximum), or a maximum that is too large, to name the
  records.

The limits and error codes are Kafka's, with two stricter rules: offset deltas other than 0..n-1 are rejected
rather than rewritten or ignored, and so are batches with LogAppendTime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.records import faults, kernel
from ottla.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_POS,
    BatchHeader,
    CorruptBatch,
    RecordsError,
    crc_ok,
    read_header,
    seal,
    set_max_timestamp,
)
from ottla.records.build import with_codec
from ottla.records.checksum import crc32c
from ottla.records.compression import CODEC_BY_NAME, ZSTD
from ottla.records.faults import INT64_MAX, INT64_MIN
from ottla.records.record import records_section

if TYPE_CHECKING:
    from ottla.records._pure import Walked
    from ottla.records.batch import Buffer, WritableBuffer

PURE_WALK_RECORDS_MAX = 100
DECOMPRESSED_BYTES_MAX_DEFAULT = 64 * 1024 * 1024
RECORD_ERRORS_SHOWN = 3


class AppendRules:
    """The rules of a topic for its records, created when its configuration changes."""

    __slots__ = (
        "after_max_ms",
        "before_max_ms",
        "compacted",
        "compression_level",
        "compression_type",
        "decompressed_bytes_max",
        "log_append_time",
        "max_message_bytes",
        "plain",
        "plain_bytes_max",
        "plain_codec",
        "segment_bytes",
        "target_codec",
        "timestamp_type",
    )

    def __init__(
        self,
        *,
        max_message_bytes: int = 1048588,
        compression_type: str = "producer",
        compression_level: int | None = None,
        timestamp_type: str = "CreateTime",
        before_max_ms: int = INT64_MAX,
        after_max_ms: int = 3600000,
        compacted: bool = False,
        segment_bytes: int = 1073741824,
        decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX_DEFAULT,
    ) -> None:
        assert timestamp_type in ("CreateTime", "LogAppendTime"), timestamp_type
        self.max_message_bytes = max_message_bytes
        self.compression_type = compression_type
        self.compression_level = compression_level
        self.timestamp_type = timestamp_type
        self.before_max_ms = before_max_ms
        self.after_max_ms = after_max_ms
        self.compacted = compacted
        self.segment_bytes = segment_bytes
        self.decompressed_bytes_max = decompressed_bytes_max
        self.log_append_time = timestamp_type == "LogAppendTime"
        self.target_codec = None if compression_type == "producer" else CODEC_BY_NAME[compression_type]
        # For the quick check: whether it applies, and its limits.
        self.plain = not (compacted or self.log_append_time) and before_max_ms == INT64_MAX
        self.plain_codec = -1 if self.target_codec is None else self.target_codec
        self.plain_bytes_max = min(max_message_bytes, segment_bytes)


class CheckedRecords:
    """A validated batch; the log still has to write its offsets and leader epoch."""

    __slots__ = ("buffer", "header", "log_append_time_ms")

    def __init__(self, buffer: WritableBuffer, header: BatchHeader, log_append_time_ms: int) -> None:
        self.buffer = buffer
        self.header = header
        self.log_append_time_ms = log_append_time_ms  # -1: the producer's timestamps are kept


def check_produce(buf: Buffer, rules: AppendRules, now_ms: int) -> CheckedRecords:
    """Check the records of one partition of a produce request.

    The result shares the memory of `buf`, changed in place if necessary (timestamps), unless it is read-only
    or the topic requires another codec. Raises RecordsError.
    """
    copied = isinstance(buf, bytes) or (isinstance(buf, memoryview) and buf.readonly)
    buffer: WritableBuffer = bytearray(buf) if copied else buf  # type: ignore[assignment]
    if rules.plain:
        high_ms = min(now_ms + rules.after_max_ms, INT64_MAX)
        fields = kernel.quick_check(buffer, rules.plain_bytes_max, rules.plain_codec, high_ms, crc32c)
        if fields is not None:
            return CheckedRecords(buffer, tuple.__new__(BatchHeader, fields), -1)
    return _check_closely(buffer, rules, now_ms)


def _check_closely(buffer: WritableBuffer, rules: AppendRules, now_ms: int) -> CheckedRecords:
    """Do all checks, apply the topic's changes, and report precisely what is invalid."""
    header = _read_single_header(buffer, rules)
    _check_header(header)
    codec = header.attributes & CODEC_MASK
    target_codec = rules.target_codec
    recompress = target_codec is not None and target_codec != codec
    if rules.log_append_time:
        low_ms, high_ms = INT64_MIN, INT64_MAX
    else:
        low_ms = (
            INT64_MIN if rules.before_max_ms == INT64_MAX else max(now_ms - rules.before_max_ms, INT64_MIN)
        )
        high_ms = min(now_ms + rules.after_max_ms, INT64_MAX)
    max_timestamp = header.max_timestamp
    if (
        rules.compacted
        or low_ms != INT64_MIN
        or max_timestamp > high_ms
        or (codec == 0 and (kernel.COMPILED or header.records_count <= PURE_WALK_RECORDS_MAX))
        or (codec != 0 and recompress)
    ):
        plain, start, end = records_section(buffer, 0, header, rules.decompressed_bytes_max)
        walked = kernel.walk(
            plain, start, end, header.records_count, header.base_timestamp, low_ms, high_ms, rules.compacted
        )
        if walked[0] or walked[7] is not None:
            raise _records_refused(walked, low_ms, high_ms)
        max_timestamp = walked[3]
    else:
        plain, start, end = buffer, HEADER_BYTES, len(buffer)

    if rules.log_append_time:
        max_timestamp = now_ms
    if recompress:
        assert target_codec is not None
        buffer, header = _recompressed(
            memoryview(plain)[start:end], header, target_codec, max_timestamp, rules
        )
    elif rules.log_append_time or max_timestamp != header[8]:
        header = set_max_timestamp(buffer, 0, header, max_timestamp, log_append_time=rules.log_append_time)
    if len(buffer) > rules.segment_bytes:
        raise RecordsError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"The batch of {len(buffer)} bytes is larger than a segment of {rules.segment_bytes}",
        )
    return CheckedRecords(buffer, header, now_ms if rules.log_append_time else -1)


def _invalid(message: str) -> RecordsError:
    return RecordsError(ErrorCode.INVALID_RECORD, message)


def _read_single_header(buffer: WritableBuffer, rules: AppendRules) -> BatchHeader:
    """Return the verified header of the single batch that a produce request contains per partition."""
    length = len(buffer)
    if length > MAGIC_POS and buffer[MAGIC_POS] != MAGIC:
        magic = buffer[MAGIC_POS]
        if magic > MAGIC:
            raise RecordsError(ErrorCode.CORRUPT_MESSAGE, f"Unknown magic {magic}")
        raise _invalid(f"Batches must have magic 2; this one has {magic}")
    if length < HEADER_BYTES:
        raise _invalid("There must be exactly one record batch per partition, but there is none")
    try:
        header = read_header(buffer)
    except CorruptBatch as error:
        raise RecordsError(ErrorCode.CORRUPT_MESSAGE, f"The batch is corrupt: {error}") from None
    size_bytes = header.batch_length + LENGTH_PREFIX_BYTES
    if size_bytes > length:
        raise _invalid(f"The batch should have {size_bytes} bytes, but has only {length}")
    if size_bytes > rules.max_message_bytes:
        raise _too_large(size_bytes, rules)
    if size_bytes < length:
        raise _invalid("There must be exactly one record batch per partition, but there are more")
    if not crc_ok(buffer, 0, header):
        raise RecordsError(ErrorCode.CORRUPT_MESSAGE, "The batch is corrupt: its checksum does not match")
    return header


def _too_large(size_bytes: int, rules: AppendRules) -> RecordsError:
    return RecordsError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The batch has {size_bytes} bytes; max.message.bytes is {rules.max_message_bytes}",
    )


def _check_header(header: BatchHeader) -> None:
    count = header.records_count
    attributes = header.attributes
    if header.base_offset != 0:
        raise _invalid(f"The base offset of a produced batch must be 0, not {header.base_offset}")
    if count <= 0:
        raise _invalid(f"The batch claims {count} records")
    if header.last_offset_delta != count - 1:
        raise _invalid(f"Last offset delta {header.last_offset_delta} does not match {count} records")
    if attributes & (CODEC_MASK | LOG_APPEND_TIME_BIT | CONTROL_BIT | DELETE_HORIZON_BIT):
        if attributes & CODEC_MASK > ZSTD:
            code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
            raise RecordsError(code, f"Unknown compression codec {header.codec}")
        if attributes & CONTROL_BIT:
            raise _invalid("Clients may not write control batches")
        if attributes & LOG_APPEND_TIME_BIT:
            raise RecordsError(ErrorCode.INVALID_TIMESTAMP, "Producers may not set LogAppendTime")
        if attributes & DELETE_HORIZON_BIT:
            raise _invalid("Clients may not set a delete horizon")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise _invalid(f"Invalid sequence {header.base_sequence} for producer id {header.producer_id}")


def _records_refused(walked: Walked, low_ms: int, high_ms: int) -> RecordsError:
    reason, index, _, _, _, null_keys, bad_timestamps, errors = walked
    if reason:
        text = faults.TEXTS[reason]
        if reason == faults.TRAILING_BYTES:
            return _invalid(f"The batch is malformed: {text}")
        return RecordsError(
            ErrorCode.INVALID_RECORD, f"Record {index} is malformed: {text}", [(index, f"Malformed: {text}")]
        )
    assert errors
    record_errors = [
        (index, _record_error_text(kind, timestamp, low_ms, high_ms)) for index, kind, timestamp in errors
    ]
    if bad_timestamps:
        return RecordsError(
            ErrorCode.INVALID_TIMESTAMP,
            f"{bad_timestamps} records have a timestamp outside the allowed range",
            record_errors,
        )
    shown = "; ".join([f"record {index}: {text}" for index, text in record_errors[:RECORD_ERRORS_SHOWN]])
    return RecordsError(ErrorCode.INVALID_RECORD, f"{null_keys} records have no key: {shown}", record_errors)


def _record_error_text(kind: int, timestamp: int, low_ms: int, high_ms: int) -> str:
    if kind == faults.NULL_KEY:
        return "A compacted topic does not accept a record without a key"
    low = "any" if low_ms == INT64_MIN else str(low_ms)
    return f"Timestamp {timestamp} is outside [{low}, {high_ms}]"


def _recompressed(
    records: memoryview, header: BatchHeader, codec: int, max_timestamp: int, rules: AppendRules
) -> tuple[bytearray, BatchHeader]:
    """Return the batch with its records compressed by the topic's codec."""
    buffer = with_codec(records, codec, rules.compression_level)
    if len(buffer) > rules.max_message_bytes:
        raise _too_large(len(buffer), rules)
    attributes = header.attributes & ~CODEC_MASK | codec
    if rules.log_append_time:
        attributes |= LOG_APPEND_TIME_BIT
    return buffer, seal(buffer, header._replace(attributes=attributes, max_timestamp=max_timestamp))
