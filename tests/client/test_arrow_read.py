"""read_arrow against a real broker: positions, columns, gaps, corruption, forks."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from ottla.client import (
    ClusterOptions,
    CorruptRecordsError,
    SyncCluster,
    read_arrow,
    shared_cluster,
    write_arrow,
)
from ottla.client.blocking.arrow_read import READ_SCHEMA, OffsetRange, read_range
from ottla.client.blocking.fetch_range import AbortedTransactions, FetchOptions
from ottla.client.errors import (
    ConnectionFailedError,
    OffsetOutOfRangeError,
    RequestTimeoutError,
    UnknownTopicError,
)
from ottla.protocol.messages.fetch_response import AbortedTransaction, PartitionData
from ottla.records.batch import HEADER_BYTES, read_header, seal
from ottla.records.build import build_batch
from ottla.records.control import end_txn_marker

START = datetime(2026, 1, 1, tzinfo=UTC)


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "key": [b"k%d" % n for n in numbers],
            "value": [b"v%d" % n for n in numbers],
            "timestamp": pa.array([START + timedelta(seconds=n) for n in numbers], pa.timestamp("ms", "UTC")),
        }
    )


def offsets(topic: str, cluster, *args, **kwargs) -> list[int]:
    reader = read_arrow(topic, *args, bootstrap_servers=cluster.bootstrap_servers, **kwargs)
    return reader.read_all()["offset"].to_pylist()


def test_all_columns_of_a_record(ottla_cluster, ottla_topic):
    servers = ottla_cluster.bootstrap_servers
    headers = [[{"key": "h", "value": b"1"}, {"key": "n", "value": None}]]
    table = rows(7, 1).append_column("headers", pa.array(headers, READ_SCHEMA.field("headers").type))
    written = write_arrow(table, ottla_topic, bootstrap_servers=servers)
    assert (written.records, written.end_offsets) == (1, {(ottla_topic, 0): 1})
    read = read_arrow(ottla_topic, bootstrap_servers=servers)
    assert read.schema == READ_SCHEMA
    assert read.read_all().to_pylist() == [
        {
            "key": b"k7",
            "value": b"v7",
            "topic": ottla_topic,
            "partition": 0,
            "offset": 0,
            "timestamp": START + timedelta(seconds=7),
            "timestamp_type": 0,
            "headers": headers[0],
        }
    ]


def test_start_and_end_positions(ottla_cluster, ottla_topic):
    for first in range(0, 100, 10):
        write_arrow(rows(first, 10), ottla_topic, bootstrap_servers=ottla_cluster.bootstrap_servers)
    everything = list(range(100))
    assert offsets(ottla_topic, ottla_cluster) == everything
    assert offsets(ottla_topic, ottla_cluster, 13, 37) == everything[13:37]
    assert offsets(ottla_topic, ottla_cluster, "beginning", 5) == everything[:5]
    assert offsets(ottla_topic, ottla_cluster, "end") == []
    moment = START + timedelta(seconds=42)
    assert offsets(ottla_topic, ottla_cluster, moment) == everything[42:]
    assert offsets(ottla_topic, ottla_cluster, moment, moment + timedelta(seconds=3)) == [42, 43, 44]
    assert offsets(ottla_topic, ottla_cluster, START + timedelta(days=9)) == []
    assert offsets(ottla_topic, ottla_cluster, {0: 98}) == [98, 99]
    for wrong in ("earlier", -5, 1.5, True):
        with pytest.raises(ValueError, match="start="):
            offsets(ottla_topic, ottla_cluster, wrong)


@pytest.mark.ottla_topic(partitions=3)
def test_partitions_and_columns(ottla_cluster, ottla_topic):
    servers = ottla_cluster.bootstrap_servers
    table = pa.table({"value": [b"a", b"b", b"c"], "partition": pa.array([0, 2, 2], pa.int32())})
    write_arrow(table, ottla_topic, bootstrap_servers=servers)
    reader = read_arrow(
        ottla_topic, bootstrap_servers=servers, columns=["partition", "value"], partitions=[2]
    )
    assert reader.read_all().to_pydict() == {"partition": [2, 2], "value": [b"b", b"c"]}
    with pytest.raises(ValueError, match="choose some of key, value"):
        read_arrow(ottla_topic, bootstrap_servers=servers, columns=["nothing"])
    with pytest.raises(UnknownTopicError, match="partitions 0 to 2"):
        read_arrow(ottla_topic, bootstrap_servers=servers, partitions=[3])


def test_batches_have_about_the_requested_size(ottla_cluster, ottla_topic):
    servers = ottla_cluster.bootstrap_servers
    write_arrow(rows(0, 25_000), ottla_topic, bootstrap_servers=servers, compression="lz4")
    for asked in (1_000, 10_000, 100_000):
        sizes = [b.num_rows for b in read_arrow(ottla_topic, bootstrap_servers=servers, rows_per_batch=asked)]
        assert sum(sizes) == 25_000
        assert max(sizes) <= 1.6 * asked


def test_missing_topics_and_partitions(ottla_cluster, ottla_topic):
    servers = ottla_cluster.bootstrap_servers
    with pytest.raises(UnknownTopicError, match="no-such-topic"):
        read_arrow("no-such-topic", bootstrap_servers=servers)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(ConnectionFailedError, match="is a broker running there"):
            read_arrow("t", options=ClusterOptions(address, retry_timeout_ms=100))


def test_an_offset_that_is_never_written(ottla_cluster, ottla_topic):
    cluster = shared_cluster(ottla_cluster.bootstrap_servers)
    write_arrow(rows(0, 5), ottla_topic, bootstrap_servers=ottla_cluster.bootstrap_servers)
    fetch = FetchOptions(max_wait_ms=20, poll_timeout_ms=100)
    with pytest.raises(RequestTimeoutError, match="last stable offset is 5, the range ends at 9"):
        list(read_range(cluster, OffsetRange(ottla_topic, 0, 0, 9), fetch))
    with pytest.raises(OffsetOutOfRangeError, match="offset 7 is not in the log"):
        list(read_range(cluster, OffsetRange(ottla_topic, 0, 7, 9), fetch))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_opens_new_connections(ottla_cluster, ottla_topic):
    servers = ottla_cluster.bootstrap_servers
    write_arrow(rows(0, 50), ottla_topic, bootstrap_servers=servers)
    under_way = iter(read_arrow(ottla_topic, bootstrap_servers=servers, rows_per_batch=10))
    assert next(under_way).num_rows == 10
    before = shared_cluster(servers)
    child = os.fork()
    if child == 0:
        ok = shared_cluster(servers) is not before and offsets(ottla_topic, ottla_cluster) == list(range(50))
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert sum(batch.num_rows for batch in under_way) == 40
    assert shared_cluster(servers) is before


def test_threads_do_not_share_connections(ottla_cluster, ottla_topic):
    write_arrow(rows(0, 2_000), ottla_topic, bootstrap_servers=ottla_cluster.bootstrap_servers)
    found: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: found.append(offsets(ottla_topic, ottla_cluster))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [list(range(2_000))] * 8


def read_stub(stub, start: int, end: int, **options) -> pa.Table:
    cluster = shared_cluster(ClusterOptions(stub.bootstrap, retry_backoff_ms=1))
    fetch = FetchOptions(max_wait_ms=5, **options)
    return pa.Table.from_batches(read_range(cluster, OffsetRange("t", 0, start, end), fetch), READ_SCHEMA)


def append(stub, *values: bytes, **options) -> None:
    stub.append("t", 0, bytes(build_batch([(0, None, value, ()) for value in values], **options)))


def test_broken_connections_and_moved_leaders_are_retried(with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        append(stub, b"a", b"b")
        append(stub, b"c")
        stub.plans["Fetch"].extend(
            [stub.CLOSE, lambda request: answer_with_error(stub, request, 6), stub.CLOSE]
        )
        table = await asyncio.to_thread(read_stub, stub, 0, 3)
        assert table["value"].to_pylist() == [b"a", b"b", b"c"]
        assert len(stub.asked("Metadata")) >= 2

    with_stub(scenario)


def test_the_time_of_a_slow_consumer_does_not_count(with_stub):
    """The fetch sent ahead is answered late, because the consumer was busy for longer than all time-outs."""

    async def scenario(stub):
        stub.add_topic("t")
        append(stub, b"a", b"b")
        append(stub, b"c")
        loop, is_busy, answer = asyncio.get_running_loop(), asyncio.Event(), stub.answer
        stub.plans["Fetch"].append(lambda request: first_batch_only(stub, request))

        async def stall(name, request):
            if name == "Fetch" and request.topics[0].partitions[0].fetch_offset == 2:
                await is_busy.wait()
                await asyncio.sleep(0.1)
            return await answer(name, request)

        stub.answer = stall

        def read() -> list[bytes]:
            cluster = SyncCluster(ClusterOptions(stub.bootstrap, request_timeout_ms=250, retry_backoff_ms=1))
            fetch = FetchOptions(max_wait_ms=5, poll_timeout_ms=300)
            found = []
            for batch in read_range(cluster, OffsetRange("t", 0, 0, 3), fetch):
                found += batch["value"].to_pylist()
                if len(found) == 2:
                    time.sleep(0.6)
                    loop.call_soon_threadsafe(is_busy.set)
            cluster.close()
            return found

        assert await asyncio.to_thread(read) == [b"a", b"b", b"c"]
        assert len(stub.asked("Fetch")) == 2, "nothing timed out"

    with_stub(scenario)


def first_batch_only(stub, request):
    answer = stub.fetch(request)
    answer.responses[0].partitions[0].records = stub.logs["t", 0][0]
    return answer


def answer_with_error(stub, request, code: int):
    answer = stub.fetch(request)
    for topic in answer.responses:
        for row in topic.partitions:
            row.error_code, row.records = code, b""
    return answer


def test_gaps_of_compaction(with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        append(stub, b"a", b"b", b"c")
        # All seven records of this batch were compacted away; its header keeps their offsets.
        empty = bytearray(HEADER_BYTES)
        header = read_header(stub.logs["t", 0][0])
        seal(empty, header._replace(base_offset=3, last_offset_delta=6, records_count=0))
        stub.logs["t", 0].append(bytes(empty))
        stub.ends["t", 0] = 10
        append(stub, b"k", b"l")
        for start, end, expected in [
            (0, 12, [0, 1, 2, 10, 11]),
            (0, 7, [0, 1, 2]),
            (4, 8, []),
            (2, 11, [2, 10]),
        ]:
            table = await asyncio.to_thread(read_stub, stub, start, end)
            assert table["offset"].to_pylist() == expected

    with_stub(scenario)


def test_an_old_cluster(with_stub):
    """Kafka 0.11, the first with today's record batches: no topic ids, no flexible versions."""

    async def scenario(stub):
        stub.versions |= {0: (0, 3), 1: (0, 5), 2: (0, 2), 3: (0, 4), 18: (0, 1), 22: (0, 0)}
        stub.add_topic("t")
        values = [b"%d" % n for n in range(100)]
        await asyncio.to_thread(
            write_arrow, pa.table({"value": values}), "t", bootstrap_servers=stub.bootstrap
        )
        reader = await asyncio.to_thread(read_arrow, "t", bootstrap_servers=stub.bootstrap)
        table = await asyncio.to_thread(reader.read_all)
        assert table["value"].to_pylist() == values

    with_stub(scenario)


