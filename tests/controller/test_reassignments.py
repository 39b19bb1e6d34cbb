"""Partitions move to other brokers, change their number of replicas, and stay when cancelled."""

from __future__ import annotations

from typing import Any

from ottla.controller.partitions.reassignments import (
    decide_alter_partition_reassignments,
    decide_list_partition_reassignments,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)


def reassign(
    harness: Any, replicas: list[int] | None, name: str = "t", number: int = 0, **fields: Any
) -> int:
    asked = ReassignablePartition(partition_index=number, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=name, partitions=[asked])])
    for key, value in fields.items():
        setattr(request, key, value)
    reply = harness.take(decide_alter_partition_reassignments(harness.context, request))
    code: int = reply.responses[0].partitions[0].error_code
    return code


def listed(harness: Any, *names: str) -> list[tuple[str, int, list[int], list[int], list[int]]]:
    topics = [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 1, 9]) for name in names]
    request = ListPartitionReassignmentsRequest(topics=topics or None)
    decision = decide_list_partition_reassignments(harness.context, request)
    assert decision.records == []
    return [
        (topic.name, each.partition_index, each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in decision.reply.topics
        for each in topic.partitions
    ]


def test_a_move_from_begin_to_end(cluster: Any) -> None:
    cluster.create("t", [1, 2])
    assert reassign(cluster, [3, 2]) == 0
    assert listed(cluster) == listed(cluster, "t", "?") == [("t", 0, [3, 2, 1], [3], [1])]
    assert cluster.partition("t").leader == 1
    directories = dict(zip((3, 2, 1), cluster.partition("t").directories, strict=True))
    assert directories == {each: cluster.image.brokers[each].log_dirs[0] for each in (1, 2, 3)}
    assert cluster.alter("t", [1, 2]).error_code == 0
    assert listed(cluster), "the target is not in sync yet"
    cluster.alter("t", [1, 2, 3])
    partition = cluster.partition("t")
    assert (partition.replicas, partition.leader, set(partition.isr)) == ((3, 2), 3, {2, 3})
    assert partition.directories == tuple(cluster.image.brokers[each].log_dirs[0] for each in (3, 2))
    assert partition.leader_epoch == 1
    assert listed(cluster) == []


def test_more_and_fewer_replicas(cluster: Any) -> None:
    cluster.create("t", [1])
    assert reassign(cluster, [1, 2], allow_replication_factor_change=False) == 38
    assert reassign(cluster, [1, 2, 3]) == 0
    cluster.alter("t", [1, 2, 3])
    assert cluster.partition("t").replicas == (1, 2, 3)
    assert reassign(cluster, [2]) == 0
    partition = cluster.partition("t")
    assert (partition.replicas, partition.leader, partition.isr) == ((2,), 2, (2,)), "it was in sync: at once"


def test_only_the_order(cluster: Any) -> None:
    cluster.create("t", [1, 2])
    assert reassign(cluster, [2, 1]) == 0
    partition = cluster.partition("t")
    assert (partition.replicas, partition.leader, partition.leader_epoch) == ((2, 1), 1, 0)
    before = len(cluster.log)
    assert reassign(cluster, [2, 1]) == 0
    assert len(cluster.log) == before


def test_taking_it_back(cluster: Any) -> None:
    cluster.create("t", [1, 2])
    assert reassign(cluster, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    reassign(cluster, [3])
    assert reassign(cluster, None) == 0
    partition = cluster.partition("t")
    assert (set(partition.replicas), set(partition.isr), partition.leader) == ({1, 2}, {1, 2}, 1)
    assert listed(cluster) == []


def test_taking_it_back_must_not_lose_data(cluster: Any) -> None:
    cluster.start_broker(4)
    cluster.create("t", [1])
    reassign(cluster, [2, 3])
    cluster.alter("t", [1, 2])
    cluster.fence(1)
    assert cluster.partition("t").leader == 2
    assert reassign(cluster, None) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reassign(cluster, [4]) == 0
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr) == (2, (2,)), "who has the data stays until the target has it"
    cluster.alter("t", [2, 4])
    assert cluster.partition("t").replicas == (4,)


def test_another_target_meanwhile(cluster: Any) -> None:
    cluster.start_broker(4)
    cluster.create("t", [1, 2])
    reassign(cluster, [1, 3])
    reassign(cluster, [1, 4])
    assert listed(cluster) == [("t", 0, [1, 4, 2], [4], [2])]
    reassign(cluster, [1, 2])
    assert listed(cluster) == []
    assert cluster.partition("t").replicas == (1, 2)


def test_refusals(cluster: Any) -> None:
    cluster.create("t", [1, 2])
    for replicas in ([], [1, 1], [9], [-1]):
        assert reassign(cluster, replicas) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reassign(cluster, [1], name="u") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert reassign(cluster, [1], number=3) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
