"""Transactions of the producer and consumer, in both versions of the protocol, with real brokers."""

from __future__ import annotations

import asyncio

import confluent_kafka
import pytest

from ottla.client import (
    SAFE_DOWNGRADE,
    Admin,
    ClientError,
    Consumer,
    Producer,
    ProducerFencedError,
    TransactionFailedError,
)
from ottla.testing import Cluster
from ottla.testing.topics import topic_name_for

PARTITIONS = 3
QUICK = {
    "group.initial.rebalance.delay.ms": 0,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
}
TWO_PHASES = {**QUICK, "transaction.two.phase.commit.enable": True}


def run(scenario, timeout_s=40):
    async def whole():
        async with asyncio.timeout(timeout_s):
            return await scenario()

    return asyncio.run(whole())


@pytest.fixture(scope="module", params=[1, 2])
def txn_version(request):
    return request.param


@pytest.fixture(scope="module")
def servers(txn_version):
    with Cluster(config=TWO_PHASES) as cluster:
        if txn_version == 1:

            async def lower():
                async with Admin(cluster.bootstrap_servers) as admin:
                    await admin.update_features({"transaction.version": 1}, upgrade_type=SAFE_DOWNGRADE)

            run(lower)
        yield cluster.bootstrap_servers


@pytest.fixture
def topic(servers, request):
    name = topic_name_for(request.node.name)

    async def create():
        from ottla.client import NewTopic

        async with Admin(servers) as admin:
            await admin.create_topics([NewTopic(name, PARTITIONS)])
            await admin.wait_for_topic(name, PARTITIONS)

    run(create)
    return name


async def values_of(servers, topic, level="read_committed"):
    """All records that can be read now, by partition."""
    async with Consumer(servers, isolation_level=level) as consumer:
        await consumer.assign(topic)
        keys = [(topic, number) for number in range(PARTITIONS)]
        ends = await consumer.list_offsets(dict.fromkeys(keys, -1), read_committed=level == "read_committed")
        found = []
        while any(consumer.position(*key) < ends[key].offset for key in keys):
            found += [record.value for record in await consumer.poll()]
        return sorted(found)


def test_uses_the_transaction_version_of_the_cluster(servers, topic, txn_version):
    async def scenario():
        async with Producer(servers, transactional_id=topic) as producer:
            pairs = []
            for number in range(3):
                async with producer.transaction():
                    await producer.send(topic, b"%d" % number, partition=0)
                pairs.append(producer._transactions.producer)
            # In version 2 every transaction has a new epoch.
            assert len(set(pairs)) == (3 if txn_version == 2 else 1)
            assert producer._transactions.handle.is_second_version == (txn_version == 2)
        assert await values_of(servers, topic) == [b"0", b"1", b"2"]

    run(scenario)


def test_committed_records_are_visible_and_aborted_ones_are_not(servers, topic):
    async def scenario():
        async with Producer(servers, transactional_id=topic) as producer:
            expected = []
            for number in range(12):
                await producer.begin_transaction()
                rows = [b"%d-%d" % (number, partition) for partition in range(PARTITIONS)]
                for partition, row in enumerate(rows):
                    await producer.send(topic, row, partition=partition)
                if number % 3 == 1:
                    await producer.abort_transaction()
                elif number % 3 == 2:
                    await producer.flush()
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
                    expected += rows
            assert await values_of(servers, topic) == sorted(expected)
            assert set(await values_of(servers, topic, "read_uncommitted")) > set(expected)

    run(scenario)


