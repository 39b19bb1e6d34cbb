"""Brokers are killed under load: acknowledged records are read back once and in order."""

from __future__ import annotations

import time

import pytest

from ottla.testing import Cluster
from tests.support.cluster.load import Load
from tests.support.cluster.view import ClusterView

pytest.importorskip("confluent_kafka")

PARTITIONS = 6


def survivors_view(cluster: Cluster, *dead: int) -> ClusterView:
    alive = [broker for broker in range(cluster.brokers) if broker not in dead]
    return ClusterView(",".join(cluster.address(broker) for broker in alive))


def test_no_single_failure_loses_acknowledged_records() -> None:
    with Cluster(brokers=3, proxied="none") as cluster:
        cluster.create_topic("t", PARTITIONS)
        view = ClusterView(cluster.bootstrap_servers)
        with Load(cluster.bootstrap_servers, "t", PARTITIONS) as load:
            load.await_acks(1000)
            controller = view.quorum().leader_id
            leader = next(b for b in range(3) if b != controller)
            for victim in (leader, controller):
                died = time.monotonic()
                cluster.kill(victim)
                load.await_all_partitions()
                assert load.longest_gap_s(died) < 5.0
                cluster.start(victim)
                view.await_isr("t", 3)
        assert not load.errors
        load.check()


def test_the_controller_that_leads_partitions_dies() -> None:
    """Two fail-overs: the quorum's, then those of the partitions."""
    with Cluster(brokers=3, proxied="none") as cluster:
        cluster.create_topic("t", PARTITIONS)
        view = ClusterView(cluster.bootstrap_servers)
        with Load(cluster.bootstrap_servers, "t", PARTITIONS) as load:
            load.await_acks(500)
            controller = view.quorum().leader_id
            assert any(state.leader == controller for state in view.partitions("t").values())
            cluster.kill(controller)
            load.await_all_partitions()
            assert survivors_view(cluster, controller).quorum().leader_id != controller
        assert not load.errors
        load.check()


def test_a_paused_follower_leaves_the_isr_and_comes_back() -> None:
    config = {"replica.lag.time.max.ms": 1000, "replica.fetch.wait.max.ms": 300}
    with Cluster(brokers=3, config=config, proxied="none") as cluster:
        cluster.create_topic("t", 1)
        view = ClusterView(cluster.bootstrap_servers)
        with Load(cluster.bootstrap_servers, "t", 1) as load:
            load.await_acks(200)
            follower = next(b for b in view.partitions("t")[0].replicas if b != view.leader("t"))
            cluster.pause(follower)
            survivors_view(cluster, follower).await_isr("t", 2)
            load.await_acks(200)
            cluster.resume(follower)
            view.await_isr("t", 3)
            load.await_acks(200)
        assert not load.errors
        load.check()


def test_all_brokers_die_at_once_with_flush_on() -> None:
    config = {"log.flush.interval.messages": 1}
    with Cluster(brokers=3, config=config, proxied="none") as cluster:
        cluster.create_topic("t", 2)
        with Load(cluster.bootstrap_servers, "t", 2) as load:
            load.await_acks(300)
            cluster.kill()
            cluster.start()
            ClusterView(cluster.bootstrap_servers).await_isr("t", 3)
            load.await_all_partitions(60.0)
        assert not load.errors
        load.check()


def test_a_rolling_restart_brings_no_error_to_clients() -> None:
    with Cluster(brokers=3, proxied="none") as cluster:
        cluster.create_topic("t", PARTITIONS)
        view = ClusterView(cluster.bootstrap_servers)
        with Load(cluster.bootstrap_servers, "t", PARTITIONS) as load:
            load.await_acks(500)
            for broker in range(3):
                cluster.restart(broker)
                view.await_isr("t", 3)
                load.await_all_partitions()
        assert not load.errors
        load.check()
