"""With two of three replicas down, acks=all fails; with one back, writes continue."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from ottla.testing import Cluster
from tests.support.cluster.view import ClusterView
from tests.support.cluster.write import codes, read_all, write

REFUSED = KafkaError.NOT_ENOUGH_REPLICAS


def test_two_of_three_replicas_are_killed() -> None:
    """Five brokers: the quorum survives and removes the dead brokers from the ISR."""
    with Cluster(brokers=5, proxied="none") as cluster:
        view = ClusterView(",".join(cluster.address(broker) for broker in (0, 3, 4)))
        view.create("t", [0, 1, 2], min_insync_replicas="2")
        leader = cluster.address(0)
        assert codes(write(leader, "t", [b"three"])) == [0]
        cluster.kill(1)
        view.await_isr("t", 2)
        assert codes(write(leader, "t", [b"two"])) == [0]
        cluster.kill(2)
        state = view.await_partition("t", lambda each: each.isr == (0,), "alone in sync")
        assert state.elr == (2,), "it was in sync when the ISR went below the minimum"
        assert codes(write(leader, "t", [b"refused"])) == [REFUSED]
        assert codes(write(leader, "t", [b"at our own risk"], acks=1)) == [0]
        assert read_all(leader, "t") == [b"three", b"two"], "records that could be lost are not served"
        cluster.start(2)
        view.await_isr("t", 2)
        assert codes(write(leader, "t", [b"two again"])) == [0]
        assert read_all(leader, "t") == [b"three", b"two", b"at our own risk", b"two again"]


@pytest.mark.parametrize("stays", ["controller", "another"])
def test_two_of_three_brokers_stop_one_after_the_other(stays: str) -> None:
    """Each stops cleanly while there is a quorum; the last broker has none, but knows its ISR."""
    with Cluster(brokers=3, proxied="none") as cluster:
        cluster.create_topic("t")
        view = ClusterView(cluster.bootstrap_servers)
        controller = view.quorum().leader_id
        last = controller if stays == "controller" else next(b for b in range(3) if b != controller)
        first, second = (broker for broker in range(3) if broker != last)
        assert codes(write(cluster.bootstrap_servers, "t", [b"three"])) == [0]
        cluster.stop(first)
        view.await_isr("t", 2)
        assert codes(write(cluster.bootstrap_servers, "t", [b"two"])) == [0]
        cluster.stop(second)
        assert codes(write(cluster.address(last), "t", [b"refused"])) == [REFUSED]
        cluster.start(second)
        view.await_isr("t", 2)
        assert codes(write(cluster.bootstrap_servers, "t", [b"two again"])) == [0]
        assert read_all(cluster.bootstrap_servers, "t") == [b"three", b"two", b"two again"]