def test_read_committed_consumers_wait_for_the_end(servers, topic):
    async def scenario():
        async with (
            Producer(servers, transactional_id=topic) as producer,
            Consumer(servers, isolation_level="read_committed", fetch_max_wait_ms=100) as consumer,
        ):
            await consumer.assign(topic, [0])
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"open", partition=0)
            assert await consumer.poll(timeout_ms=1_000) == []
            assert consumer.last_stable_offset(topic, 0) == 0
            assert consumer.high_watermark(topic, 0) == 1
            assert await consumer._fetcher.resolve({(topic, 0): "end"}) == {(topic, 0): 0}
            await producer.commit_transaction()
            found = await consumer.poll(timeout_ms=5_000)
            assert [record.value for record in found] == [b"open"]

    run(scenario)


def test_an_exception_aborts_and_an_empty_transaction_ends(servers, topic):
    async def scenario():
        async with Producer(servers, transactional_id=topic) as producer:
            async with producer.transaction():
                pass
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction():
                    await producer.send_and_wait(topic, b"never", partition=0)
                    raise ZeroDivisionError
            async with producer.transaction():
                await producer.send(topic, b"kept", partition=0)
        assert await values_of(servers, topic) == [b"kept"]

    run(scenario)


def test_closing_aborts_an_open_transaction(servers, topic):
    async def scenario():
        async with Producer(servers, transactional_id=topic) as producer:
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"left", partition=0)
        async with Producer(servers, transactional_id=topic) as producer, producer.transaction():
            await producer.send(topic, b"kept", partition=0)
        assert await values_of(servers, topic) == [b"kept"]

    run(scenario)


def test_a_second_producer_fences_the_first(servers, topic):
    async def scenario():
        async with (
            Producer(servers, transactional_id=topic) as first,
            Producer(servers, transactional_id=topic) as second,
        ):
            await first.begin_transaction()
            await first.send_and_wait(topic, b"zombie", partition=0)
            async with second.transaction():
                await second.send(topic, b"heir", partition=0)
            await first.send(topic, b"zombie too", partition=1)
            with pytest.raises((ProducerFencedError, TransactionFailedError)):
                await first.commit_transaction()
            with pytest.raises(ProducerFencedError):
                await first.abort_transaction()
            with pytest.raises(ProducerFencedError):
                await first.begin_transaction()
            # It can take the id back with init_transactions.
            await first.init_transactions()
            async with first.transaction():
                await first.send(topic, b"back", partition=2)
        assert await values_of(servers, topic) == [b"back", b"heir"]

    run(scenario)


def test_a_transaction_that_takes_too_long_is_aborted(servers, topic):
    async def scenario():
        async with Producer(servers, transactional_id=topic, transaction_timeout_ms=300) as producer:
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"late", partition=0)
            await asyncio.sleep(1)
            with pytest.raises(ProducerFencedError, match="time-out"):
                await producer.commit_transaction()
        assert await values_of(servers, topic) == []

    run(scenario)


def test_offsets_are_committed_with_the_transaction(servers, topic):
    async def scenario():
        async with Producer(servers) as plain:
            for number in range(6):
                await plain.send(topic, b"%d" % number, partition=0)
        options = {"group_id": topic, "auto_commit": False, "isolation_level": "read_committed"}
        async with (
            Consumer(servers, **options) as consumer,
            Producer(servers, transactional_id=topic) as producer,
        ):
            consumer.subscribe(topic)
            seen = []
            while len(seen) < 6:
                seen += await consumer.poll()
            await producer.begin_transaction()
            await producer.send(topic, b"out", partition=1)
            await producer.send_offsets_to_transaction({(topic, 0): 4}, consumer)
            await producer.abort_transaction()
            assert await consumer.committed() == {}
            await consumer.seek_to_committed()
            assert consumer.position(topic, 0) == 0
            async with producer.transaction():
                await producer.send_offsets_to_transaction({(topic, 0): 4}, consumer)
            await consumer.seek_to_committed()
            assert consumer.position(topic, 0) == 4
            async with producer.transaction():
                await producer.send_offsets_to_transaction({(topic, 0): 5}, topic + "-other")
        async with Consumer(servers, group_id=topic + "-other") as other:
            assert (await other.committed())[topic, 0].offset == 5

    run(scenario)


