"""Brokers that stop, are killed, or come back before anyone noticed that they were gone."""

from __future__ import annotations

from typing import Any

from ottla.controller.brokers.fencing import decide_fence_broker, decide_fence_silent_brokers
from ottla.controller.brokers.heartbeat import decide_broker_heartbeat
from ottla.controller.image.queries import has_leader
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest


def state(harness: Any, name: str) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    partition = harness.partition(name)
    return partition.leader, partition.isr, partition.elr


def epoch_of(harness: Any, broker_id: int) -> int:
    epoch: int = harness.image.brokers[broker_id].epoch
    return epoch


def shut_down(harness: Any, broker_id: int, seen_offset: int | None = None) -> Any:
    """A heartbeat of a broker that requests shutdown, decided with the end of the log."""
    request = BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=epoch_of(harness, broker_id),
        current_metadata_offset=len(harness.log) if seen_offset is None else seen_offset,
        want_shut_down=True,
    )
    decision = decide_broker_heartbeat(harness.context, request, harness.now_ms, len(harness.log))
    return harness.take(decision)


def test_a_killed_broker_comes_back_before_its_session_ends(cluster: Any) -> None:
    cluster.create("t", [1, 2, 3])
    before = epoch_of(cluster, 1)
    assert cluster.register(1, incarnation=2) == -ErrorCode.DUPLICATE_BROKER_REGISTRATION
    epoch = cluster.register(1, incarnation=2, lost_contact=True)
    assert epoch > before
    assert state(cluster, "t") == (2, (2, 3), ()), "in the same step another leads: its log may be shorter"
    assert cluster.image.brokers[1].fenced
    assert cluster.heartbeat(1, before).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert not cluster.heartbeat(1, epoch).is_fenced
    assert state(cluster, "t") == (2, (2, 3), ())
    assert not cluster.lost


def test_a_stranger_with_other_directories_does_not_get_the_id_of_a_broker_that_lives(cluster: Any) -> None:
    taken = cluster.register(1, incarnation=2, first_dir=7_000_000, lost_contact=True)
    assert taken == -ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.now_ms += 9_000
    assert cluster.register(1, incarnation=2, first_dir=7_000_000) > 0, "but when its session is over"


def test_a_new_controller_lets_a_restarted_broker_in(cluster: Any, new_harness: Any) -> None:
    cluster.create("t", [1, 2, 3])
    other = new_harness()
    other.append(cluster.log[len(other.log) :])
    assert other.register(1, incarnation=2) > 0, "it has never heard of the old one"
    assert state(other, "t") == (2, (2, 3), ())


def test_a_new_controller_takes_heartbeats_as_they_come(cluster: Any, new_harness: Any) -> None:
    other = new_harness()
    other.append(cluster.log[len(other.log) :])
    reply = other.heartbeat(1, epoch_of(other, 1))
    assert (reply.error_code, reply.is_fenced, reply.is_caught_up) == (0, False, True)
    other.now_ms += 8_999
    assert decide_fence_silent_brokers(other.context, other.now_ms).reply == []
    other.now_ms += 1
    assert decide_fence_silent_brokers(other.context, other.now_ms).reply == [1], "its session began then"


def test_a_broker_that_shuts_down_waits_until_the_others_know(cluster: Any) -> None:
    cluster.create("t", [1, 2, 3])
    for broker_id in (2, 3):
        cluster.heartbeat(broker_id, epoch_of(cluster, broker_id))
    known = len(cluster.log) - 1
    assert not shut_down(cluster, 1).should_shut_down
    assert state(cluster, "t") == (2, (2, 3), ())
    assert not shut_down(cluster, 1).should_shut_down, "consumers of 2 and 3 are still sent to it"
    cluster.heartbeat(2, epoch_of(cluster, 2))
    cluster.heartbeat(3, epoch_of(cluster, 3), current_metadata_offset=known)
    assert not shut_down(cluster, 1).should_shut_down
    cluster.heartbeat(3, epoch_of(cluster, 3))
    reply = shut_down(cluster, 1)
    assert (reply.should_shut_down, reply.is_fenced) == (True, True)
    assert cluster.image.brokers[1].fenced


