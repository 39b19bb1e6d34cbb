"""write_arrow: round trips, partitions, and failures of brokers."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client import (
    ArrowWriter,
    ClusterOptions,
    ProducerId,
    SyncCluster,
    read_arrow,
    shared_cluster,
    write_arrow,
)
from ottla.client.blocking.arrow_write import partitions_of
from ottla.client.core.partitioner import partition_for_key
from ottla.client.errors import BrokerError, RecordTooLargeError, UnknownTopicError
from ottla.records.arrow import _column
from ottla.records.batch import read_header
from ottla.records.partitions import partitions_of_keys_plain


@given(st.lists(st.none() | st.binary(max_size=30), max_size=50), st.integers(1, 100), st.integers(0, 5))
def test_partitions_are_those_of_the_java_client(keys, count, skipped):
    column = pa.array(keys, pa.binary()).slice(skipped)
    expected = [None if key is None else partition_for_key(key, count) for key in keys[skipped:]]
    assert partitions_of(column, count).to_pylist() == expected
    plain = bytearray(4 * len(column))
    partitions_of_keys_plain(_column(column), count, plain)
    assert list(memoryview(plain).cast("i")) == [-1 if p is None else p for p in expected]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.ottla_topic(partitions=3)
def test_every_codec_round_trips(ottla_cluster, ottla_topic, compression):
    servers = ottla_cluster.bootstrap_servers
    table = pa.table(
        {"key": [f"key {n}" for n in range(5_000)], "value": [f"value {n}" for n in range(5_000)]}
    )
    written = write_arrow(table, ottla_topic, bootstrap_servers=servers, compression=compression)
    assert written.records == sum(written.end_offsets.values()) == 5_000
    read = read_arrow(ottla_topic, bootstrap_servers=servers).read_all()
    assert all(
        row["partition"] == partition_for_key(row["key"], 3)
        for row in read.select(["key", "partition"]).to_pylist()
    )
    for partition in range(3):
        values = [r["value"] for r in read.to_pylist() if r["partition"] == partition]
        assert values == sorted(values, key=lambda value: int(value.split()[1]))
    assert sorted(read["value"].to_pylist()) == sorted(v.encode() for v in table["value"].to_pylist())


@pytest.mark.ottla_topic(partitions=4)
def test_rows_without_a_key_fill_a_batch_per_partition(ottla_cluster, ottla_topic):
    servers = ottla_cluster.bootstrap_servers
    with ArrowWriter(shared_cluster(servers), ottla_topic, batch_bytes=20_000) as writer:
        writer.write(pa.record_batch({"value": [b"x" * 100] * 2_000}))
    sizes = Counter(read_arrow(ottla_topic, bootstrap_servers=servers).read_all()["partition"].to_pylist())
    assert len(sizes) == 4
    assert max(sizes.values()) < 1_000
    assert writer.written.batches == 12  # of 181 rows each, but for the last


@pytest.mark.ottla_topic(partitions=2)
def test_the_topic_and_partition_of_each_row(ottla_cluster, ottla_topic):
    servers = ottla_cluster.bootstrap_servers
    other = ottla_topic[:-5] + "-other"
    ottla_cluster.create_topic(other, 1)
    table = pa.table(
        {
            "topic": [other, ottla_topic, ottla_topic],
            "partition": pa.array([None, 1, None], pa.int32()),
            "key": [b"a", b"b", b"k"],
            "value": [b"1", b"2", None],
        }
    )
    write_arrow(table, bootstrap_servers=servers)
    read = read_arrow(ottla_topic, bootstrap_servers=servers).read_all().to_pylist()
    assert {(r["partition"], r["key"], r["value"]) for r in read} == {
        (1, b"b", b"2"),
        (partition_for_key(b"k", 2), b"k", None),
    }
    assert read_arrow(other, bootstrap_servers=servers).read_all()["value"].to_pylist() == [b"1"]
    with pytest.raises(UnknownTopicError, match=r"partition 7.*0 to 1"):
        write_arrow(pa.table({"value": [b"x"], "partition": [7]}), ottla_topic, bootstrap_servers=servers)


def test_errors_name_the_reason(ottla_cluster, ottla_topic):
    servers = ottla_cluster.bootstrap_servers
    for table, error, text in [
        (pa.table({"key": [b"k"]}), ValueError, "no column 'value'"),
        (pa.table({"value": [1]}), TypeError, "'value' is int64"),
        (pa.table({"value": [b"x" * 2_000_000], "key": [b"big one"]}), RecordTooLargeError, "b'big one'"),
        ([1], TypeError, "found a int"),
        (5, TypeError, "not int"),
    ]:
        with pytest.raises(error, match=text):
            write_arrow(table, ottla_topic, bootstrap_servers=servers)
    with pytest.raises(ValueError, match="no topic"):
        write_arrow(pa.table({"value": [b"x"]}), bootstrap_servers=servers)
    with pytest.raises(ValueError, match="null topic"):
        write_arrow(pa.table({"value": [b"x"], "topic": pa.nulls(1, pa.string())}), bootstrap_servers=servers)
    with pytest.raises(ValueError, match="acks="):
        write_arrow(pa.table({"value": [b"x"]}), ottla_topic, bootstrap_servers=servers, acks=2)
    assert read_arrow(ottla_topic, bootstrap_servers=servers).read_all().num_rows == 0


@pytest.mark.ottla_topic(config={"max.message.bytes": 3000})
def test_batches_too_large_for_a_topic_are_split(ottla_cluster, ottla_topic):
    servers = ottla_cluster.bootstrap_servers
    values = [b"%04d" % n * 10 for n in range(500)]
    written = write_arrow(pa.table({"value": values}), ottla_topic, bootstrap_servers=servers)
    assert written.batches > 8
    assert read_arrow(ottla_topic, bootstrap_servers=servers).read_all()["value"].to_pylist() == values


@pytest.mark.ottla_topic(partitions=6, config={"max.message.bytes": 3000})
def test_rows_refused_by_a_broker_are_dead_lettered(ottla_cluster, ottla_topic):
    """Each becomes a batch of another topic, which is sent while responses are being read."""
    servers = ottla_cluster.bootstrap_servers
    letters = f"{ottla_topic}-letters"
    ottla_cluster.create_topic(letters, 1)
    small = [b"%04d" % n * 500 for n in range(2_000)]
    large = [b"%04d" % n * 1_000 for n in range(2_000, 2_200)]
    values = [value for n in range(200) for value in (*small[n * 10 : n * 10 + 10], large[n])]
    cluster = shared_cluster(servers)
    with ArrowWriter(cluster, ottla_topic, batch_bytes=2_500, dead_letter_topic=letters) as writer:
        writer.write(pa.record_batch({"value": values}))
    assert writer.dead_letters == len(large)
    assert writer.written.records == len(values)
    for topic, expected in ((ottla_topic, small), (letters, large)):
        found = read_arrow(topic, bootstrap_servers=servers).read_all()["value"].to_pylist()
        assert sorted(found) == expected


def write_to_stub(stub, values: list[bytes], **options) -> None:
    cluster = shared_cluster(ClusterOptions(stub.bootstrap, retry_backoff_ms=1, request_timeout_ms=300))
    with ArrowWriter(cluster, "t", batch_bytes=200, **options) as writer:
        writer.write(pa.record_batch({"value": values}))


VALUES = [b"value %03d" % n for n in range(100)]


def test_a_leader_works_while_the_next_request_is_in_flight(with_stub):
    def write(stub) -> None:
        with ArrowWriter(shared_cluster(stub.bootstrap), "t", batch_bytes=100_000) as writer:
            for partition in (0, 1):
                values = [partition.to_bytes(1, "big") * 1_000] * 1_500
                rows = {"value": values, "partition": pa.array([partition] * len(values), pa.int32())}
                writer.write(pa.record_batch(rows))

    async def scenario(stub):
        def late(request):
            time.sleep(0.2)
            return stub.produce(request)

        stub.add_topic("t", partitions=2)
        stub.plans["Produce"].extend([late, stub.produce, late])
        await asyncio.to_thread(write, stub)
        for partition in (0, 1):
            values = [record.value for record in stub.records("t", partition)]
            assert values == [partition.to_bytes(1, "big") * 1_000] * 1_500

    with_stub(scenario)


def test_a_given_producer_id_is_never_replaced(with_stub):
    identity = ProducerId(id=7, epoch=2)

    async def scenario(stub):
        stub.add_topic("t")
        await asyncio.to_thread(write_to_stub, stub, VALUES, identity=identity)
        headers = [read_header(batch) for batch in stub.logs["t", 0]]
        assert all((h.producer_id, h.producer_epoch) == (7, 2) for h in headers)
        # A producer that was fenced must not continue under another id.
        stub.plans["Produce"].append(lambda request: stub.produce(request, error=47))
        with pytest.raises(BrokerError, match="INVALID_PRODUCER_EPOCH"):
            await asyncio.to_thread(write_to_stub, stub, VALUES, identity=identity)
        assert stub.asked("InitProducerId") == []

    with_stub(scenario)


def test_a_shared_cluster_has_no_write_options_of_its_first_user():
    """Writers of other options share its connections; what they do not set has the default."""
    given = ClusterOptions("127.0.0.1:9", client_id="first", acks=1, compression="zstd")
    cluster = shared_cluster(given)
    assert shared_cluster(ClusterOptions("127.0.0.1:9", client_id="first")) is cluster
    assert cluster.options == ClusterOptions("127.0.0.1:9", client_id="first")
    assert ArrowWriter(cluster, "t").options.acks == "all"


def test_close_does_not_wait_for_responses(with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        stub.plans["Produce"].append(stub.SILENCE)
        cluster = SyncCluster(ClusterOptions(stub.bootstrap, request_timeout_ms=3_000))
        writer = ArrowWriter(cluster, "t")
        await asyncio.to_thread(writer.write, pa.record_batch({"value": pa.array([b"x" * 900_000] * 2)}))
        while not stub.asked("Produce"):
            await asyncio.sleep(0.005)
        before_s = time.monotonic()
        await asyncio.to_thread(writer.close)
        assert time.monotonic() - before_s < 1
        cluster.close()

    with_stub(scenario)
