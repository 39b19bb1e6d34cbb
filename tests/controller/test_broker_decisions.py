"""Brokers come, go silent, leave; partitions follow; producer ids are handed out once."""

from __future__ import annotations

from functools import partial
from typing import Any

from ottla.controller.brokers.fencing import decide_fence_silent_brokers
from ottla.controller.brokers.registration import decide_register_broker, decide_unregister_broker
from ottla.controller.cluster.producer_ids import decide_allocate_producer_ids
from ottla.controller.features import bootstrap_records, unsupported_features
from ottla.controller.topics.create_topics import decide_create_topics
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from ottla.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from ottla.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from ottla.protocol.messages.unregister_broker_request import UnregisterBrokerRequest


def create(harness: Any, name: str, *replicas: list[int]) -> None:
    assignments = [
        CreatableReplicaAssignment(partition_index=i, broker_ids=ids) for i, ids in enumerate(replicas)
    ]
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
    decision = decide_create_topics(harness.context, CreateTopicsRequest(topics=[topic]))
    assert decision.reply.topics[0].error_code == 0
    harness.append(decision.records)


def state(harness: Any, name: str, number: int = 0) -> tuple[int, tuple[int, ...], int]:
    partition = harness.image.topics_by_name[name].partitions[number]
    return partition.leader, partition.isr, partition.leader_epoch


def test_a_broker_starts_fenced_and_is_active_once_it_has_caught_up(new_harness: Any) -> None:
    harness = new_harness()
    epoch = harness.register(1)
    assert epoch == len(harness.log) - 1, "the epoch is the offset of the registration"
    assert harness.image.brokers[1].fenced
    reply = harness.heartbeat(1, epoch, current_metadata_offset=epoch - 1)
    assert (reply.is_caught_up, reply.is_fenced) == (False, True)
    reply = harness.heartbeat(1, epoch, current_metadata_offset=epoch)
    assert (reply.is_caught_up, reply.is_fenced) == (True, False)
    assert harness.image.brokers[1].active
    before = len(harness.log)
    assert not harness.heartbeat(1, epoch).is_fenced
    assert len(harness.log) == before


def test_heartbeats_of_the_past_and_of_strangers(cluster: Any) -> None:
    epoch = cluster.image.brokers[1].epoch
    assert cluster.heartbeat(1, epoch - 1).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert cluster.heartbeat(9, epoch).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_registrations_that_are_refused(cluster: Any) -> None:
    assert cluster.register(1, incarnation=2) == -ErrorCode.DUPLICATE_BROKER_REGISTRATION
    request = BrokerRegistrationRequest(broker_id=4, cluster_id="other")
    decide = partial(decide_register_broker, cluster.context)
    assert decide(request, 0, 0).reply.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    request.cluster_id = "test-cluster"
    assert decide(request, 0, 0).reply.error_code == ErrorCode.INVALID_REGISTRATION
    request.log_dirs = [bytes(16)]
    assert decide(request, 0, 0).reply.error_code == ErrorCode.INVALID_REGISTRATION
    request.log_dirs = list(cluster.image.brokers[2].log_dirs)
    assert decide(request, 0, 0).reply.error_code == ErrorCode.INVALID_REGISTRATION
    request.log_dirs = [b"d" * 16]
    assert decide(request, 0, 0).reply.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_the_same_incarnation_keeps_its_epoch(cluster: Any) -> None:
    epoch = cluster.image.brokers[1].epoch
    assert cluster.register(1) == epoch
    assert cluster.image.brokers[1].active


def test_a_silent_broker_is_fenced_and_its_partitions_move(cluster: Any) -> None:
    create(cluster, "t", [1, 2], [2, 1])
    create(cluster, "u", [1])
    cluster.now_ms += 8_000
    for broker_id in (2, 3):
        cluster.heartbeat(broker_id, cluster.image.brokers[broker_id].epoch)
    cluster.now_ms += 1_000
    decision = decide_fence_silent_brokers(cluster.context, cluster.now_ms)
    delta = cluster.append(decision.records)
    assert decision.reply == [1]
    assert delta.brokers == {1}
    assert state(cluster, "t", 0) == (2, (2,), 1)
    assert state(cluster, "t", 1) == (2, (2,), 0)
    assert state(cluster, "u") == (-1, (), 1), "nobody leads"
    assert cluster.image.topics_by_name["u"].partitions[0].elr == (1,), "but it may when it is back"
    assert decide_fence_silent_brokers(cluster.context, cluster.now_ms).records == []
    cluster.heartbeat(1, cluster.image.brokers[1].epoch)
    assert state(cluster, "u") == (1, (1,), 2)
    assert state(cluster, "t", 0) == (2, (2,), 1)