def test_a_flipped_bit_is_detected(with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        append(stub, b"good")
        append(stub, b"value")
        damaged = bytearray(stub.logs["t", 0][1])
        damaged[-2] ^= 1
        stub.logs["t", 0][1] = bytes(damaged)
        with pytest.raises(CorruptRecordsError, match=r"topic 't' partition 0 from offset 1.*checksum"):
            await asyncio.to_thread(read_stub, stub, 0, 2)

    with_stub(scenario)


def test_a_deleted_topic_is_not_waited_for_long(with_stub, monkeypatch):
    monkeypatch.setattr("ottla.client.blocking.fetch_range.MISSING_TOPIC_MAX_S", 0.1)

    async def scenario(stub):
        stub.add_topic("t")
        append(stub, b"a")
        began = time.monotonic()
        cluster = shared_cluster(stub.bootstrap)
        await asyncio.to_thread(cluster.topic, "t")
        del stub.topics["t"]
        stub.plans["Fetch"].append(lambda request: answer_with_error(stub, request, 100))
        with pytest.raises(UnknownTopicError):
            await asyncio.to_thread(read_stub, stub, 0, 1)
        assert time.monotonic() - began < 5

    with_stub(scenario)


def test_aborted_transactions_are_hidden_and_committed_ones_returned():
    def batch(offset: int, producer: int) -> bytearray:
        return build_batch(
            [(0, None, b"x", ())],
            base_offset=offset,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )

    def marker(offset: int, producer: int, *, commit: bool) -> bytearray:
        return end_txn_marker(
            producer, 0, commit=commit, coordinator_epoch=0, timestamp_ms=0, base_offset=offset
        )

    log = [
        batch(0, 1),
        batch(1, 2),
        marker(2, 1, commit=False),
        batch(3, 1),
        marker(4, 2, commit=True),
        marker(5, 1, commit=True),
        batch(6, 1),
        marker(7, 1, commit=False),
    ]
    aborted = AbortedTransactions()
    rows = [AbortedTransaction(producer_id=1, first_offset=offset) for offset in (0, 6)]
    aborted.update(PartitionData(aborted_transactions=rows))
    seen = [i for i, data in enumerate(log) if not aborted.hides(data, 0, read_header(data))]
    assert seen == [1, 3]
