"""The batch header, its checksum, building and reading back."""

from __future__ import annotations

import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records import batch as batch_module
from ottla.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    CorruptBatch,
    crc_ok,
    increment_sequence,
    iter_headers,
    read_header,
    set_max_timestamp,
    stamp,
)
from ottla.records.build import build_batch
from ottla.records.checksum import crc32c
from ottla.records.record import Record, iter_records


def by_hand() -> bytearray:
    record = bytes([14, 0, 0, 0, 1, 2, 0x76, 0])
    body = struct.pack(">hiqqqhii", 0, 0, 1000, 1000, -1, -1, -1, 1) + record
    return bytearray(struct.pack(">qiibI", 7, 9 + len(body), 3, 2, crc32c(body)) + body)


def test_checksum_is_castagnoli():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"6789", crc32c(b"12345")) == 0xE3069283


def test_importing_the_package_is_cheap():
    code = (
        "import sys, ottla.records.validate, ottla.records.control\n"
        "print([m for m in ('importlib.metadata', 'pyarrow', 'cramjam', 'crc32c') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_build_writes_the_documented_layout(each_kernel):
    assert build_batch([(1000, None, b"v", ())], base_offset=7, leader_epoch=3) == by_hand()


def test_header_fields():
    buf = build_batch(
        [(50, b"k", b"v", ()), (40, None, None, (("h", b"x"),))],
        base_offset=100,
        producer_id=9,
        producer_epoch=2,
        base_sequence=0x7FFFFFFF,
        leader_epoch=5,
        transactional=True,
        codec=1,
    )
    header = read_header(buf)
    assert header.size_bytes == len(buf)
    assert header.batch_length == len(buf) - 12
    assert (header.base_offset, header.last_offset, header.next_offset) == (100, 101, 102)
    assert (header.base_timestamp, header.max_timestamp) == (50, 50)
    assert header.codec == 1
    assert header.is_transactional
    assert not header.is_control
    assert not header.is_log_append_time
    assert header.has_producer
    assert header.last_sequence == 0
    assert header.leader_epoch == 5
    assert header.delete_horizon_ms is None
    assert header._replace(attributes=0x40).delete_horizon_ms == 50
    assert crc_ok(buf, 0, header)


def test_no_sequence_has_no_last_sequence():
    assert read_header(by_hand()).last_sequence == -1
    assert not read_header(by_hand()).has_producer


@given(st.integers(0, 0x7FFFFFFF), st.integers(0, 0x7FFFFFFF))
def test_sequences_wrap_to_zero(sequence, by):
    expected = sequence + by if sequence + by <= 0x7FFFFFFF else by - (0x7FFFFFFF - sequence) - 1
    assert increment_sequence(sequence, by) == expected


def test_leader_fields_are_not_in_the_checksum():
    buf = by_hand()
    stamp(buf, 0, 1 << 40, 77)
    header = read_header(buf)
    assert (header.base_offset, header.leader_epoch) == (1 << 40, 77)
    assert crc_ok(buf, 0, header)


def test_every_flipped_bit_under_the_checksum_is_detected():
    good = by_hand()
    for bit in range(batch_module.CRC_POS * 8, len(good) * 8):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        assert not crc_ok(bad, 0, read_header(bad))


def test_checksum_of_an_incomplete_batch():
    buf = by_hand()
    assert not crc_ok(buf[:-1], 0, read_header(buf))


def test_append_time_in_place():
    buf = bytearray(3) + build_batch([(1, None, b"a", ()), (2, None, b"b", ())])
    header = set_max_timestamp(buf, 3, read_header(buf, 3), 5000, log_append_time=True)
    assert header == read_header(buf, 3)
    assert crc_ok(buf, 3, header)
    assert [record.timestamp for record in iter_records(buf, 3, header)] == [5000, 5000]
    header = set_max_timestamp(buf, 3, header, 2, log_append_time=False)
    assert [record.timestamp for record in iter_records(buf, 3, header)] == [1, 2]


@pytest.mark.parametrize(
    "change",
    [
        lambda buf: buf[:60],
        lambda buf: b"",
        lambda buf: buf[:16] + b"\x01" + buf[17:],
        lambda buf: buf[:8] + struct.pack(">i", 48) + buf[12:],
        lambda buf: buf[:8] + struct.pack(">i", -1) + buf[12:],
    ],
)
def test_invalid_headers(change):
    with pytest.raises(CorruptBatch):
        read_header(change(bytes(by_hand())))


def test_header_can_be_read_without_records():
    assert read_header(by_hand()[:HEADER_BYTES]).records_count == 1
    with pytest.raises(CorruptBatch):
        read_header(by_hand(), -1)


def test_iterating_headers_stops_at_an_incomplete_batch():
    one = by_hand()
    size = len(one)
    assert [pos for pos, _ in iter_headers(one * 3)] == [0, size, 2 * size]
    for cut in range(1, size):
        assert [pos for pos, _ in iter_headers((one * 2)[:-cut])] == [0]
    with pytest.raises(CorruptBatch):
        list(iter_headers(one + bytes(HEADER_BYTES)))


fields = st.one_of(st.none(), st.binary(max_size=200))
new_records = st.lists(
    st.tuples(
        st.integers(-(1 << 63), (1 << 63) - 1),
        fields,
        fields,
        st.lists(st.tuples(st.text(max_size=10), fields), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=30,
)


@given(new_records, st.integers(0, 4), st.integers(0, 1 << 50), st.booleans())
def test_build_round_trip(records, codec, base_offset, append_time):
    stamped = 12345 if append_time else None
    buf = build_batch(records, base_offset=base_offset, codec=codec, log_append_time_ms=stamped)
    header = read_header(buf)
    assert header.is_log_append_time == append_time
    assert header.max_timestamp == (12345 if append_time else max(record[0] for record in records))
    assert list(iter_records(buf, 0, header)) == [
        Record(base_offset + index, 12345 if append_time else timestamp, key, value, headers)
        for index, (timestamp, key, value, headers) in enumerate(records)
    ]


def test_records_before_a_faulty_one_are_returned(each_kernel):
    buf = build_batch([(1, None, b"a", ()), (2, None, b"b", ())])
    header = read_header(buf)._replace(records_count=3)
    read = []
    with pytest.raises(CorruptBatch, match="record 2"):
        for record in iter_records(buf, 0, header):
            read.append(record.value)  # noqa: PERF401 - what was read before the fault counts
    assert read == [b"a", b"b"]
    with pytest.raises(CorruptBatch):
        list(iter_records(buf[:-1], 0, header))


def test_empty_batches_are_not_built():
    with pytest.raises(ValueError, match="at least one"):
        build_batch([])


def test_seal_keeps_the_other_fields():
    buf = by_hand()
    header: BatchHeader = batch_module.seal(buf, read_header(buf)._replace(crc=0, batch_length=0))
    assert buf == by_hand()
    assert header == read_header(buf)
