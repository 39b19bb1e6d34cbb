"""`Cluster(brokers=3)`: members are killed, paused and cut off; acknowledged records stay."""

from __future__ import annotations

import asyncio
import os
import time

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from ottla.client import Admin
from ottla.testing import BrokerError, Cluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

# A silent member, unlike a dead one, is fenced only after the session timeout.
IMPATIENT = {"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 200}
MODES = pytest.mark.parametrize("in_process", [False, True], ids=["processes", "threads"])


def send(cluster, topic, values, timeout_s=30, without=None):
    """Produce with acks=all through brokers other than `without`; return the acknowledged values."""
    producer = Producer(
        {
            "bootstrap.servers": addresses_of_others(cluster, without),
            "enable.idempotence": True,
            "delivery.timeout.ms": int(timeout_s * 1000),
            "linger.ms": 0,
            # A request to a silent broker is retried at another one after this time.
            "socket.timeout.ms": 3000,
            "log_level": 0,
        }
    )
    done = []
    for value in values:
        producer.produce(
            topic,
            value,
            partition=0,
            on_delivery=lambda error, message: done.append((error, message.value())),
        )
    producer.flush(timeout_s + 5)
    return [value for error, value in done if error is None]


def addresses_of_others(cluster, broker):
    return ",".join(cluster.address(other) for other in range(cluster.brokers) if other != broker)


def receive(cluster, topic, count):
    """Read at least `count` records: right after a start the high watermark may still rise."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,  # the end is reported after an empty fetch
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = []
    deadline_s = time.monotonic() + 30
    try:
        while time.monotonic() < deadline_s:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is None:
                values.append(message.value())
            elif message.error().code() == KafkaError._PARTITION_EOF and len(values) >= count:
                return values
    finally:
        consumer.close()
    raise AssertionError(f"no end of {topic} within 30 s, after {len(values)} records")


def ask(cluster, question):
    async def work():
        async with asyncio.timeout(30), Admin(cluster.bootstrap_servers) as admin:
            return await question(admin)

    return asyncio.run(work())


def state(cluster, topic):
    async def question(admin):
        return (await admin.describe_topic_partitions([topic]))[topic].partitions[0]

    return ask(cluster, question)


def numbers(start, count=50):
    return [b"%d" % n for n in range(start, start + count)]


@MODES
def test_a_killed_leader_is_replaced_and_comes_back(in_process):
    with Cluster(3, in_process=in_process) as cluster:
        cluster.create_topic("t")
        assert send(cluster, "t", numbers(0)) == numbers(0)
        leader = state(cluster, "t").leader
        cluster.kill(leader)
        assert not cluster.is_running(leader)
        assert not cluster.running
        assert send(cluster, "t", numbers(50)) == numbers(50)
        assert state(cluster, "t").leader != leader
        cluster.start(leader)
        assert cluster.running
        wait_until(lambda: len(state(cluster, "t").isr) == 3)
        assert receive(cluster, "t", 100) == numbers(0, 100)


def test_killing_all_brokers_at_once_loses_no_data():
    with Cluster(3) as cluster:
        addresses = cluster.bootstrap_servers
        cluster.create_topic("t", config={"flush.messages": 1})
        assert send(cluster, "t", numbers(0)) == numbers(0)
        cluster.kill()
        assert not any(cluster.is_running(broker) for broker in range(3))
        cluster.start()
        assert cluster.bootstrap_servers == addresses
        assert receive(cluster, "t", 50) == numbers(0)


@MODES
def test_a_paused_member_leaves_the_isr_and_catches_up(in_process):
    with Cluster(3, in_process=in_process, config=IMPATIENT) as cluster:
        cluster.create_topic("t")
        follower = state(cluster, "t").replicas[2]
        cluster.pause(follower)
        assert cluster.is_running(follower)
        assert send(cluster, "t", numbers(0), without=follower) == numbers(0)
        wait_until(lambda: follower not in state_by_others(cluster, "t", follower).isr)
        cluster.resume(follower)
        wait_until(lambda: len(state(cluster, "t").isr) == 3)
        assert receive(cluster, "t", 50) == numbers(0)


def state_by_others(cluster, topic, paused):
    async def work():
        async with asyncio.timeout(30), Admin(addresses_of_others(cluster, paused)) as admin:
            return (await admin.describe_topic_partitions([topic]))[topic].partitions[0]

    return asyncio.run(work())


@MODES
def test_records_acknowledged_around_an_isolated_leader_are_not_lost(in_process):
    with Cluster(3, in_process=in_process, config=IMPATIENT) as cluster:
        cluster.create_topic("t")
        assert send(cluster, "t", numbers(0)) == numbers(0)
        leader = state(cluster, "t").leader
        cluster.isolate(leader)
        kept = send(cluster, "t", numbers(1000), timeout_s=1.5)
        others = wait_until(
            lambda: (seen := state_by_others(cluster, "t", leader)).leader not in (leader, -1) and seen
        )
        assert leader not in others.isr
        # The isolated broker still reports itself as leader.
        assert send(cluster, "t", numbers(50), without=leader) == numbers(50)
        cluster.heal()
        wait_until(lambda: len(state(cluster, "t").isr) == 3)
        values = receive(cluster, "t", 100 + len(kept))
        assert [value for value in values if int(value) < 1000] == numbers(0, 100)
        assert set(kept) <= set(values)
        assert len(set(values)) == len(values)


def test_two_of_three_down_refuse_writes_until_one_is_back():
    with Cluster(3) as cluster:
        cluster.create_topic("t")
        assert send(cluster, "t", numbers(0)) == numbers(0)
        leader = state(cluster, "t").leader
        others = [broker for broker in range(3) if broker != leader]
        for broker in others:
            cluster.kill(broker)
        assert send(cluster, "t", numbers(50, 1), timeout_s=2) == []
        cluster.start(others[0])
        assert send(cluster, "t", numbers(100)) == numbers(100)
        cluster.start()
        values = receive(cluster, "t", 100)
        assert [value for value in values if value != b"50"] == numbers(0) + numbers(100)


def test_rolling_restart_keeps_addresses_and_data(tmp_path):
    with Cluster(3, data_dir=tmp_path / "mine") as cluster:
        addresses = cluster.bootstrap_servers
        cluster.create_topic("t")
        assert send(cluster, "t", numbers(0)) == numbers(0)
        pids = cluster.pids
        for broker in range(3):
            cluster.restart(broker)
            wait_until(lambda: len(state(cluster, "t").isr) == 3)
        assert cluster.bootstrap_servers == addresses
        assert not set(cluster.pids) & set(pids)
        assert cluster.data_dir == str(tmp_path / "mine")
    assert sorted(os.listdir(tmp_path / "mine")) == ["broker-0", "broker-1", "broker-2", "cluster.id"]
    with Cluster(3, data_dir=tmp_path / "mine") as cluster:
        assert receive(cluster, "t", 50) == numbers(0)


def test_members_beyond_the_voters_are_brokers_only():
    with Cluster(4, proxied="none") as cluster:
        cluster.create_topic("t", 4, replication_factor=4)
        quorum = ask(cluster, lambda admin: admin.describe_quorum())
        assert sorted(row.node_id for row in quorum.voters) == [0, 1, 2]
        assert [row.node_id for row in quorum.observers] == [3]
        assert send(cluster, "t", numbers(0)) == numbers(0)


def test_clients_can_be_isolated():
    with Cluster(3, proxied="all", config=IMPATIENT) as cluster:
        cluster.create_topic("t")
        assert send(cluster, "t", numbers(0)) == numbers(0)
        cluster.isolate(2, clients=True)
        assert send(cluster, "t", numbers(50), timeout_s=60) == numbers(50)
        cluster.heal()
        wait_until(lambda: len(state(cluster, "t").isr) == 3)


def test_invalid_use_is_refused():
    with Cluster(2, proxied="none") as cluster:
        with pytest.raises(ValueError, match="cannot be cut: it has no proxies"):
            cluster.isolate(0)
        with pytest.raises(ValueError, match="broker 2: the cluster has brokers 0 to 1"):
            cluster.pause(2)
        cluster.kill(1)
        with pytest.raises(BrokerError, match="cannot be paused: it does not run"):
            cluster.pause(1)
    with Cluster(2) as cluster, pytest.raises(ValueError, match="clients=True needs"):
        cluster.isolate(0, clients=True)
