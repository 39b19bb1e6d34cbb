"""Reassignments under load, and preferred leader elections."""

from __future__ import annotations

import os
import time

import pytest

from ottla.client import ELECT_PREFERRED
from ottla.testing import Cluster
from tests.support.cluster.files import await_equal_replicas, replica_bytes, replica_folder
from tests.support.cluster.load import Load
from tests.support.cluster.patience import takes_long
from tests.support.cluster.view import ClusterView
from tests.support.cluster.write import codes, write
from tests.support.waiting import wait_until

FILL_BYTES = 9_000_000


def throttle(view: ClusterView, topic: str, leaders: list[int], newcomer: int, rate: int) -> None:
    """Set the configs that kafka-reassign-partitions --throttle sets."""
    replicas = {
        "leader.replication.throttled.replicas": ",".join(f"0:{broker}" for broker in leaders),
        "follower.replication.throttled.replicas": f"0:{newcomer}",
    }
    view.set_configs(topic, replicas)
    for broker in (*leaders, newcomer):
        rates = {f"{who}.replication.throttled.rate": str(rate) for who in ("leader", "follower")}
        view.ask(lambda admin, broker=broker, rates=rates: admin.alter_broker_configs(broker, values=rates))


# The rate is measured over eleven seconds: that amount is sent at once, the rest in the twelfth second.
@pytest.mark.parametrize(
    ("rate", "at_least_s"), [(20_000_000, 0.0), pytest.param(500_000, 3.0, marks=takes_long)]
)
def test_a_throttled_reassignment_under_load(rate: int, at_least_s: float) -> None:
    with Cluster(brokers=4, config={"log.segment.delete.delay.ms": 200}, proxied="none") as cluster:
        servers = cluster.bootstrap_servers
        view = ClusterView(servers)
        view.create("t", [0, 1, 2])
        view.create("others", [0, 1, 2], [1, 2, 3], [2, 3, 0], [3, 0, 1])
        filling = [b"%06d" % n + b"." * 1000 for n in range(FILL_BYTES // 1000)]
        assert codes(write(servers, "t", filling)) == [0]
        throttle(view, "t", [0, 1, 2], 3, rate)
        with Load(servers, "others", 4) as load:
            load.await_all_partitions()
            began = time.monotonic()
            moved = view.ask(lambda admin: admin.alter_partition_reassignments({("t", 0): [3, 1, 2]}))
            assert moved == {("t", 0): None}
            while under_way := view.ask(lambda admin: admin.list_partition_reassignments()):
                assert time.monotonic() < began + 40
                (move,) = under_way.values()
                assert (move.adding, move.removing) == ((3,), (0,))
                assert codes(write(servers, "t", [b"meanwhile"])) == [0]
                for state in view.partitions("others").values():
                    assert len(state.isr) == 3, "only the new replica is throttled"
            took_s = time.monotonic() - began
            load.await_all_partitions()
        assert took_s > at_least_s
        assert not load.errors
        load.check()
        state = view.partitions("t")[0]
        assert state.replicas == (3, 1, 2) and sorted(state.isr) == [1, 2, 3]
        assert state.leader in (1, 2, 3)
        assert codes(write(servers, "t", [b"afterwards"])) == [0]
        assert b"afterwards" in await_equal_replicas(cluster, [1, 2, 3], "t")
        assert not replica_bytes(cluster, 0, "t")
        wait_until(
            lambda: (
                not [
                    name
                    for name in os.listdir(os.path.dirname(replica_folder(cluster, 0, "t")))
                    if name.startswith("t-0")
                ]
            ),
            "the files of the old replica are gone",
            10,
        )


def test_preferred_leaders_are_elected_on_request_and_automatically() -> None:
    config = {"leader.imbalance.check.interval.seconds": 1}
    with Cluster(brokers=3, config=config, proxied="none") as cluster:
        view = ClusterView(cluster.bootstrap_servers)
        view.create("t", [0, 1, 2], [1, 2, 0], [2, 0, 1])
        with Load(cluster.bootstrap_servers, "t", 3) as load:
            load.await_all_partitions()
            cluster.restart(0)
            view.await_isr("t", 3)
            (error,) = view.ask(lambda admin: admin.elect_leaders(ELECT_PREFERRED, [("t", 0)])).values()
            assert error is None or error.code == 84  # ELECTION_NOT_NEEDED: it has happened in the meantime
            wait_until(lambda: view.leader("t") == 0, "every broker knows it", 10)
            cluster.restart(1)
            view.await_isr("t", 3)
            wait_until(lambda: view.leader("t", 1) == 1, "leadership is given back", 10)
            load.await_all_partitions()
        assert not load.errors
        load.check()
