"""Requested elections, and leadership that returns to preferred replicas."""

from __future__ import annotations

from typing import Any

from ottla.controller.cluster.configs import decide_incremental_alter_configs
from ottla.controller.partitions.elect_leaders import decide_balance_leaders, decide_elect_leaders
from ottla.controller.partitions.unclean_elections import decide_elect_unclean
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.config_record import ConfigRecord
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)


def elect(harness: Any, kind: int, named: dict[str, list[int]] | None) -> dict[tuple[str, int], int]:
    asked = None
    if named is not None:
        asked = [TopicPartitions(topic=name, partitions=numbers) for name, numbers in named.items()]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=asked)
    reply = harness.take(decide_elect_leaders(harness.context, request))
    assert reply.error_code == 0
    return {
        (topic.topic, each.partition_id): each.error_code
        for topic in reply.replica_election_results
        for each in topic.partition_result
    }


def away_from_1(cluster: Any) -> None:
    """Broker 1 was away: it is in sync again, but leads nothing."""
    cluster.restart(1, clean=True)
    for name, topic in cluster.image.topics_by_name.items():
        for number, partition in topic.partitions.items():
            if partition.leader != -1:
                cluster.alter(name, [*partition.isr, 1], number)


def test_preferred(cluster: Any) -> None:
    cluster.create("t", [1, 2], [2, 1], [1, 3])
    away_from_1(cluster)
    cluster.alter("t", [3], 2)
    assert elect(cluster, 0, {"t": [0, 0, 1, 2, 7], "u": [0]}) == {
        ("t", 0): ErrorCode.NONE,
        ("t", 1): ErrorCode.ELECTION_NOT_NEEDED,
        ("t", 2): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ("t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("u", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    partition = cluster.partition("t")
    assert (partition.leader, partition.leader_epoch) == (1, 2)


def test_for_all_partitions_only_elections_held_are_reported(cluster: Any) -> None:
    cluster.create("t", [1, 2], [2, 1])
    away_from_1(cluster)
    assert elect(cluster, 0, None) == {("t", 0): ErrorCode.NONE}
    assert elect(cluster, 0, None) == {}


def test_unclean_election_on_request(cluster: Any) -> None:
    cluster.create("t", [1, 2], [2, 1])
    cluster.create("u", [3])
    cluster.alter("t", [1])
    cluster.fence(1)
    assert cluster.partition("t").leader == -1
    cluster.fence(3)
    assert elect(cluster, 1, {"t": [0, 1], "u": [0]}) == {
        ("t", 0): ErrorCode.NONE,
        ("t", 1): ErrorCode.ELECTION_NOT_NEEDED,
        ("u", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    }
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.elr) == (2, (2,), ())
    assert partition.leader_recovery_state == 1
    assert len(cluster.lost) == 1


def test_there_are_two_kinds_of_elections(cluster: Any) -> None:
    decision = decide_elect_leaders(cluster.context, ElectLeadersRequest(election_type=2))
    assert decision.reply.error_code == ErrorCode.INVALID_REQUEST


def test_balance(cluster: Any, new_harness: Any) -> None:
    cluster.create("t", *([1, 2],) * 10, [2, 1])
    away_from_1(cluster)
    moved = cluster.take(decide_balance_leaders(cluster.context))
    assert moved == [("t", number) for number in range(10)]
    assert all(cluster.partition("t", number).leader == 1 for number in range(10))
    assert cluster.take(decide_balance_leaders(cluster.context)) == []


def test_a_small_imbalance_is_left_alone(cluster: Any) -> None:
    cluster.create("t", *([1, 2],) * 10)
    away_from_1(cluster)
    elect(cluster, 0, {"t": list(range(1, 10))})
    assert cluster.take(decide_balance_leaders(cluster.context)) == [], "one of ten is not above 10 %"


def test_balance_can_be_switched_off(new_harness: Any) -> None:
    harness = new_harness({"auto.leader.rebalance.enable": "false"})
    for broker_id in (1, 2):
        harness.start_broker(broker_id)
    harness.create("t", [1, 2])
    away_from_1(harness)
    assert harness.partition("t").leader == 2
    assert harness.take(decide_balance_leaders(harness.context)) == []


def allow_unclean(harness: Any, resource_type: int, name: str, value: str, **how: Any) -> None:
    change = AlterableConfig(name="unclean.leader.election.enable", config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource], **how)
    (answer,) = harness.take(decide_incremental_alter_configs(harness.context, request)).responses
    assert answer.error_code == 0


def stand_still(cluster: Any, *names: str) -> None:
    """Broker 1 has fallen out of sync, then broker 2, the leader, dies."""
    for name in names:
        cluster.create(name, [2, 1])
        cluster.alter(name, [2])
    cluster.fence(2)
    assert [cluster.partition(name).leader for name in names] == [-1] * len(names)


def test_unclean_as_soon_as_the_topic_allows_it(cluster: Any) -> None:
    stand_still(cluster, "t", "u")
    allow_unclean(cluster, 2, "t", "true", validate_only=True)
    assert not cluster.lost
    allow_unclean(cluster, 2, "t", "true")
    assert [cluster.partition(name).leader for name in "tu"] == [1, -1]
    assert [(each.topic, each.leader) for each in cluster.lost] == [("t", 1)]
    allow_unclean(cluster, 2, "t", "false")
    assert len(cluster.lost) == 1


def test_unclean_as_soon_as_the_cluster_allows_it(cluster: Any) -> None:
    stand_still(cluster, "t", "u")
    allow_unclean(cluster, 2, "u", "false")
    allow_unclean(cluster, 4, "", "true")
    assert [cluster.partition(name).leader for name in "tu"] == [1, -1], "a topic decides for itself"


def test_unclean_by_the_clock(cluster: Any) -> None:
    stand_still(cluster, "t", "u")
    assert cluster.take(decide_elect_unclean(cluster.context)) == 0
    # As if a controller with another file had taken over.
    cluster.append(
        [
            ConfigRecord(
                resource_type=2, resource_name="t", name="unclean.leader.election.enable", value="true"
            )
        ]
    )
    assert cluster.take(decide_elect_unclean(cluster.context)) == 1
    assert [cluster.partition(name).leader for name in "tu"] == [1, -1]
    assert len(cluster.lost) == 1
