"""The leader of a partition and the controller are killed at the same time."""

from __future__ import annotations

import os
import signal

from ottla.testing import Cluster
from tests.support.cluster.files import await_equal_replicas
from tests.support.cluster.load import Load
from tests.support.cluster.view import ClusterView


def kill_at_once(cluster: Cluster, *brokers: int) -> None:
    for broker in brokers:
        pid = cluster.pids[broker]
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    for broker in brokers:
        cluster.kill(broker)  # already dead: update the state of `cluster`


def test_leader_and_controller_of_five() -> None:
    """Two of five: the quorum continues, as do partitions with two replicas on other brokers."""
    with Cluster(brokers=5, proxied="none") as cluster:
        view = ClusterView(cluster.bootstrap_servers)
        controller = view.quorum().leader_id
        leader, second, third, fourth = (broker for broker in range(5) if broker != controller)
        assigned = [
            [leader, second, third],
            [controller, third, fourth],
            [leader, controller, second],  # has one replica left: writes wait
        ]
        view.create("t", *assigned, min_insync_replicas="2")
        with Load(cluster.bootstrap_servers, "t", 3) as load:
            load.await_all_partitions()
            kill_at_once(cluster, leader, controller)
            going_on = [0, 1]
            load.await_partitions(going_on)
            cluster.start(controller)
            cluster.start(leader)
            load.await_all_partitions()
            view.await_isr("t", 3)
        assert not load.errors
        load.check()
        for partition, replicas in enumerate(assigned):
            await_equal_replicas(cluster, replicas, "t", partition)


def test_two_of_three() -> None:
    """Without a quorum nothing is acknowledged, and nothing is lost when they return."""
    with Cluster(brokers=3, proxied="none") as cluster:
        cluster.create_topic("t", 3)
        view = ClusterView(cluster.bootstrap_servers)
        controller = view.quorum().leader_id
        with Load(cluster.bootstrap_servers, "t", 3) as load:
            load.await_all_partitions()
            kill_at_once(cluster, controller, (controller + 1) % 3)
            cluster.start()
            load.await_all_partitions()
            view.await_isr("t", 3)
        assert not load.errors
        load.check()
