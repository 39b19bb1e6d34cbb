"""The producer against a broker that misbehaves on demand."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client import (
    BrokerError,
    ClosedError,
    ConnectionFailedError,
    Producer,
    RecordTooLargeError,
    UnknownTopicError,
)
from ottla.client.core.partitioner import murmur2, partition_for_key


def signed(value: int) -> int:
    return value - 2**32 if value >= 2**31 else value


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_the_java_clients(key, expected):
    assert signed(murmur2(key)) == expected


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_a_key_always_has_a_partition(key, count):
    assert 0 <= partition_for_key(key, count) < count


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["all", 1])
def test_records_arrive_whole_and_in_order(with_stub, compression, acks):
    async def scenario(stub):
        stub.add_topic("t")
        async with Producer(stub.bootstrap, compression=compression, acks=acks, batch_bytes=500) as producer:
            futures = [
                await producer.send(
                    "t", b"value %d" % n, key=None if n % 3 else b"k", headers={"h": b"%d" % n, "n": None}
                )
                for n in range(100)
            ]
            last = await producer.send("t", None, timestamp_ms=77)
            await producer.flush()
            assert [future.result().offset for future in futures] == list(range(100))
            assert last.result() == ("t", 0, 100, 77)
        records = stub.records("t")
        assert [record.value for record in records] == [b"value %d" % n for n in range(100)] + [None]
        assert records[3].key == b"k"
        assert records[3].headers == (("h", b"3"), ("n", None))
        assert len(stub.logs["t", 0]) > 3

    with_stub(scenario)


def test_linger_gathers_records_in_one_batch(with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        async with Producer(stub.bootstrap, linger_ms=20) as producer:
            futures = [await producer.send("t", b"v") for _ in range(50)]
            await asyncio.gather(*futures)
        assert len(stub.logs["t", 0]) == 1

    with_stub(scenario)


def test_keys_choose_the_partition_and_no_key_sticks_to_one(with_stub):
    async def scenario(stub):
        stub.add_topic("t", 5)
        async with Producer(stub.bootstrap) as producer:
            keyed = [await (await producer.send("t", b"v", key=b"%d" % n)) for n in range(10)]
            assert [d.partition for d in keyed] == [partition_for_key(b"%d" % n, 5) for n in range(10)]
            unkeyed = await asyncio.gather(*[await producer.send("t", b"v") for _ in range(10)])
            assert len({d.partition for d in unkeyed}) == 1
            assert (await producer.send_and_wait("t", b"v", partition=4)).partition == 4
            with pytest.raises(UnknownTopicError, match=r"partition 5.*partitions 0 to 4"):
                await producer.send("t", b"v", partition=5)

    with_stub(scenario)


def test_unkeyed_records_spread_over_partitions_batch_by_batch(with_stub):
    async def scenario(stub):
        stub.add_topic("t", 3)
        async with Producer(stub.bootstrap, batch_bytes=200) as producer:
            for _ in range(300):
                await producer.send("t", b"x" * 50)
        assert all(stub.ends["t", partition] > 0 for partition in range(3))

    with_stub(scenario)


def test_a_lost_sequence_starts_over_under_a_new_producer_id(with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        async with Producer(stub.bootstrap) as producer:
            await producer.send_and_wait("t", b"0")
            stub.sequences.clear()
            assert (await producer.send_and_wait("t", b"1")).offset == 1
            assert (await producer.send_and_wait("t", b"2")).offset == 2
        assert len(stub.asked("InitProducerId")) == 2

    with_stub(scenario)


def test_a_batch_too_large_is_split_a_record_too_large_fails_alone(with_stub):
    async def scenario(stub):
        stub.add_topic("t")

        def limited(request):
            stub.plans["Produce"].append(limited)
            size = len(request.topic_data[0].partition_data[0].records)
            return stub.produce(request, error=10 if size > 400 else 0)

        stub.plans["Produce"].append(limited)
        async with Producer(stub.bootstrap) as producer:
            small = [await producer.send("t", b"x" * 90) for _ in range(20)]
            large = await producer.send("t", b"x" * 500)
            after = await producer.send("t", b"after")
            await producer.flush()
            assert [future.result().offset for future in small] == list(range(20))
            assert after.result().offset == 20
            with pytest.raises(RecordTooLargeError, match=r"topic 't' partition 0.*max.message.bytes"):
                large.result()

    with_stub(scenario)


def test_an_unanswered_batch_fails_after_the_delivery_timeout(with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        stub.plans["Produce"].extend([stub.CLOSE] * 1000)
        producer = Producer(stub.bootstrap, delivery_timeout_ms=150)
        future = await producer.send("t", b"v")
        with pytest.raises(ConnectionFailedError, match="closed the connection"):
            await future
        stub.plans["Produce"].clear()
        assert (await producer.send_and_wait("t", b"next")).offset == 0
        assert len(stub.asked("InitProducerId")) == 2
        await producer.close()

    with_stub(scenario)


def test_acks_0_has_no_response(with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        async with Producer(stub.bootstrap, acks=0) as producer:
            assert (await producer.send_and_wait("t", b"v")).offset == -1
            await producer.send("t", b"w")
        async with asyncio.timeout(2):
            while stub.ends["t", 0] < 2:
                await asyncio.sleep(0.005)
        assert stub.asked("InitProducerId") == []

    with_stub(scenario)


def test_memory_is_bounded_by_waiting(with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        async with Producer(stub.bootstrap, buffer_bytes_max=5_000, batch_bytes=1_000) as producer:
            for _ in range(100):
                await producer.send("t", b"x" * 400)
                assert producer._buffered_bytes <= 5_000
            await producer.send("t", b"x" * 50_000)
        assert stub.ends["t", 0] == 101
        assert producer._buffered_bytes == 0

    with_stub(scenario)


def test_errors_have_the_broker_s_message(with_stub):
    async def scenario(stub):
        stub.add_topic("t")

        def refuse(request):
            answer = stub.produce(request, error=87)
            answer.responses[0].partition_responses[0].error_message = "no key on a compacted topic"
            return answer

        stub.plans["Produce"].append(refuse)
        async with Producer(stub.bootstrap) as producer:
            with pytest.raises(
                BrokerError, match=r"topic 't' partition 0: INVALID_RECORD \(87\): no key"
            ) as caught:
                await producer.send_and_wait("t", b"v")
            assert caught.value.code == 87
            assert (await producer.send_and_wait("t", b"v")).offset == 0

    with_stub(scenario)


def test_invalid_use_is_rejected_at_once(with_stub):
    with pytest.raises(ValueError, match="acks='most'"):
        Producer("localhost", acks="most")
    with pytest.raises(ValueError, match="needs acks='all'"):
        Producer("localhost", acks=1, idempotent=True)
    with pytest.raises(ValueError, match="compression='rar'"):
        Producer("localhost", compression="rar")

    async def scenario(stub):
        stub.add_topic("t")
        producer = Producer(stub.bootstrap)
        with pytest.raises(TypeError, match="value must be bytes or None, not str"):
            await producer.send("t", "text")
        await producer.close()
        with pytest.raises(ClosedError):
            await producer.send("t", b"v")

    with_stub(scenario)


def test_records_queue_while_no_broker_answers(with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        producer = Producer(stub.bootstrap)
        await producer.send_and_wait("t", b"0")
        stub.plans["Produce"].extend([stub.CLOSE] * 3)
        stub.plans["Metadata"].extend([stub.CLOSE] * 3)
        first = await producer.send("t", b"1")
        await asyncio.sleep(0.05)
        assert not first.done()
        async with asyncio.timeout(0.02):
            second = await producer.send("t", b"2")
        assert [(await future).offset for future in (first, second)] == [1, 2]
        await producer.close()

    with_stub(scenario)


def test_a_cancelled_producer_drops_what_is_left(with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        stub.plans["Produce"].extend([stub.CLOSE] * 1000)
        futures = []
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1), Producer(stub.bootstrap) as producer:
                futures.append(await producer.send("t", b"v"))
                await asyncio.sleep(60)
        assert futures[0].cancelled()

    with_stub(scenario)


@pytest.mark.parametrize("batch_bytes", [60, 1000])
def test_flush_also_waits_for_records_whose_futures_were_cancelled(with_stub, batch_bytes):
    """As `wait_for` does: the records are sent nevertheless."""

    async def scenario(stub):
        stub.add_topic("t")
        async with Producer(stub.bootstrap, linger_ms=50, batch_bytes=batch_bytes) as producer:
            await producer.send("t", b"first")
            (await producer.send("t", b"last")).cancel()
            await producer.flush()
            assert [record.value for record in stub.records("t")] == [b"first", b"last"]

    with_stub(scenario)
