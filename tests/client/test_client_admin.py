"""The admin client and the rest of the client against a real broker."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from ottla.client import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    Admin,
    BrokerError,
    Consumer,
    NewTopic,
    OffsetOutOfRangeError,
    Producer,
    TopicExistsError,
    UnknownTopicError,
)


@pytest.fixture
def with_admin(ottla_cluster):
    """Run `scenario(admin)` on a fresh loop."""

    def run(scenario):
        async def whole():
            async with asyncio.timeout(30), Admin(ottla_cluster.bootstrap_servers) as admin:
                return await scenario(admin)

        return asyncio.run(whole())

    return run


def test_topic_create_describe_delete(with_admin):
    async def scenario(admin):
        new = [NewTopic("adm-a", partitions=2, configs={"retention.ms": "5000"}), NewTopic("adm-b")]
        created = await admin.create_topics(new)
        assert [(row.name, row.partitions, row.replication_factor) for row in created] == [
            ("adm-a", 2, 1),
            ("adm-b", 1, 1),
        ]
        info = await admin.wait_for_topic("adm-a", 2)
        assert info.id == created[0].id
        assert [row.leader for row in info.partitions.values()] == [1, 1]
        assert {"adm-a", "adm-b"} <= {topic.name for topic in await admin.list_topics()}
        with pytest.raises(TopicExistsError, match="'adm-a'"):
            await admin.create_topics([NewTopic("adm-a")])
        await admin.create_partitions("adm-a", 4)
        assert len((await admin.wait_for_topic("adm-a", 4)).partitions) == 4
        with pytest.raises(BrokerError, match="'adm-a': INVALID_PARTITIONS"):
            await admin.create_partitions("adm-a", 1)
        await admin.delete_topics(["adm-a", "adm-b"])
        with pytest.raises(UnknownTopicError, match="'adm-a'"):
            await admin.describe_topics(["adm-a"])
        with pytest.raises(UnknownTopicError, match="'adm-a'"):
            await admin.delete_topics(["adm-a"])

    with_admin(scenario)


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (NewTopic("no spaces"), "INVALID_TOPIC_EXCEPTION"),
        (NewTopic("adm-rf", replication_factor=9), "INVALID_REPLICATION_FACTOR"),
        (NewTopic("adm-zero", partitions=0), "INVALID_PARTITIONS"),
        (NewTopic("adm-config", configs={"retention.ms": "soon"}), "INVALID_CONFIG"),
        (NewTopic("adm-key", configs={"no.such.key": "1"}), "INVALID_CONFIG"),
    ],
)
def test_invalid_topics(with_admin, topic, error):
    async def scenario(admin):
        with pytest.raises(BrokerError, match=f"'{topic.name}': {error}"):
            await admin.create_topics([topic])

    with_admin(scenario)


def test_validation_alone_changes_nothing(with_admin):
    async def scenario(admin):
        await admin.create_topics([NewTopic("adm-only")], validate_only=True)
        with pytest.raises(UnknownTopicError):
            await admin.describe_topics(["adm-only"])

    with_admin(scenario)


def test_configs_are_set_and_reset(with_admin, ottla_topic):
    async def scenario(admin):
        async def now():
            entries = (await admin.describe_topic_configs([ottla_topic]))[ottla_topic]
            return {entry.name: entry for entry in entries}

        assert (await now())["retention.ms"].value == "604800000"
        await admin.alter_topic_configs(
            ottla_topic, values={"retention.ms": "77", "cleanup.policy": "compact"}
        )
        configs = await now()
        assert (configs["retention.ms"].value, configs["retention.ms"].source_name) == ("77", "topic")
        assert configs["cleanup.policy"].value == "compact"
        await admin.alter_topic_configs(ottla_topic, unset=["retention.ms"])
        configs = await now()
        assert configs["retention.ms"].value == "604800000"
        assert configs["retention.ms"].source != 1
        assert configs["cleanup.policy"].value == "compact"
        with pytest.raises(BrokerError, match="INVALID_CONFIG"):
            await admin.alter_topic_configs(ottla_topic, values={"retention.ms": "never"})

    with_admin(scenario)


def test_offsets_by_position_and_by_time(with_admin, ottla_topic):
    async def scenario(admin):
        base_ms = 1_700_000_000_000
        async with Producer(admin.cluster) as producer:
            for n in range(10):
                await producer.send_and_wait(ottla_topic, b"%d" % n, timestamp_ms=base_ms + 1000 * n)
        key = (ottla_topic, 0)

        async def at(timestamp):
            return (await admin.list_offsets({key: timestamp}))[key]

        assert (await at(EARLIEST)).offset == 0
        assert (await at(LATEST)).offset == 10
        assert (await at(MAX_TIMESTAMP))[:2] == (9, base_ms + 9000)
        assert (await at(base_ms + 3500))[:2] == (4, base_ms + 4000)
        assert (await at(base_ms + 99_000)).offset == -1
        assert await admin.offsets_of(ottla_topic) == {0: (0, 10)}
        async with Consumer(admin.cluster) as consumer:
            await consumer.assign(ottla_topic, start=datetime.fromtimestamp(base_ms / 1000 + 7, UTC))
            assert [record.offset for record in await consumer.poll(timeout_ms=5000)] == [7, 8, 9]
        assert await admin.delete_records(ottla_topic, {0: 6}) == {0: 6}
        assert await admin.offsets_of(ottla_topic) == {0: (6, 10)}
        with pytest.raises(OffsetOutOfRangeError):
            await admin.delete_records(ottla_topic, {0: 11})
        assert await admin.delete_records(ottla_topic, {0: -1}) == {0: 10}

    with_admin(scenario)


def test_cluster_and_disks(with_admin, ottla_cluster, ottla_topic):
    async def scenario(admin):
        info = await admin.describe_cluster()
        host, _, port = ottla_cluster.bootstrap_servers.rpartition(":")
        assert [(node.id, node.host, node.port) for node in info.nodes] == [(1, host, int(port))]
        assert info.cluster_id
        async with Producer(admin.cluster) as producer:
            await producer.send(ottla_topic, b"x" * 5000)
        (directory,) = await admin.describe_log_dirs({ottla_topic: [0]})
        (replica,) = directory.replicas
        assert directory.path == ottla_cluster.data_dir
        assert (replica.topic, replica.partition) == (ottla_topic, 0)
        assert 5000 < replica.size_bytes < 6000
        everything = await admin.describe_log_dirs()
        assert any(row.topic == ottla_topic for row in everything[0].replicas)

    with_admin(scenario)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.ottla_topic(partitions=3)
def test_many_records_round_trip(with_admin, ottla_topic, compression):
    async def scenario(admin):
        async with Producer(admin.cluster, compression=compression) as producer:
            for n in range(5000):
                await producer.send(ottla_topic, b"value %d" % n, key=b"%d" % n, headers={"n": b"%d" % n})
        seen = []
        async with Consumer(admin.cluster) as consumer:
            await consumer.assign(ottla_topic)
            while len(seen) < 5000:
                seen += await consumer.poll(5000)
        assert sorted(int(record.key) for record in seen) == list(range(5000))
        for partition in range(3):
            keys = [int(record.key) for record in seen if record.partition == partition]
            assert keys == sorted(keys)
            assert keys

    with_admin(scenario)
