"""Leaders propose the ISR; the controller accepts it or returns an error."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ottla.controller.partitions.alter_partition import decide_alter_partition
from ottla.controller.partitions.reassignments import decide_alter_partition_reassignments
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)


def test_shrink_and_expand_count_the_partition_epoch_alone(cluster: Any) -> None:
    cluster.create("t", [1, 2, 3])
    answer = cluster.alter("t", [1, 2])
    assert (answer.error_code, answer.isr, answer.leader_id) == (0, [1, 2], 1)
    assert (answer.leader_epoch, answer.partition_epoch) == (0, 1)
    partition = cluster.partition("t")
    assert (partition.isr, partition.leader_epoch, partition.partition_epoch) == ((1, 2), 0, 1)
    answer = cluster.alter("t", [1, 2, 3])
    assert (answer.isr, answer.partition_epoch) == ([1, 2, 3], 2)
    written = len(cluster.log)
    answer = cluster.alter("t", [1, 2, 3])
    assert (answer.error_code, answer.partition_epoch) == (0, 2), "what is so already needs no record"
    assert len(cluster.log) == written


def test_version_2_has_no_epochs(cluster: Any) -> None:
    cluster.create("t", [1, 2])
    assert cluster.alter("t", [], new_isr=[1]).error_code == 0
    assert cluster.partition("t").isr == (1,)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"leader_epoch": 5}, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": 5}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"new_isr_with_epochs": [], "new_isr": [2, 4]}, ErrorCode.INVALID_REQUEST),
        ({"new_isr_with_epochs": [], "new_isr": [3]}, ErrorCode.INVALID_REQUEST),
        ({"new_isr_with_epochs": [], "new_isr": [2, 2]}, ErrorCode.INVALID_REQUEST),
        ({"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ({"leader_recovery_state": 7}, ErrorCode.INVALID_REQUEST),
        ({"partition_index": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"new_isr_with_epochs": [], "new_isr": [2, 1]}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_refusals(cluster: Any, fields: dict[str, Any], code: ErrorCode) -> None:
    cluster.create("t", [1, 2, 3])
    cluster.fence(1)
    assert (cluster.partition("t").leader, cluster.partition("t").leader_epoch) == (2, 1)
    before = len(cluster.log)
    assert cluster.alter("t", [2, 3], **fields).error_code == code
    assert len(cluster.log) == before


def test_a_replica_that_started_again_must_catch_up_again(cluster: Any) -> None:
    cluster.create("t", [1, 2])
    old = cluster.image.brokers[2].epoch
    cluster.restart(2, clean=True)
    stale = [
        BrokerState(broker_id=1, broker_epoch=cluster.image.brokers[1].epoch),
        BrokerState(broker_id=2, broker_epoch=old),
    ]
    answer = cluster.alter("t", [], new_isr_with_epochs=stale)
    assert answer.error_code == ErrorCode.INELIGIBLE_REPLICA
    assert cluster.alter("t", [1, 2]).error_code == 0


def test_not_from_strangers_nor_for_strangers(cluster: Any) -> None:
    cluster.create("t", [1, 2])
    decide = partial(decide_alter_partition, cluster.context)
    epoch = cluster.image.brokers[2].epoch
    topic_id = cluster.image.topics_by_name["t"].topic_id
    unknown = AlterPartitionRequest(broker_id=9, broker_epoch=1)
    assert decide(unknown).reply.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    stale = AlterPartitionRequest(broker_id=2, broker_epoch=epoch - 1)
    assert decide(stale).reply.error_code == ErrorCode.STALE_BROKER_EPOCH
    asked = PartitionData(partition_index=0, new_isr=[1])
    topics = [TopicData(topic_id=b"?" * 16, partitions=[asked])]
    topics.append(TopicData(topic_id=topic_id, partitions=[asked, asked]))
    reply = decide(AlterPartitionRequest(broker_id=2, broker_epoch=epoch, topics=topics)).reply
    codes = [each.error_code for topic in reply.topics for each in topic.partitions]
    refused = ErrorCode.INVALID_REQUEST  # broker 2 is not the leader, and the partition appears twice
    assert codes == [ErrorCode.UNKNOWN_TOPIC_ID, refused, refused]


def test_a_leader_that_recovers_says_when_it_has(cluster: Any) -> None:
    cluster.create("t", [1, 2], unclean_leader_election_enable="true")
    cluster.alter("t", [1])
    cluster.fence(1)
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (2, (2,), 1)
    assert [(each.topic, each.leader, each.leader_epoch) for each in cluster.lost] == [("t", 2, 1)]
    cluster.restart(1, clean=True)
    assert cluster.alter("t", [2, 1], leader_recovery_state=1).error_code == ErrorCode.INVALID_REQUEST
    answer = cluster.alter("t", [2, 1])
    assert (answer.error_code, answer.leader_recovery_state) == (0, 0)
    assert cluster.partition("t").leader_recovery_state == 0


def test_the_end_of_a_reassignment_may_take_the_leader(cluster: Any) -> None:
    cluster.create("t", [1, 2])
    asked = ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=[3])])
    request = AlterPartitionReassignmentsRequest(topics=[asked])
    cluster.take(decide_alter_partition_reassignments(cluster.context, request))
    answer = cluster.alter("t", [1, 2, 3])
    assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED
    partition = cluster.partition("t")
    assert (partition.leader, partition.replicas, partition.isr) == (3, (3,), (3,))
    assert partition.leader_epoch == 1