def test_a_broker_that_shuts_down_does_not_wait_for_a_dead_one(cluster: Any) -> None:
    cluster.create("t", [1, 2, 3])
    assert not shut_down(cluster, 1).should_shut_down
    cluster.heartbeat(2, epoch_of(cluster, 2))
    assert not shut_down(cluster, 1).should_shut_down
    cluster.fence(3)
    assert shut_down(cluster, 1).should_shut_down


def test_the_last_in_sync_replica_may_stop_and_leads_when_it_is_back(cluster: Any) -> None:
    cluster.create("t", [1, 2], min_insync_replicas="1")
    cluster.fence(2)
    assert state(cluster, "t") == (1, (1,), ())
    shut_down(cluster, 1)
    assert state(cluster, "t") == (-1, (), (1,)), "nobody can lead"
    cluster.heartbeat(3, epoch_of(cluster, 3))
    assert shut_down(cluster, 1).should_shut_down
    cluster.back(2, clean=True)
    assert state(cluster, "t") == (-1, (), (1,)), "2 lacks what 1 has taken alone"
    cluster.back(1, clean=True)
    assert state(cluster, "t") == (1, (1,), ())
    assert not cluster.lost


def test_all_stop_at_once_and_nothing_is_lost(cluster: Any) -> None:
    cluster.create("t", [1, 2, 3], min_insync_replicas="2")
    cluster.create("alone", [2])
    assert not shut_down(cluster, 1).should_shut_down
    assert not shut_down(cluster, 2).should_shut_down
    assert shut_down(cluster, 3).should_shut_down, "there is nobody to wait for"
    assert shut_down(cluster, 1).should_shut_down
    assert shut_down(cluster, 2).should_shut_down
    assert state(cluster, "t") == (-1, (), (2, 3))
    assert state(cluster, "alone") == (2, (2,), ())
    assert not has_leader(cluster.image, cluster.partition("alone"))
    cluster.back(1, clean=True)
    assert state(cluster, "t") == (-1, (), (2, 3)), "1 left first: the others may have more"
    cluster.back(3, clean=True)
    assert state(cluster, "t") == (3, (3,), (2,))
    cluster.back(2, clean=True)
    assert state(cluster, "alone") == (2, (2,), ())
    assert not cluster.lost


def test_the_last_broker_stops_in_one_step(new_harness: Any) -> None:
    harness = new_harness()
    epoch = harness.start_broker(1)
    harness.create("t", [1])
    reply = shut_down(harness, 1)
    assert (reply.should_shut_down, reply.is_fenced) == (True, True)
    broker = harness.image.brokers[1]
    assert broker.fenced and broker.in_controlled_shutdown
    harness.back(1, clean=True)
    assert harness.image.brokers[1].active
    assert epoch_of(harness, 1) > epoch
    assert has_leader(harness.image, harness.partition("t"))


def test_a_broker_that_dies_while_it_shuts_down_is_fenced(cluster: Any) -> None:
    cluster.create("t", [1, 2, 3])
    assert not shut_down(cluster, 1).should_shut_down
    assert cluster.take(decide_fence_broker(cluster.context, 1, epoch_of(cluster, 1)))
    assert cluster.image.brokers[1].fenced
    assert cluster.register(1, incarnation=2) > 0


def test_when_all_are_killed_the_last_of_the_isr_to_register_leads_and_it_is_reported(cluster: Any) -> None:
    cluster.create("t", [1, 2, 3], min_insync_replicas="2")
    for broker_id in (1, 2, 3):
        cluster.now_ms += 9_000
        cluster.back(broker_id, clean=False, admit=False)
    assert state(cluster, "t") == (-1, (), ())
    for broker_id in (1, 2):
        cluster.heartbeat(broker_id, epoch_of(cluster, broker_id))
        assert state(cluster, "t")[0] == -1, "it may lack what the last one has"
    cluster.heartbeat(3, epoch_of(cluster, 3))
    assert state(cluster, "t") == (3, (3,), ())
    assert [(each.topic, each.leader) for each in cluster.lost] == [("t", 3)]


def test_a_fence_moves_every_leader_in_one_decision(cluster: Any) -> None:
    cluster.create("t", *([1, 2, 3] for _ in range(50)))
    decision = decide_fence_broker(cluster.context, 1, epoch_of(cluster, 1))
    assert len(decision.records) == 51
    cluster.take(decision)
    assert {cluster.partition("t", i).leader for i in range(50)} == {2}
    assert {cluster.partition("t", i).leader_epoch for i in range(50)} == {1}
