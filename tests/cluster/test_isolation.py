"""An isolated leader: writes continue without it, and its own records are truncated."""

from __future__ import annotations

import time

import pytest

from ottla.testing import Cluster
from tests.support.cluster.files import await_equal_replicas, replica_bytes
from tests.support.cluster.load import Load
from tests.support.cluster.view import ClusterView
from tests.support.cluster.write import codes, read_all, write

# Cut links do not close: brokers notice by the session timeout.
CONFIG = {
    "broker.session.timeout.ms": 1500,
    "broker.heartbeat.interval.ms": 300,
    "replica.lag.time.max.ms": 3000,
}


@pytest.mark.parametrize("who", ["the controller", "another"])
def test_writes_continue_without_an_isolated_leader(who: str) -> None:
    with Cluster(brokers=3, config=CONFIG, proxied="all") as cluster:
        cluster.create_topic("t", 3)
        controller = ClusterView(cluster.bootstrap_servers).quorum().leader_id
        victim = controller if who == "the controller" else (controller + 1) % 3
        others = [broker for broker in range(3) if broker != victim]
        view = ClusterView(",".join(map(cluster.address, others)))
        timeouts = {"socket.timeout.ms": 2000, "topic.metadata.refresh.interval.ms": 1000}
        with Load(cluster.bootstrap_servers, "t", 3, config=timeouts) as load:
            load.await_acks(500)
            assert any(each.leader == victim for each in view.partitions("t").values())
            cluster.isolate(victim, clients=True)
            view.await_isr("t", 2)
            load.await_all_partitions()
            assert view.quorum().leader_id in others
            cluster.heal()
            view.await_isr("t", 3)
            load.await_all_partitions()
        assert not load.errors
        load.check()
        for partition in range(3):
            await_equal_replicas(cluster, [0, 1, 2], "t", partition)


def test_records_of_an_isolated_leader_are_truncated() -> None:
    """Records with acks=1 are lost after healing, those with acks=all are kept."""
    config = CONFIG | {"replica.lag.time.max.ms": 60_000}
    with Cluster(brokers=3, config=config, proxied="all") as cluster:
        controller = ClusterView(cluster.bootstrap_servers).quorum().leader_id
        victim, second, third = (controller + 1) % 3, (controller + 2) % 3, controller
        view = ClusterView(",".join(map(cluster.address, (second, third))))
        view.create("t", [victim, second, third], min_insync_replicas="2")
        kept = [b"kept %d" % n for n in range(100)]
        assert codes(write(cluster.bootstrap_servers, "t", kept)) == [0]
        await_equal_replicas(cluster, [0, 1, 2], "t")

        cluster.isolate(victim)
        lost = [b"lost %d" % n for n in range(500)]
        # Only its own address, like a client on the same side of the cut.
        assert codes(write(cluster.address(victim), "t", lost, acks=1, batch_num_messages=10)) == [0]
        assert read_all(cluster.address(victim), "t") == kept, "records that could be lost are not served"
        # Block clients: in its own metadata it is still the leader.
        cluster.isolate(victim, clients=True)
        view.await_partition("t", lambda each: each.leader in (second, third), "another leader")
        later = [b"later %d" % n for n in range(200)]
        assert codes(write(view.servers, "t", later, batch_num_messages=10)) == [0]
        assert b"lost 499" in replica_bytes(cluster, victim, "t")

        cluster.heal()
        view.await_isr("t", 3)
        content = await_equal_replicas(cluster, [0, 1, 2], "t")
        assert b"lost" not in content
        assert read_all(cluster.bootstrap_servers, "t") == kept + later


def test_a_killed_leader_truncates_its_tail_when_it_returns() -> None:
    """Followers cannot fetch, and the leader is killed with records that no other replica has."""
    with Cluster(brokers=3, config=CONFIG, proxied="members") as cluster:
        view = ClusterView(cluster.bootstrap_servers)
        third = view.quorum().leader_id
        victim, second = (third + 1) % 3, (third + 2) % 3
        view.create("t", [victim, second, third], min_insync_replicas="2")
        kept = [b"kept %d" % n for n in range(100)]
        assert codes(write(cluster.bootstrap_servers, "t", kept)) == [0]
        await_equal_replicas(cluster, [0, 1, 2], "t")
        for follower in (second, third):
            cluster.cut(follower, victim)  # followers cannot fetch; the leader still reaches the controller
        # The response to a fetch that was waiting when the link was cut would arrive after healing.
        time.sleep(1)
        assert codes(write(cluster.address(victim), "t", [b"lost %d" % n for n in range(300)], acks=1)) == [0]
        cluster.kill(victim)
        cluster.heal()
        survivors = ClusterView(",".join(map(cluster.address, (second, third))))
        survivors.await_partition("t", lambda each: each.leader in (second, third), "another leader")
        later = [b"later %d" % n for n in range(100)]
        assert codes(write(survivors.servers, "t", later)) == [0]
        cluster.start(victim)
        view.await_isr("t", 3)
        assert b"lost" not in await_equal_replicas(cluster, [0, 1, 2], "t")
        assert read_all(cluster.bootstrap_servers, "t") == kept + later


def test_a_broker_without_a_controller_still_serves_what_it_leads() -> None:
    """The coordinator's topic cannot be created without a controller; fetches still work."""
    with Cluster(brokers=3, config={"min.insync.replicas": 1}, proxied="members") as cluster:
        cluster.create_topic("t")
        view = ClusterView(cluster.bootstrap_servers)
        leader = view.leader("t")
        values = [b"%d" % n for n in range(10)]
        assert codes(write(cluster.bootstrap_servers, "t", values)) == [0]
        cluster.isolate(leader)
        assert read_all(cluster.address(leader), "t", timeout_s=5) == values