def test_a_new_controller_gives_everyone_a_session(cluster: Any, new_harness: Any) -> None:
    other = new_harness()
    for record in cluster.log[1:]:
        other.append([record])
    assert decide_fence_silent_brokers(other.context, 10**12).records == []
    assert decide_fence_silent_brokers(other.context, 10**12 + 9_000).reply == [1]


def test_a_restart_is_a_new_leader_epoch(new_harness: Any) -> None:
    harness = new_harness()
    harness.start_broker(1)
    create(harness, "t", [1])
    harness.now_ms += 10_000
    epoch = harness.register(1, incarnation=2)
    assert epoch == len(harness.log) - 1
    assert state(harness, "t") == (1, (1,), 0), "a single replica waits with its leader, which is fenced"
    harness.heartbeat(1, epoch)
    assert state(harness, "t") == (1, (1,), 1)


def test_controlled_shutdown_hands_over_and_then_allows_to_stop(cluster: Any) -> None:
    create(cluster, "t", [1, 2])
    epoch = cluster.image.brokers[1].epoch
    assert not cluster.heartbeat(1, epoch, want_shut_down=True).should_shut_down
    assert state(cluster, "t") == (2, (2,), 1)
    assert cluster.heartbeat(1, epoch, want_shut_down=True).should_shut_down
    assert not cluster.image.brokers[1].active
    assert cluster.register(1, incarnation=2) > epoch, "a broker that has left may come back at once"


def test_a_broker_can_request_to_be_fenced(cluster: Any) -> None:
    epoch = cluster.image.brokers[1].epoch
    assert cluster.heartbeat(1, epoch, want_fence=True).is_fenced
    assert cluster.heartbeat(1, epoch, want_fence=True).is_fenced
    assert not cluster.heartbeat(1, epoch).is_fenced


def test_unregister(cluster: Any) -> None:
    create(cluster, "t", [1, 2])
    decision = decide_unregister_broker(cluster.context, UnregisterBrokerRequest(broker_id=1))
    cluster.append(decision.records)
    assert 1 not in cluster.image.brokers
    assert state(cluster, "t") == (2, (2,), 1)
    decision = decide_unregister_broker(cluster.context, UnregisterBrokerRequest(broker_id=1))
    assert decision.reply.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_producer_ids_are_never_allocated_twice(cluster: Any) -> None:
    starts = []
    for broker_id in (1, 2, 1):
        epoch = cluster.image.brokers[broker_id].epoch
        request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch)
        decision = decide_allocate_producer_ids(cluster.context, request)
        cluster.append(decision.records)
        assert (decision.reply.error_code, decision.reply.producer_id_len) == (0, 1000)
        starts.append(decision.reply.producer_id_start)
    assert starts == [0, 1000, 2000]
    decide = partial(decide_allocate_producer_ids, cluster.context)
    stale = AllocateProducerIdsRequest(broker_id=1, broker_epoch=0)
    assert decide(stale).reply.error_code == ErrorCode.STALE_BROKER_EPOCH
    unknown = AllocateProducerIdsRequest(broker_id=9, broker_epoch=0)
    assert decide(unknown).reply.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    cluster.image.next_producer_id = 2**63 - 500
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=cluster.image.brokers[1].epoch)
    assert decide(request).reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_features() -> None:
    levels: list[Any] = bootstrap_records()
    assert [(each.name, each.feature_level) for each in levels] == [
        ("metadata.version", 30),
        ("eligible.leader.replicas.version", 1),
        ("group.version", 1),
        ("transaction.version", 2),
    ]
    assert unsupported_features({"metadata.version": 30}) == []
    assert unsupported_features({"metadata.version": 33, "share.version": 1}) == [
        "metadata.version=33: this version supports 7 to 30",
        "share.version=1: this version supports 0 to 0",
    ]
