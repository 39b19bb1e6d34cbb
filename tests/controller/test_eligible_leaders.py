"""Replicas that fell out of a small ISR may lead again, unless their broker crashed. What restarts cost."""

from __future__ import annotations

from typing import Any

from ottla.controller.brokers.fencing import decide_fence_broker
from ottla.controller.brokers.heartbeat import decide_broker_heartbeat
from ottla.controller.brokers.registration import decide_unregister_broker
from ottla.protocol.messages.partition_change_record import PartitionChangeRecord
from ottla.protocol.messages.unregister_broker_request import UnregisterBrokerRequest


def sets(harness: Any, name: str = "t") -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    partition = harness.partition(name)
    return partition.leader, partition.isr, partition.elr, partition.last_known_elr


def test_below_min_isr_replicas_that_leave_stay_eligible(cluster: Any) -> None:
    cluster.create("t", [1, 2, 3], min_insync_replicas="2")
    cluster.fence(3)
    assert sets(cluster) == (1, (1, 2), (), ()), "two are enough: the third may lack what they commit"
    cluster.fence(2)
    assert sets(cluster) == (1, (1,), (2,), ())
    cluster.fence(1)
    assert sets(cluster) == (-1, (), (2, 1), (1,))
    cluster.heartbeat(3, cluster.image.brokers[3].epoch)
    assert sets(cluster) == (-1, (), (2, 1), (1,)), "not this one"
    cluster.restart(2, clean=True)
    assert sets(cluster) == (2, (2,), (1,), ())
    cluster.alter("t", [2, 3])
    assert sets(cluster) == (2, (2, 3), (), ())
    assert cluster.lost == []


def test_a_crash_ends_eligibility(cluster: Any) -> None:
    cluster.create("t", [1, 2], min_insync_replicas="2")
    cluster.fence(2)
    cluster.fence(1)
    assert sets(cluster) == (-1, (), (2, 1), (1,))
    cluster.restart(2, clean=False)
    assert sets(cluster) == (-1, (), (1,), (1,))
    cluster.restart(1, clean=True)
    assert sets(cluster) == (1, (1,), (), ())
    assert cluster.lost == []


def test_after_a_crash_of_all_the_last_leader_leads_and_the_loss_is_reported(cluster: Any) -> None:
    cluster.create("t", [1, 2, 3], min_insync_replicas="2")
    cluster.now_ms += 10_000
    for broker_id in (1, 2, 3):
        cluster.back(broker_id, clean=False, admit=False)
    assert sets(cluster) == (-1, (), (), (3,))
    for broker_id in (1, 2):
        cluster.heartbeat(broker_id, cluster.image.brokers[broker_id].epoch)
    assert sets(cluster)[0] == -1
    cluster.heartbeat(3, cluster.image.brokers[3].epoch)
    assert sets(cluster) == (3, (3,), (), ())
    assert cluster.partition("t").leader_recovery_state == 1
    assert [(each.topic, each.partition, each.leader) for each in cluster.lost] == [("t", 0, 3)]


def test_a_crashed_broker_that_was_unregistered_is_not_trusted_either(cluster: Any) -> None:
    cluster.create("t", [1, 2], min_insync_replicas="2")
    cluster.fence(2)
    cluster.fence(1)
    request = UnregisterBrokerRequest(broker_id=2)
    cluster.take(decide_unregister_broker(cluster.context, request))
    assert sets(cluster) == (-1, (), (2, 1), (1,))
    cluster.start_broker(2, incarnation=7)
    assert sets(cluster) == (-1, (), (1,), (1,))


def test_unclean_election_only_where_it_is_allowed(cluster: Any) -> None:
    cluster.create("t", [1, 2])
    cluster.create("u", [1, 2], unclean_leader_election_enable="true")
    for name in ("t", "u"):
        cluster.alter(name, [1])
    cluster.fence(1)
    assert sets(cluster, "t") == (-1, (), (1,), (1,))
    assert sets(cluster, "u") == (2, (2,), (), ())
    assert [each.topic for each in cluster.lost] == ["u"]


def test_a_node_alone_restarts_with_one_record_per_partition(new_harness: Any) -> None:
    harness = new_harness()
    epoch = harness.start_broker(1)
    harness.create("t", *([1],) * 50)
    for clean in (True, False):
        before = len(harness.log)
        reply = harness.heartbeat(1, epoch, want_shut_down=True)
        assert reply.should_shut_down and reply.is_fenced
        leader_epoch = harness.partition("t").leader_epoch
        harness.back(1, clean=clean)
        epoch = harness.image.brokers[1].epoch
        changes = [each for each in harness.log[before:] if isinstance(each, PartitionChangeRecord)]
        assert len(changes) == 50
        assert len(harness.log) - before == 50 + 3, "stop, register, unfence"
        partition = harness.partition("t")
        assert (partition.leader, partition.isr) == (1, (1,))
        assert partition.leader_epoch == leader_epoch + 1
    assert harness.lost == []


def test_a_restart_without_a_goodbye_costs_no_more(new_harness: Any) -> None:
    harness = new_harness()
    harness.start_broker(1)
    harness.create("t", *([1],) * 50)
    before = len(harness.log)
    harness.now_ms += 10_000
    harness.back(1, clean=False)
    assert len(harness.log) - before == 50 + 2


def test_fencing_at_once_is_for_the_incarnation_that_is_meant(cluster: Any) -> None:
    cluster.create("t", [1, 2])
    epoch = cluster.image.brokers[1].epoch
    assert not decide_fence_broker(cluster.context, 1, epoch - 1).reply
    assert not decide_fence_broker(cluster.context, 9, epoch).reply
    cluster.fence(1)
    assert cluster.partition("t").leader == 2
    decision = decide_fence_broker(cluster.context, 1, epoch)
    assert not decision.reply and not decision.records


def test_a_stopping_broker_waits_until_the_others_know(cluster: Any) -> None:
    from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest

    cluster.create("t", [1, 2])

    def beat(broker_id: int, offset: int, stop: bool = False) -> Any:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=cluster.image.brokers[broker_id].epoch,
            current_metadata_offset=offset,
            want_shut_down=stop,
        )
        end = len(cluster.log)
        return cluster.take(decide_broker_heartbeat(cluster.context, request, cluster.now_ms, end))

    behind = len(cluster.log) - 1
    beat(2, behind)
    beat(3, behind)
    assert not beat(1, behind, stop=True).should_shut_down
    assert cluster.partition("t").leader == 2
    assert not beat(1, behind, stop=True).should_shut_down
    beat(2, len(cluster.log) - 1)
    assert not beat(1, behind, stop=True).should_shut_down
    beat(3, len(cluster.log) - 1)
    assert beat(1, behind, stop=True).should_shut_down
    assert cluster.image.brokers[1].fenced
    epoch = cluster.image.brokers[1].epoch
    assert cluster.heartbeat(1, epoch).is_fenced, "there is no way back but a new start"
    assert cluster.heartbeat(1, epoch, want_shut_down=True).should_shut_down
