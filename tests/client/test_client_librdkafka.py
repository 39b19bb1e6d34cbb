"""The client against librdkafka: its clients, and its mock cluster of three brokers."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import Consumer as OtherConsumer
from confluent_kafka import Producer as OtherProducer
from confluent_kafka import TopicPartition

from ottla.client import ClusterClient, Consumer, Producer
from ottla.client.core.partitioner import partition_for_key


@pytest.fixture(scope="module")
def mock_cluster():
    """Addresses of three brokers that live as long as the producer that made them."""
    owner = OtherProducer({"bootstrap.servers": "ignored", "test.mock.num.brokers": 3, "log_level": 0})
    brokers = owner.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    owner.flush(5)


async def read_all(consumer, count):
    records = []
    async with asyncio.timeout(20):
        while len(records) < count:
            records += await consumer.poll()
    return records


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_librdkafka_reads_what_the_client_sends(mock_cluster, compression):
    topic = f"ours-{compression}"

    async def send():
        async with Producer(mock_cluster, compression=compression, batch_bytes=2_000) as producer:
            for n in range(200):
                await producer.send(topic, b"v%d" % n, key=b"%d" % n, headers=[("h", b"x"), ("null", None)])

    asyncio.run(send())
    consumer = OtherConsumer(
        {"bootstrap.servers": mock_cluster, "group.id": "g", "check.crcs": True, "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(4)])
    seen = []
    while len(seen) < 200:
        message = consumer.poll(10)
        assert message is not None, f"only {len(seen)} of 200 arrived"
        assert message.error() is None
        seen.append((message.partition(), message.key(), message.value(), message.headers()))
    consumer.close()
    expected = [
        (partition_for_key(b"%d" % n, 4), b"%d" % n, b"v%d" % n, [("h", b"x"), ("null", None)])
        for n in range(200)
    ]
    assert sorted(seen) == sorted(expected)
    for partition in range(4):
        assert [row for row in seen if row[0] == partition] == [
            row for row in expected if row[0] == partition
        ]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_client_reads_what_librdkafka_sends(mock_cluster, compression):
    topic = f"theirs-{compression}"
    producer = OtherProducer(
        {"bootstrap.servers": mock_cluster, "compression.type": compression, "linger.ms": 20, "log_level": 0}
    )
    for n in range(200):
        producer.produce(
            topic, b"v%d" % n, key=b"k", partition=n % 4, headers=[("h", b"%d" % n)], timestamp=n + 1
        )
    assert producer.flush(10) == 0

    async def receive():
        async with Consumer(mock_cluster) as consumer:
            assert await consumer.assign(topic) == [0, 1, 2, 3]
            return await read_all(consumer, 200)

    records = asyncio.run(receive())
    for partition in range(4):
        mine = [record for record in records if record.partition == partition]
        assert [record.offset for record in mine] == list(range(50))
        assert [record.value for record in mine] == [b"v%d" % n for n in range(partition, 200, 4)]
        assert [record.timestamp_ms for record in mine] == list(range(partition + 1, 201, 4))
        assert mine[0].headers == (("h", b"%d" % partition),)


def test_leaders_on_several_brokers_are_found(mock_cluster):
    async def work():
        async with ClusterClient(mock_cluster) as cluster:
            # The mock chooses leaders at random: 20 topics of four partitions have more than one leader.
            places = [(f"spread{n}", partition) for n in range(20) for partition in range(4)]
            for topic in dict(places):
                await cluster.topic(topic, create=True)
            assert len(await cluster.leaders_of(places)) > 1
            async with Producer(cluster) as producer:
                for topic, partition in places:
                    delivery = await producer.send_and_wait(topic, b"v", partition=partition)
                    assert delivery[:3] == (topic, partition, 0)

    asyncio.run(work())


def test_members_of_a_group_on_their_brokers(mock_cluster):
    topic = "of-a-group"

    async def scenario():
        async with Producer(mock_cluster) as producer:
            for n in range(40):
                await producer.send(topic, b"%d" % n, partition=n % 4)
        # The mock encodes JoinGroup 6 differently, so this test uses the consumer protocol.
        options = {"group_id": topic, "group_protocol": "consumer"}
        async with Consumer(mock_cluster, **options) as one, Consumer(mock_cluster, **options) as two:
            seen = []
            async with asyncio.timeout(40):
                for consumer in (one, two):
                    consumer.subscribe(topic)
                while len(one.assignment) != 2 or len(two.assignment) != 2 or len(set(seen)) < 40:
                    for consumer in (one, two):
                        seen += [(each.partition, each.offset) for each in await consumer.poll(timeout_ms=50)]
        async with Consumer(mock_cluster, group_id=topic) as consumer:
            committed = await consumer.committed([(topic, number) for number in range(4)])
        return seen, {number: row.offset for (_, number), row in committed.items()}

    seen, committed = asyncio.run(scenario())
    assert sorted(set(seen)) == [(number, offset) for number in range(4) for offset in range(10)]
    assert committed == dict.fromkeys(range(4), 10)
