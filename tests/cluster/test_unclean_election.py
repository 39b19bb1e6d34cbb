"""An out-of-sync replica leads only if allowed; then the loss is logged and counted."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError

from ottla.client import ELECT_PREFERRED, ELECT_UNCLEAN
from ottla.testing import Cluster
from tests.support.cluster.files import await_equal_replicas
from tests.support.cluster.view import ClusterView
from tests.support.cluster.write import codes, read_all, write
from tests.support.waiting import wait_until

UNCLEAN = "unclean.leader.election.enable"
LINE = "unclean election, acknowledged records may be lost: partition=t-0 leader=1"
LOOK_S = 1.0


def lines_of_all(cluster: Cluster) -> list[str]:
    return [line for broker in range(3) for line in cluster.log(broker).splitlines() if LINE in line]


def lose_the_last_in_sync(cluster: Cluster, **configs: str) -> ClusterView:
    """t-0 is on brokers 0 and 1: 1 misses a record, then 0, which has it, is killed and 1 returns."""
    survivors = ClusterView(",".join(cluster.address(broker) for broker in (1, 2)))
    survivors.create("t", [0, 1], min_insync_replicas="1", **configs)
    assert codes(write(cluster.address(0), "t", [b"on both"])) == [0]
    cluster.kill(1)
    ClusterView(cluster.address(2)).await_isr("t", 1)
    assert codes(write(cluster.address(0), "t", [b"on one"])) == [0]
    cluster.kill(0)
    cluster.start(1)
    return survivors


def read_from_second(cluster: Cluster) -> list[bytes]:
    return read_all(cluster.address(1), "t")


def test_a_replica_out_of_sync_never_leads_by_itself() -> None:
    with Cluster(brokers=3, proxied="none") as cluster:
        view = lose_the_last_in_sync(cluster)
        view.await_leader("t", -1)
        time.sleep(LOOK_S)
        assert view.leader("t") == -1
        (refused,) = view.ask(lambda admin: admin.elect_leaders(ELECT_PREFERRED, [("t", 0)])).values()
        assert refused is not None
        fate = write(cluster.address(1), "t", [b"nowhere to go"], message_timeout_ms=1000)
        assert codes(fate) in ([KafkaError._MSG_TIMED_OUT], [KafkaError.LEADER_NOT_AVAILABLE])
        assert not lines_of_all(cluster)
        cluster.start(0)
        view.await_isr("t", 2)
        assert view.leader("t") == 0
        assert read_from_second(cluster) == [b"on both", b"on one"], "nothing was lost"


def test_it_leads_when_that_is_allowed_later() -> None:
    with Cluster(brokers=3, proxied="none") as cluster:
        view = lose_the_last_in_sync(cluster)
        view.await_leader("t", -1)
        view.set_configs("t", {UNCLEAN: "true"})
        view.await_leader("t", 1)
        assert len(lines_of_all(cluster)) == 1
        assert codes(write(cluster.address(1), "t", [b"instead"])) == [0]
        cluster.start(0)
        view.await_isr("t", 2)
        await_equal_replicas(cluster, [0, 1], "t")
        assert read_from_second(cluster) == [b"on both", b"instead"], "the other record was truncated"


def test_it_leads_when_that_was_allowed_before() -> None:
    with Cluster(brokers=3, proxied="none") as cluster:
        view = lose_the_last_in_sync(cluster, unclean_leader_election_enable="true")
        view.await_leader("t", 1)
        wait_until(lambda: len(lines_of_all(cluster)) == 1, "one line in the log", 5)
        assert read_from_second(cluster) == [b"on both"]


def test_it_leads_after_an_unclean_election_request() -> None:
    with Cluster(brokers=3, proxied="none") as cluster:
        view = lose_the_last_in_sync(cluster)
        view.await_leader("t", -1)
        (error,) = view.ask(lambda admin: admin.elect_leaders(ELECT_UNCLEAN, [("t", 0)])).values()
        assert error is None
        view.await_leader("t", 1)
        assert len(lines_of_all(cluster)) == 1
