"""Our batches are read by kafka-python and aiokafka, and theirs are validated and read by us."""

from __future__ import annotations

import aiokafka.record.default_records as aio
import kafka.record.default_records as kp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.records.batch import crc_ok, read_header
from ottla.records.build import build_batch
from ottla.records.record import iter_records
from ottla.records.validate import AppendRules, check_produce

NOW = 1_700_000_000_000
fields = st.one_of(st.none(), st.binary(max_size=300))
records_strategy = st.lists(
    st.tuples(
        st.integers(0, NOW + 1000),
        fields,
        fields,
        st.lists(st.tuples(st.text(max_size=12), fields), max_size=3),
    ),
    min_size=1,
    max_size=20,
)
# kafka-python knows only gzip without optional packages; aiokafka has all codecs here.
AIO_PYTHON = (aio._DefaultRecordBatchPy, aio._DefaultRecordBatchBuilderPy)
AIO_COMPILED = (aio.DefaultRecordBatch, aio.DefaultRecordBatchBuilder)
KAFKA_PYTHON = (kp.DefaultRecordBatch, kp.DefaultRecordBatchBuilder)
READERS = [
    *[pytest.param(AIO_PYTHON, codec, id=f"aiokafka-python-{codec}") for codec in range(5)],
    *[pytest.param(AIO_COMPILED, codec, id=f"aiokafka-{codec}") for codec in range(5)],
    *[pytest.param(KAFKA_PYTHON, codec, id=f"kafka-python-{codec}") for codec in range(2)],
]


def plain(headers) -> list[tuple[str, bytes | None]]:
    return [(key, value) for key, value in headers]


@pytest.mark.parametrize(("library", "codec"), READERS)
@settings(max_examples=20)
@given(records_strategy, st.integers(0, 1 << 40))
def test_other_clients_read_our_batches(library, codec, records, base_offset):
    reader, _ = library
    buf = build_batch(
        records, codec=codec, base_offset=base_offset, producer_id=8, producer_epoch=1, base_sequence=2
    )
    theirs = reader(bytes(buf))
    assert theirs.validate_crc()
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (8, 1, 2)
    read = [(r.offset, r.timestamp, r.key, r.value, plain(r.headers)) for r in theirs]
    assert read == [(base_offset + index, *record) for index, record in enumerate(records)]


@pytest.mark.parametrize(("library", "codec"), READERS)
@settings(max_examples=20)
@given(records_strategy)
def test_we_read_batches_of_other_clients(library, codec, records):
    _, builder_class = library
    builder = builder_class(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=8,
        producer_epoch=1,
        base_sequence=2,
        batch_size=1 << 20,
    )
    for index, (timestamp, key, value, headers) in enumerate(records):
        assert builder.append(index, timestamp, key, value, headers) is not None
    buf = bytearray(builder.build())
    checked = check_produce(buf, AppendRules(), NOW)
    assert checked.buffer is buf
    header = read_header(buf)
    assert checked.header.max_timestamp == max(record[0] for record in records)
    assert crc_ok(buf, 0, header)
    read = [(r.offset, r.timestamp, r.key, r.value, plain(r.headers)) for r in iter_records(buf, 0, header)]
    assert read == [(index, *record) for index, record in enumerate(records)]


@pytest.mark.parametrize("codec", range(5))
def test_other_clients_read_large_batches(codec):
    """Several snappy and lz4 blocks, with records that span blocks."""
    records = [(NOW, b"%d" % n, bytes([n % 251]) * (n * 37 % 5000), []) for n in range(200)]
    theirs = aio.DefaultRecordBatch(bytes(build_batch(records, codec=codec)))
    assert theirs.validate_crc()
    assert [(r.timestamp, r.key, r.value, list(r.headers)) for r in theirs] == records


@pytest.mark.parametrize("codec", range(1, 5))
def test_other_clients_read_recompressed_batches(codec):
    records = [(NOW, b"%d" % n, b"value" * n, []) for n in range(300)]
    name = ("uncompressed", "gzip", "snappy", "lz4", "zstd")[codec]
    checked = check_produce(build_batch(records), AppendRules(compression_type=name), NOW)
    theirs = aio.DefaultRecordBatch(bytes(checked.buffer))
    assert theirs.validate_crc()
    assert theirs.compression_type == codec
    assert [record.value for record in theirs] == [record[2] for record in records]
