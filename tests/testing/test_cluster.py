"""`Cluster` with real brokers."""

from __future__ import annotations

import asyncio
import os

import pytest

from ottla.client import Admin, Consumer, Producer
from ottla.testing import BrokerError, Cluster
from tests.support.waiting import wait_until


def produce(cluster: Cluster, topic: str, *values: bytes) -> None:
    async def work() -> None:
        async with Producer(cluster.bootstrap_servers) as producer:
            futures = [await producer.send(topic, value) for value in values]
            await asyncio.gather(*futures)

    asyncio.run(work())


def consume(cluster: Cluster, topic: str, count: int) -> list[bytes | None]:
    async def work() -> list[bytes | None]:
        values: list[bytes | None] = []
        async with asyncio.timeout(20), Consumer(cluster.bootstrap_servers) as consumer:
            await consumer.assign(topic)
            while len(values) < count:
                values += [record.value for record in await consumer.poll()]
        return values

    return asyncio.run(work())


@pytest.mark.parametrize("in_process", [False, True])
def test_a_cluster_starts_and_cleans_up(in_process):
    with Cluster(in_process=in_process) as cluster:
        assert cluster.running
        data_dir = cluster.data_dir
        assert os.path.isdir(data_dir)
        cluster.create_topic("t", 2)
        produce(cluster, "t", b"a")
    assert not cluster.running
    assert not os.path.exists(data_dir)
    assert not os.path.exists(os.path.dirname(data_dir))


@pytest.mark.parametrize("in_process", [False, True])
def test_restart_keeps_address_and_data(in_process):
    with Cluster(in_process=in_process) as cluster:
        cluster.create_topic("t")
        address = cluster.bootstrap_servers
        produce(cluster, "t", b"one")
        cluster.restart()
        assert cluster.bootstrap_servers == address
        produce(cluster, "t", b"two")
        cluster.stop()
        assert not cluster.running
        cluster.start()
        assert cluster.bootstrap_servers == address
        assert consume(cluster, "t", 2) == [b"one", b"two"]


def test_kill_is_survived():
    with Cluster(config={"log.flush.interval.messages": 1}) as cluster:
        cluster.create_topic("t", config={"flush.messages": 1})
        address, pid = cluster.bootstrap_servers, cluster.pid
        produce(cluster, "t", b"one", b"two")
        cluster.kill()
        assert not cluster.running
        cluster.restart()
        assert cluster.bootstrap_servers == address
        assert cluster.pid != pid
        assert consume(cluster, "t", 2) == [b"one", b"two"]


def test_config_reaches_the_broker():
    with Cluster(config={"num.partitions": 4, "auto.create.topics.enable": False}) as cluster:

        async def work() -> dict[str, str | None]:
            async with Admin(cluster.bootstrap_servers) as admin:
                return {entry.name: entry.value for entry in await admin.describe_broker_configs(1)}

        configs = asyncio.run(work())
        assert configs["num.partitions"] == "4"
        assert configs["auto.create.topics.enable"] == "false"


def test_a_given_data_directory_is_kept(tmp_path):
    with Cluster(data_dir=tmp_path / "mine") as cluster:
        cluster.create_topic("t")
        produce(cluster, "t", b"kept")
    with Cluster(data_dir=tmp_path / "mine") as cluster:
        assert consume(cluster, "t", 1) == [b"kept"]
    assert os.path.isdir(tmp_path / "mine")


@pytest.mark.parametrize("in_process", [False, True])
def test_an_invalid_config_fails_with_the_reason(in_process):
    with (
        pytest.raises(BrokerError, match=r"num\.partitions=many"),
        Cluster(config={"num.partitions": "many"}, in_process=in_process),
    ):
        pass


def test_a_cluster_that_was_killed_can_be_closed():
    with Cluster() as cluster:
        cluster.kill()


def test_invalid_use_is_rejected():
    with pytest.raises(ValueError, match="brokers=0: expected 1 to 100"):
        Cluster(0)
    with pytest.raises(ValueError, match="proxied='some': expected one of members, all, none"):
        Cluster(3, proxied="some")
    with pytest.raises(RuntimeError, match="not started"):
        _ = Cluster().bootstrap_servers
    with Cluster(in_process=True) as cluster:
        with pytest.raises(ValueError, match="broker 1: the cluster has brokers 0 to 0"):
            cluster.kill(1)
        with pytest.raises(ValueError, match="cannot be cut: it has one broker"):
            cluster.isolate(0)


def test_create_topic_works_inside_a_running_loop():
    async def work(cluster: Cluster) -> None:
        cluster.create_topic("from-a-loop", 3)

    with Cluster(in_process=True) as cluster:
        asyncio.run(work(cluster))


def test_a_broker_does_not_outlive_its_parent():
    with Cluster() as cluster:
        process = cluster._nodes[0]._process
        process.stdin.close()
        process.wait(10)
        assert process.returncode == 0
        wait_until(lambda: not cluster.running, "the broker ends", 5)
