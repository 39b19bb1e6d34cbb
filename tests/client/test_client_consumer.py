"""The consumer against a broker that misbehaves on demand."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from ottla.client import (
    ClientError,
    ClusterClient,
    Consumer,
    CorruptRecordsError,
    OffsetOutOfRangeError,
    UnknownTopicError,
)
from ottla.records.build import build_batch


def fill(stub, *, topic="t", partition=0, count=10, per_batch=3, codec=0):
    for first in range(0, count, per_batch):
        records = [
            (1000 * n, b"k%d" % n, b"v%d" % n, (("h", b"x"),))
            for n in range(first, min(first + per_batch, count))
        ]
        stub.append(topic, partition, bytes(build_batch(records, codec=codec)))


async def read(consumer, count):
    records = []
    while len(records) < count:
        records += await consumer.poll(timeout_ms=2000)
    return records


@pytest.mark.parametrize("codec", range(5))
def test_reads_from_the_beginning_in_order(with_stub, codec):
    async def scenario(stub):
        stub.add_topic("t")
        fill(stub, codec=codec)
        async with Consumer(stub.bootstrap) as consumer:
            assert await consumer.assign("t") == [0]
            records = await read(consumer, 10)
            assert [record.offset for record in records] == list(range(10))
            assert records[4] == ("t", 0, 4, 4000, b"k4", b"v4", (("h", b"x"),))
            assert consumer.position("t", 0) == 10
            assert consumer.high_watermark("t", 0) == 10
            assert await consumer.poll(timeout_ms=30) == []

    with_stub(scenario)


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("beginning", 0),
        (4, 4),
        (datetime.fromtimestamp(6.5, UTC), 7),
        ("end", 10),
        (datetime.fromtimestamp(1e6, UTC), 10),
    ],
)
def test_starting_points(with_stub, start, first):
    async def scenario(stub):
        stub.add_topic("t")
        fill(stub)
        async with Consumer(stub.bootstrap) as consumer:
            await consumer.assign("t", start=start)
            assert consumer.position("t", 0) == first
            stub.append("t", 0, bytes(build_batch([(1, None, b"late", ())])))
            assert [record.offset for record in await read(consumer, 11 - first)] == list(range(first, 11))

    with_stub(scenario)


def test_poll_returns_no_more_than_the_maximum_and_loses_nothing(with_stub):
    async def scenario(stub):
        stub.add_topic("t", 2)
        fill(stub, partition=0)
        fill(stub, partition=1, count=7)
        seen = []
        async with Consumer(stub.bootstrap) as consumer:
            await consumer.assign("t")
            while len(seen) < 17:
                records = await consumer.poll(2, timeout_ms=2000)
                assert 1 <= len(records) <= 2
                seen += records
        for partition, count in ((0, 10), (1, 7)):
            assert [r.offset for r in seen if r.partition == partition] == list(range(count))

    with_stub(scenario)


def test_iteration_waits_for_more(with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        fill(stub, count=2)
        seen = []
        async with Consumer(stub.bootstrap) as consumer:
            await consumer.assign("t")
            async for record in consumer:
                seen.append(record.offset)
                if len(seen) == 2:
                    fill(stub, count=3)
                if len(seen) == 5:
                    break
        assert seen == [0, 1, 2, 3, 4]

    with_stub(scenario)


def test_seek_drops_fetched_records(with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        fill(stub)
        async with Consumer(stub.bootstrap) as consumer:
            await consumer.assign("t")
            assert [r.offset for r in await consumer.poll(2)] == [0, 1]
            await consumer.seek("t", 0, 8)
            assert [r.offset for r in await read(consumer, 2)] == [8, 9]
            await consumer.seek("t", 0, "beginning")
            assert (await consumer.poll(1))[0].offset == 0

    with_stub(scenario)


def test_control_batches_and_an_incomplete_tail_are_skipped(with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        fill(stub, count=1)
        marker = build_batch([(1, b"\0\0\0\1", b"\0\0\0\0\0\0", ())], control=True, transactional=True)
        stub.append("t", 0, bytes(marker))
        stub.append("t", 0, bytes(build_batch([(1, None, b"last", ())])))

        def cut(request):
            answer = stub.fetch(request)
            answer.responses[0].partitions[0].records = answer.responses[0].partitions[0].records[:-3]
            return answer

        stub.plans["Fetch"].append(cut)
        async with Consumer(stub.bootstrap) as consumer:
            await consumer.assign("t")
            assert [(r.offset, r.value) for r in await read(consumer, 2)] == [(0, b"v0"), (2, b"last")]

    with_stub(scenario)


def test_corruption_is_reported_after_the_valid_records(with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        fill(stub, count=6)
        broken = bytearray(stub.logs["t", 0][1])
        broken[-1] ^= 1
        stub.logs["t", 0][1] = bytes(broken)
        async with Consumer(stub.bootstrap) as consumer:
            await consumer.assign("t")
            assert [r.offset for r in await read(consumer, 3)] == [0, 1, 2]
            with pytest.raises(CorruptRecordsError, match=r"topic 't' partition 0 after offset 3.*checksum"):
                await consumer.poll(timeout_ms=2000)

    with_stub(scenario)


@pytest.mark.parametrize(("policy", "first"), [("beginning", 5), ("end", 10)])
def test_out_of_range_follows_the_policy(with_stub, policy, first):
    async def scenario(stub):
        stub.add_topic("t")
        fill(stub)
        stub.starts["t", 0] = 5
        async with Consumer(stub.bootstrap, out_of_range=policy) as consumer:
            await consumer.assign("t", start=1)
            await consumer.poll(1, timeout_ms=100)
            assert consumer.position("t", 0) == (first + 1 if policy == "beginning" else first)

    with_stub(scenario)


def test_a_seek_during_an_out_of_range_reset_wins(with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        fill(stub)
        async with Consumer(stub.bootstrap, out_of_range="beginning") as consumer:
            await consumer.assign("t", start=99)
            answer = stub.answer

            async def seek_first(name, request):
                if name == "ListOffsets":
                    await consumer.seek("t", 0, 7)
                return await answer(name, request)

            stub.answer = seek_first
            assert [record.offset for record in await read(consumer, 3)] == [7, 8, 9]

    with_stub(scenario)


def test_out_of_range_is_an_error_by_default(with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        async with Consumer(stub.bootstrap) as consumer:
            await consumer.assign("t", start=50)
            with pytest.raises(
                OffsetOutOfRangeError, match=r"topic 't' partition 0.*offset 50 is not in the log"
            ):
                await consumer.poll(timeout_ms=2000)

    with_stub(scenario)


@pytest.mark.parametrize("fault", ["close", 6, 74, 100])
def test_retriable_faults_are_survived(with_stub, fault):
    async def scenario(stub):
        stub.add_topic("t")
        fill(stub)

        def refuse(request):
            answer = stub.fetch(request)
            answer.responses[0].partitions[0].error_code = fault
            answer.responses[0].partitions[0].records = b""
            return answer

        stub.plans["Fetch"].extend([stub.CLOSE if fault == "close" else refuse] * 2)
        async with Consumer(stub.bootstrap) as consumer:
            await consumer.assign("t")
            assert [r.offset for r in await read(consumer, 10)] == list(range(10))

    with_stub(scenario)


def test_a_topic_that_does_not_appear_is_reported(with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        cluster = ClusterClient(stub.bootstrap, retry_timeout_ms=100)
        async with cluster, Consumer(cluster) as consumer:
            with pytest.raises(UnknownTopicError, match="'missing'"):
                await consumer.assign("missing")
            with pytest.raises(UnknownTopicError, match=r"partition 3.*0 to 0"):
                await consumer.assign("t", [3])
            await consumer.assign("t")
            del stub.topics["t"]
            cluster.view.forget("t")
            await asyncio.sleep(0.05)
            with pytest.raises(UnknownTopicError, match="'t'"):
                async with asyncio.timeout(5):
                    while True:
                        await consumer.poll()

    with_stub(scenario)


def test_an_old_broker_without_topic_ids_gets_old_versions(with_stub):
    async def scenario(stub):
        stub.versions[3] = (0, 8)
        stub.add_topic("t")
        fill(stub, count=1)
        async with Consumer(stub.bootstrap) as consumer:
            await consumer.assign("t")
            assert len(await read(consumer, 1)) == 1
        assert {version for name, version, _ in stub.requests if name == "Fetch"} == {12}

    with_stub(scenario)


def test_a_long_poll_does_not_hold_up_other_requests(with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        async with Consumer(stub.bootstrap) as consumer:
            await consumer.assign("t")
            await consumer.poll(timeout_ms=10)
            await consumer.cluster.refresh(None)
        assert stub.connections == 2

    with_stub(scenario)


def test_invalid_use_is_rejected(with_stub):
    with pytest.raises(ValueError, match="out_of_range='middle'"):
        Consumer("localhost", out_of_range="middle")

    async def scenario(stub):
        stub.add_topic("t")
        async with Consumer(stub.bootstrap) as consumer:
            with pytest.raises(ClientError, match="assign partitions first"):
                await consumer.poll()
            with pytest.raises(ValueError, match="start='middle'"):
                await consumer.assign("t", start="middle")
            with pytest.raises(ClientError, match="partition 7 is not assigned"):
                consumer.position("t", 7)

    with_stub(scenario)