def test_a_removed_member_commits_nothing(servers, topic):
    async def scenario():
        async with Producer(servers) as plain:
            await plain.send(topic, b"in", partition=0)
        async with Producer(servers, transactional_id=topic) as producer:
            consumer = Consumer(servers, group_id=topic, auto_commit=False)
            consumer.subscribe(topic)
            while not await consumer.poll():
                pass
            identity = consumer.member_identity()
            await consumer.close()
            consumer.member_identity = lambda: identity
            await producer.begin_transaction()
            with pytest.raises(TransactionFailedError):
                await producer.send_offsets_to_transaction({(topic, 0): 1}, consumer)
            with pytest.raises(TransactionFailedError):
                await producer.send(topic, b"out")
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send(topic, b"next", partition=0)
        async with Consumer(servers, group_id=topic) as other:
            assert await other.committed() == {}

    run(scenario)


def test_librdkafka_reads_the_same_records(servers, topic):
    async def scenario():
        async with Producer(servers, transactional_id=topic, compression="zstd") as producer:
            for number in range(20):
                await producer.begin_transaction()
                await producer.send(topic, b"%d" % number, partition=0)
                await producer.flush()
                await (producer.abort_transaction() if number % 2 else producer.commit_transaction())
        return await values_of(servers, topic)

    ours = run(scenario)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": topic,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    theirs = []
    while (message := consumer.poll(10)) is not None and message.error() is None:
        theirs.append(message.value())
    consumer.close()
    assert sorted(theirs) == ours == sorted(b"%d" % number for number in range(0, 20, 2))


@pytest.mark.parametrize("committed", [True, False])
def test_two_phase_commit(servers, topic, committed):
    async def scenario():
        options = {"transactional_id": topic, "two_phase_commit": True}
        crashed = Producer(servers, **options)
        await crashed.begin_transaction()
        await crashed.send(topic, b"prepared", partition=0)
        prepared = await crashed.prepare_transaction()
        with pytest.raises(ClientError, match="prepared"):
            await crashed.send(topic, b"too late", partition=0)
        await crashed.close(flush=False)
        async with Producer(servers, **options) as producer:
            assert await producer.init_transactions(keep_prepared=True) == prepared
            done = await producer.complete_transaction(prepared if committed else None)
            assert done == committed
            async with producer.transaction():
                await producer.send(topic, b"next", partition=1)
            assert await producer.init_transactions(keep_prepared=True) is None
        assert await values_of(servers, topic) == ([b"next", b"prepared"] if committed else [b"next"])

    run(scenario)


def test_invalid_use_is_rejected(servers, topic):
    async def scenario():
        with pytest.raises(ValueError, match="transactional_id"):
            Producer(servers, transactional_id=topic, acks=1)
        with pytest.raises(ValueError, match="two_phase_commit"):
            Producer(servers, two_phase_commit=True)
        with pytest.raises(ValueError, match="isolation_level"):
            Consumer(servers, isolation_level="serializable")
        async with Producer(servers) as producer:
            with pytest.raises(ClientError, match="transactional_id="):
                await producer.begin_transaction()
        async with Producer(servers, transactional_id=topic) as producer:
            with pytest.raises(ClientError, match="begin one first"):
                await producer.send(topic, b"x")
            with pytest.raises(ClientError, match="no transaction to abort"):
                await producer.abort_transaction()
            await producer.begin_transaction()
            with pytest.raises(ClientError, match="commit or abort it first"):
                await producer.begin_transaction()
            with pytest.raises(ClientError, match="two_phase_commit=True"):
                await producer.prepare_transaction()
        async with Producer(servers, transactional_id=topic, transaction_timeout_ms=10**8) as producer:
            with pytest.raises(ClientError, match="INVALID_TRANSACTION_TIMEOUT"):
                await producer.begin_transaction()

    run(scenario)
