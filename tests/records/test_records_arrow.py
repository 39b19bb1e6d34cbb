"""Record batches as Arrow columns and back, with both kernels."""

from __future__ import annotations

import datetime
import itertools

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.records import arrow, kernel
from ottla.records.arrow import SCHEMA, arrow_to_batch, arrow_to_batches, batches_to_arrow
from ottla.records.batch import CorruptBatch, crc_ok, iter_headers, read_header, seal
from ottla.records.build import build_batch
from ottla.records.record import iter_records

NOW = 1_700_000_000_000
fields = st.one_of(st.none(), st.binary(max_size=30))
records_strategy = st.lists(
    st.tuples(
        st.integers(0, NOW),
        fields,
        fields,
        st.lists(st.tuples(st.text(max_size=6), fields), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=20,
)
both_kernels = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def rows_of(batch: pa.RecordBatch) -> list[tuple]:
    batch.validate(full=True)
    assert batch.schema == SCHEMA
    columns = batch.set_column(3, "timestamp", batch.column("timestamp").cast(pa.int64())).to_pydict()
    headers = [tuple((h["key"], h["value"]) for h in row) for row in columns["headers"]]
    return list(
        zip(columns["offset"], columns["timestamp"], columns["key"], columns["value"], headers, strict=True)
    )


def rows_in(buf: bytearray) -> list[tuple]:
    return [tuple(record) for pos, header in iter_headers(buf) for record in iter_records(buf, pos, header)]


@both_kernels
@given(st.lists(st.tuples(records_strategy, st.integers(0, 4), st.booleans()), max_size=4))
def test_columns_contain_the_records(each_kernel, batches):
    buf = bytearray()
    for records, codec, append_time in batches:
        stamped = NOW if append_time else None
        buf += build_batch(records, base_offset=len(buf), codec=codec, log_append_time_ms=stamped)
    whole = batches_to_arrow([buf])
    assert rows_of(whole) == rows_in(buf)
    types = [int(append_time) for records, _, append_time in batches for _ in records]
    assert whole.column("timestamp_type").to_pylist() == types
    assert rows_of(batches_to_arrow([buf, memoryview(buf)])) == rows_in(buf + buf)


@both_kernels
@given(records_strategy, st.integers(0, 4), st.integers(0, 5), st.integers(0, 5))
def test_round_trip(each_kernel, records, codec, front, back):
    rows = batches_to_arrow([build_batch(records)])
    rows = rows.slice(front, max(rows.num_rows - front - back, 0))
    if rows.num_rows == 0:
        with pytest.raises(ValueError, match="0 batches"):
            arrow_to_batch(rows, NOW, codec=codec)
        return
    buf = arrow_to_batch(rows, NOW, codec=codec)
    assert buf == build_batch(records[front : front + rows.num_rows], codec=codec)


def test_no_batches(each_kernel):
    assert rows_of(batches_to_arrow([])) == []
    assert rows_of(batches_to_arrow([b""])) == []
    assert list(arrow_to_batches(batches_to_arrow([]), NOW)) == []


def test_control_incomplete_and_filtered_batches_are_skipped(each_kernel):
    first = build_batch([(1, None, b"a", ())], producer_id=1, producer_epoch=0, base_sequence=0)
    marker = build_batch([(1, b"\0\0\0\1", b"", ())], control=True)
    last = build_batch([(1, None, b"b", ())], base_offset=2)
    buf = first + marker + last + last[:-1]
    assert [row[3] for row in rows_of(batches_to_arrow([buf]))] == [b"a", b"b"]
    kept = batches_to_arrow([buf], keep=lambda header: not header.has_producer)
    assert [row[3] for row in rows_of(kept)] == [b"b"]


def test_from_an_offset(each_kernel):
    records = [(n, b"k", b"%d" % n, (("h", b"%d" % n),)) for n in range(10)]
    buf = build_batch(records) + build_batch(records, base_offset=10)
    for offset in (0, 1, 9, 10, 15, 20):
        assert rows_of(batches_to_arrow([buf], from_offset=offset)) == rows_in(buf)[offset:]


def test_faulty_batches(each_kernel):
    buf = build_batch([(1, None, b"a", ())])
    seal(buf, read_header(buf)._replace(records_count=2, base_offset=44))
    with pytest.raises(CorruptBatch, match="record 1 of the batch at offset 44"):
        batches_to_arrow([buf])
    seal(buf, read_header(buf)._replace(records_count=-1))
    with pytest.raises(CorruptBatch, match="negative"):
        batches_to_arrow([buf])


def test_columns_beyond_arrows_limit(each_kernel, monkeypatch):
    buf = build_batch([(1, None, bytes(100), ())])
    monkeypatch.setattr(arrow, "COLUMN_BYTES_MAX", 199)
    assert batches_to_arrow([buf]).num_rows == 1
    with pytest.raises(ValueError, match="exceed the limits"):
        batches_to_arrow([buf, buf])


def test_header_keys_that_are_not_text_are_replaced(each_kernel):
    odd = build_batch([(1, None, None, (("aXb", b"1"), ("ok", None)))])
    place = odd.index(b"aXb")
    odd[place + 1] = 0xFF
    good = build_batch([(1, None, None, (("Größe", b"2"),))])
    assert [row[4] for row in rows_of(batches_to_arrow([odd]))] == [(("a�b", b"1"), ("ok", None))]
    assert [row[4] for row in rows_of(batches_to_arrow([good]))] == [(("Größe", b"2"),)]


def test_rows_are_split_into_batches_by_size_with_consecutive_sequences(each_kernel):
    rows = batches_to_arrow([build_batch([(NOW + n, b"k", bytes(100), ()) for n in range(50)])])
    parts = list(
        arrow_to_batches(
            rows,
            NOW,
            batch_bytes=1000,
            producer_id=4,
            producer_epoch=1,
            base_sequence=0x7FFFFFFF - 5,
            transactional=True,
        )
    )
    headers = [read_header(part) for part in parts]
    assert len(parts) > 5
    assert all(
        len(part) <= 1000 and crc_ok(part, 0, header) for part, header in zip(parts, headers, strict=True)
    )
    assert sum(header.records_count for header in headers) == 50
    assert all(header.is_transactional for header in headers)
    assert headers[0].base_timestamp == NOW
    assert headers[1].base_timestamp == NOW + headers[0].records_count
    for before, after in itertools.pairwise(headers):
        assert after.base_sequence == (before.last_sequence + 1) & 0x7FFFFFFF
    alone = [build_batch([(NOW + n, b"k", bytes(100), ())]) for n in range(2)]
    assert list(arrow_to_batches(rows.slice(0, 2), NOW, batch_bytes=1)) == alone


def test_other_column_types_are_cast(each_kernel):
    when = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    rows = pa.record_batch(
        {
            "key": pa.array(["a", None], pa.large_string()),
            "value": pa.array(["x", "y"]).dictionary_encode(),
            "timestamp": pa.array([when, None], pa.timestamp("us", tz="UTC")),
            "headers": pa.array(
                [[{"key": "h", "value": b"1"}], None],
                pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])),
            ),
            "ignored": [1, 2],
        }
    )
    when_ms = int(when.timestamp() * 1000)
    assert rows_in(arrow_to_batch(rows, 42)) == [
        (0, when_ms, b"a", b"x", (("h", b"1"),)),
        (1, 42, None, b"y", ()),
    ]


def test_only_values_are_needed(each_kernel):
    rows = pa.record_batch({"value": pa.array([b"x", None]), "headers": pa.nulls(2)})
    assert rows_in(arrow_to_batch(rows, 42)) == [(0, 42, None, b"x", ()), (1, 42, None, None, ())]
    rows = pa.record_batch({"value": pa.array([b"x"]), "timestamp": pa.array([77])})
    assert rows_in(arrow_to_batch(rows, 42)) == [(0, 77, None, b"x", ())]
    with pytest.raises(ValueError, match="value"):
        arrow_to_batch(pa.record_batch({"key": pa.array([b"x"])}), 42)


def test_null_header_keys_are_rejected(each_kernel):
    rows = pa.record_batch(
        {
            "value": pa.array([b"x"]),
            "headers": pa.array(
                [[{"key": None, "value": b"1"}]],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
    )
    with pytest.raises(ValueError, match="key is null"):
        arrow_to_batch(rows, NOW)


def test_the_kernel_under_test_is_used(each_kernel):
    assert kernel.decode is each_kernel.decode
