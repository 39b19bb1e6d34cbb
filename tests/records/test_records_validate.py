"""Validation of produced batches: what the leader rejects and what it changes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode
from ottla.records import compression, kernel, validate
from ottla.records.batch import (
    HEADER_BYTES,
    RecordsError,
    compute_crc,
    crc_ok,
    read_header,
    seal,
)
from ottla.records.build import build_batch, finish_batch
from ottla.records.checksum import crc32c
from ottla.records.faults import INT64_MAX, RECORD_ERRORS_MAX
from ottla.records.record import iter_records
from ottla.records.validate import AppendRules, check_produce

NOW = 1_700_000_000_000
HOUR = 3_600_000
RULES = AppendRules()
ROWS = [(NOW, b"a", b"1", ()), (NOW + 5, b"b", None, (("h", b"x"),)), (NOW - 5, b"c", b"3", ())]


def refused(buf, rules: AppendRules = RULES, now_ms: int = NOW) -> RecordsError:
    with pytest.raises(RecordsError) as caught:
        check_produce(buf, rules, now_ms)
    return caught.value


def changed(buf: bytearray, **fields: int) -> bytearray:
    """The batch with other header fields and a valid checksum."""
    copy = bytearray(buf)
    seal(copy, read_header(copy)._replace(**fields))
    return copy


def with_records(section: bytes, count: int) -> bytearray:
    return finish_batch(bytearray(HEADER_BYTES) + section, count, NOW, NOW)


def values_of(checked) -> list[bytes | None]:
    return [record.value for record in iter_records(checked.buffer, 0, checked.header)]


def test_a_valid_batch_is_unchanged(each_kernel):
    for codec in range(5):
        buf = build_batch(ROWS, codec=codec, producer_id=5, producer_epoch=0, base_sequence=0)
        before = bytes(buf)
        checked = check_produce(buf, RULES, NOW)
        assert checked.buffer is buf
        assert buf == before
        assert checked.header == read_header(buf)
        assert checked.header.max_timestamp == NOW + 5
        assert checked.log_append_time_ms == -1


def test_views_are_used_in_place_and_read_only_ones_copied(each_kernel):
    whole = bytearray(b"frame") + build_batch(ROWS)
    view = memoryview(whole)[5:]
    assert check_produce(view, RULES, NOW).buffer is view
    for read_only in (bytes(view), memoryview(bytes(view))):
        checked = check_produce(read_only, RULES, NOW)
        assert isinstance(checked.buffer, bytearray)
        assert checked.buffer == view


def test_checksum(each_kernel):
    buf = build_batch(ROWS)
    buf[-1] ^= 1
    assert refused(buf).code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(("magic", "code"), [(0, 87), (1, 87), (3, 2), (255, 2)])
def test_magic(magic, code):
    buf = build_batch(ROWS)
    buf[16] = magic
    assert refused(buf).code == code
    # A message of the old format may be shorter than a batch header.
    assert refused(buf[:40]).code == code


def test_exactly_one_batch():
    buf = build_batch(ROWS)
    assert refused(buf + buf).code == ErrorCode.INVALID_RECORD
    assert refused(buf + b"\0").code == ErrorCode.INVALID_RECORD
    assert refused(b"").code == ErrorCode.INVALID_RECORD
    assert refused(buf[:16]).code == ErrorCode.INVALID_RECORD
    assert refused(buf[:60]).code == ErrorCode.INVALID_RECORD
    assert refused(buf[:-1]).code == ErrorCode.INVALID_RECORD
    for length in (0, 48, -1, -(1 << 31)):
        struct.pack_into(">i", buf, 8, length)
        assert refused(buf).code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    "fields",
    [
        {"base_offset": 1},
        {"records_count": 0, "last_offset_delta": -1},
        {"records_count": -1, "last_offset_delta": -2},
        {"records_count": 2},
        {"last_offset_delta": 3},
        {"records_count": 2, "last_offset_delta": 1},
        {"records_count": 4, "last_offset_delta": 3},
        {"records_count": 0x7FFFFFFF, "last_offset_delta": 0x7FFFFFFE},
        {"attributes": 0x20},
        {"attributes": 0x40},
        {"producer_id": 7},
        {"producer_id": 7, "base_sequence": -2},
    ],
    ids=str,
)
def test_header_fields(fields):
    if not kernel.COMPILED and fields.get("records_count") == 0x7FFFFFFF:
        pytest.skip("large batches are not walked without the compiled kernel")
    assert refused(changed(build_batch(ROWS), **fields)).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs(codec):
    assert (
        refused(changed(build_batch(ROWS), attributes=codec)).code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    )


def test_producers_do_not_set_append_time():
    buf = build_batch(ROWS, log_append_time_ms=NOW)
    for rules in (RULES, AppendRules(timestamp_type="LogAppendTime")):
        assert refused(buf, rules).code == ErrorCode.INVALID_TIMESTAMP


def test_errors_name_malformed_records(each_kernel):
    good = bytes(build_batch(ROWS[:1])[HEADER_BYTES:])
    error = refused(with_records(good + good, 2))
    assert error.code == ErrorCode.INVALID_RECORD
    assert error.record_errors == [(1, "Malformed: the record's offset delta is not its index in the batch")]
    assert "offset delta" in error.message
    error = refused(with_records(good + b"\0", 1))
    assert (error.code, error.record_errors) == (ErrorCode.INVALID_RECORD, [])
    null_header_key = bytes([16, 0, 0, 0, 1, 1, 2, 1, 1])
    assert refused(with_records(null_header_key, 1)).code == ErrorCode.INVALID_RECORD


def test_size_limits(each_kernel):
    buf = build_batch(ROWS)
    assert check_produce(buf, AppendRules(max_message_bytes=len(buf)), NOW)
    assert refused(buf, AppendRules(max_message_bytes=len(buf) - 1)).code == ErrorCode.MESSAGE_TOO_LARGE
    assert check_produce(buf, AppendRules(segment_bytes=len(buf)), NOW)
    assert refused(buf, AppendRules(segment_bytes=len(buf) - 1)).code == ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize("codec", range(5))
def test_compacted_topics_need_keys(each_kernel, codec):
    rules = AppendRules(compacted=True)
    assert check_produce(build_batch(ROWS, codec=codec), rules, NOW)
    rows = [(NOW, b"", b"1", ()), (NOW, None, b"2", ()), (NOW, b"k", b"3", ()), (NOW, None, None, ())]
    error = refused(build_batch(rows, codec=codec), rules)
    assert error.code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in error.record_errors] == [1, 3]
    assert "key" in error.record_errors[0][1]
    assert check_produce(build_batch(rows, codec=codec), RULES, NOW)


def test_record_errors_are_bounded(each_kernel):
    error = refused(build_batch([(NOW, None, b"v", ())] * 1000), AppendRules(compacted=True))
    assert len(error.record_errors) == RECORD_ERRORS_MAX
    assert "1000 records" in error.message


@pytest.mark.parametrize("codec", range(5))
def test_timestamp_window(each_kernel, codec):
    def rows(*timestamps):
        return build_batch([(timestamp, None, b"v", ()) for timestamp in timestamps], codec=codec)

    assert check_produce(rows(NOW + HOUR, 0), RULES, NOW)
    error = refused(rows(NOW, NOW + HOUR + 1, NOW), RULES)
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert error.record_errors[0][0] == 1
    assert str(NOW + HOUR + 1) in error.record_errors[0][1]

    bounded = AppendRules(before_max_ms=HOUR, after_max_ms=0)
    assert check_produce(rows(NOW, NOW - HOUR, -1), bounded, NOW)
    error = refused(rows(NOW, NOW - HOUR - 1, NOW + 1, NOW), bounded)
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [1, 2]


def test_timestamp_errors_take_precedence_over_missing_keys(each_kernel):
    rows = [(NOW, None, b"v", ()), (NOW + 2 * HOUR, b"k", b"v", ()), (NOW + 2 * HOUR, None, b"v", ())]
    error = refused(build_batch(rows), AppendRules(compacted=True))
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert [(index, "key" in text) for index, text in error.record_errors] == [
        (0, True),
        (1, False),
        (2, True),
    ]


def test_unbounded_timestamp_windows_do_not_overflow(each_kernel):
    rules = AppendRules(before_max_ms=INT64_MAX, after_max_ms=INT64_MAX)
    assert check_produce(build_batch([(INT64_MAX, None, None, ()), (-(1 << 63), None, None, ())]), rules, NOW)
    rules = AppendRules(before_max_ms=INT64_MAX - 1, after_max_ms=INT64_MAX - 1)
    assert check_produce(build_batch([(INT64_MAX, None, None, ())]), rules, NOW)


@pytest.mark.parametrize("codec", range(5))
def test_a_wrong_max_timestamp_is_corrected_when_records_are_read(each_kernel, codec):
    buf = changed(build_batch(ROWS, codec=codec), max_timestamp=NOW + 1)
    checked = check_produce(buf, AppendRules(compacted=True), NOW)
    assert checked.header.max_timestamp == NOW + 5
    assert read_header(buf).max_timestamp == NOW + 5
    assert crc_ok(buf, 0, read_header(buf))
    # A maximum in the future that no record has only causes a check of the records.
    buf = changed(build_batch(ROWS, codec=codec), max_timestamp=NOW + 5 * HOUR)
    assert check_produce(buf, RULES, NOW).header.max_timestamp == NOW + 5


@pytest.mark.parametrize("codec", range(5))
def test_append_time(each_kernel, codec):
    rules = AppendRules(timestamp_type="LogAppendTime", before_max_ms=0, after_max_ms=0)
    buf = build_batch([(17, b"a", b"1", ()), (NOW + 9 * HOUR, b"b", b"2", ())], codec=codec)
    checked = check_produce(buf, rules, NOW)
    assert checked.buffer is buf
    header = read_header(buf)
    assert checked.header == header
    assert crc_ok(buf, 0, header)
    assert header.is_log_append_time
    assert (header.max_timestamp, checked.log_append_time_ms) == (NOW, NOW)
    assert {record.timestamp for record in iter_records(buf, 0, header)} == {NOW}


@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("source", range(5))
def test_compression_of_the_topic(source, target, timestamp_type):
    rules = AppendRules(compression_type=target, timestamp_type=timestamp_type)
    buf = build_batch(
        ROWS, codec=source, producer_id=3, producer_epoch=1, base_sequence=10, transactional=True
    )
    before = read_header(buf)
    checked = check_produce(buf, rules, NOW)
    header = read_header(checked.buffer)
    assert header.codec == compression.CODEC_BY_NAME[target]
    assert (checked.buffer is buf) == (header.codec == source)
    assert checked.header == header
    assert crc_ok(checked.buffer, 0, header)
    assert values_of(checked) == [b"1", None, b"3"]
    append_time = timestamp_type == "LogAppendTime"
    assert header.is_log_append_time == append_time
    assert header.max_timestamp == (NOW if append_time else NOW + 5)
    kept = (
        "base_timestamp",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "records_count",
        "is_transactional",
    )
    assert [getattr(header, name) for name in kept] == [getattr(before, name) for name in kept]


def test_level_of_the_topic():
    noisy = b"".join(struct.pack(">d", number**0.5) for number in range(5000))
    buf = build_batch([(NOW, None, noisy, ())])
    fast = check_produce(buf, AppendRules(compression_type="zstd", compression_level=1), NOW)
    slow = check_produce(buf, AppendRules(compression_type="zstd", compression_level=19), NOW)
    assert len(slow.buffer) < len(fast.buffer)


def test_size_is_checked_again_after_recompression():
    buf = build_batch([(NOW, None, bytes(100_000), ())], codec=4)
    rules = AppendRules(compression_type="uncompressed", max_message_bytes=50_000)
    assert refused(buf, rules).code == ErrorCode.MESSAGE_TOO_LARGE


def test_decompression_is_bounded(each_kernel):
    buf = build_batch([(NOW, b"k", bytes(100_000), ())], codec=4)
    assert check_produce(buf, AppendRules(decompressed_bytes_max=50_000), NOW)
    rules = AppendRules(decompressed_bytes_max=50_000, compacted=True)
    assert refused(buf, rules).code == ErrorCode.MESSAGE_TOO_LARGE


def test_invalid_compressed_data_is_detected_when_records_are_read(each_kernel):
    buf = bytearray(HEADER_BYTES) + b"this is not gzip"
    seal(buf, read_header(build_batch(ROWS, codec=1)))
    assert check_produce(buf, RULES, NOW)
    for rules in (AppendRules(compacted=True), AppendRules(compression_type="zstd")):
        assert refused(buf, rules).code == ErrorCode.INVALID_RECORD


def test_large_batches_pass_by_header_without_the_compiled_kernel(monkeypatch):
    good = bytes(build_batch(ROWS[:1])[HEADER_BYTES:])
    for count in (validate.PURE_WALK_RECORDS_MAX, validate.PURE_WALK_RECORDS_MAX + 1):
        buf = with_records(good * count, count)
        monkeypatch.setattr(kernel, "COMPILED", True)
        assert refused(buf).code == ErrorCode.INVALID_RECORD
        monkeypatch.setattr(kernel, "COMPILED", False)
        if count > validate.PURE_WALK_RECORDS_MAX:
            assert check_produce(buf, RULES, NOW).header.records_count == count
        else:
            assert refused(buf).code == ErrorCode.INVALID_RECORD
        assert refused(buf, AppendRules(compacted=True)).code == ErrorCode.INVALID_RECORD


ALL_RULES = [
    RULES,
    AppendRules(compacted=True, before_max_ms=HOUR),
    AppendRules(timestamp_type="LogAppendTime", compression_type="lz4"),
    AppendRules(compression_type="uncompressed", decompressed_bytes_max=5000),
]


@given(
    st.integers(0, 4),
    st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=3),
    st.booleans(),
    st.sampled_from(ALL_RULES),
)
def test_mutated_batches_are_accepted_unchanged_or_rejected(codec, changes, fix_checksum, rules):
    buf = build_batch(ROWS, codec=codec, producer_id=1, producer_epoch=0, base_sequence=0)
    for place, byte in changes:
        buf[place % len(buf)] = byte
    if fix_checksum:
        struct.pack_into(">I", buf, 17, compute_crc(buf, 0, len(buf)))
    try:
        checked = check_produce(buf, rules, NOW)
    except RecordsError as error:
        assert error.message
        return
    header = checked.header
    assert header == read_header(checked.buffer)
    assert header.size_bytes == len(checked.buffer)
    assert crc_ok(checked.buffer, 0, header)
    if header.codec == 0:
        assert len(list(iter_records(checked.buffer, 0, header))) == header.records_count


@given(st.binary(max_size=200))
def test_random_bytes_are_rejected(data):
    with pytest.raises(RecordsError):
        check_produce(data, RULES, NOW)


@pytest.mark.skipif(not kernel.COMPILED, reason="the compiled kernel is not built")
@given(
    st.integers(0, 4),
    st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=3),
    st.booleans(),
    st.sampled_from([RULES, AppendRules(compression_type="lz4"), AppendRules(max_message_bytes=120)]),
)
def test_the_quick_check_accepts_only_what_the_full_check_accepts_unchanged(
    codec, changes, fix_checksum, rules
):
    buf = build_batch(ROWS, codec=codec, producer_id=1, producer_epoch=0, base_sequence=0)
    for place, byte in changes:
        buf[place % len(buf)] = byte
    if fix_checksum:
        struct.pack_into(">I", buf, 17, compute_crc(buf, 0, len(buf)))
    fields = kernel.quick_check(
        buf, rules.plain_bytes_max, rules.plain_codec, NOW + rules.after_max_ms, crc32c
    )
    if fields is not None:
        before = bytes(buf)
        closely = validate._check_closely(buf, rules, NOW)
        assert closely.buffer is buf and buf == before
        assert closely.header == fields


@pytest.mark.skipif(not kernel.COMPILED, reason="the compiled kernel is not built")
def test_the_quick_check_accepts_the_common_case():
    for codec in range(5):
        buf = build_batch(ROWS, codec=codec, producer_id=1 << 40, producer_epoch=32767, base_sequence=7)
        fields = kernel.quick_check(buf, RULES.plain_bytes_max, -1, NOW + HOUR, crc32c)
        assert fields == read_header(buf)
