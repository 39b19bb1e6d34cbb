"""CreateTopics, DeleteTopics, CreatePartitions: results and error codes."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.controller.topics.create_partitions import decide_create_partitions
from ottla.controller.topics.create_topics import decide_create_topics
from ottla.controller.topics.delete_topics import decide_delete_topics
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState

ZERO = bytes(16)


def topic(name: str, partitions: int = 1, factor: int = 1, **more: Any) -> CreatableTopic:
    configs = [CreatableTopicConfig(name=k, value=v) for k, v in more.pop("configs", {}).items()]
    return CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=factor, configs=configs, **more
    )


def by_hand(*replicas: list[int], first: int = 0) -> dict[str, Any]:
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
        for index, ids in enumerate(replicas, first)
    ]
    return {"partitions": -1, "factor": -1, "assignments": assignments}


def create(harness: Any, *topics: CreatableTopic, validate_only: bool = False) -> list[Any]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    decision = decide_create_topics(harness.context, request)
    harness.append(decision.records)
    return list(decision.reply.topics)


def test_a_topic_with_partitions_and_configs(cluster: Any) -> None:
    (result,) = create(cluster, topic("t", 6, 2, configs={"retention.ms": "5"}))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 6, 2)
    image = cluster.image.topics_by_name["t"]
    assert image.topic_id == result.topic_id != ZERO
    assert sorted(image.partitions) == list(range(6))
    for partition in image.partitions.values():
        assert partition.leader == partition.replicas[0]
        assert partition.isr == partition.replicas
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
        assert len(partition.directories) == 2
        assert all(any(directory) for directory in partition.directories)
    configs = {config.name: config for config in result.configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", 1)
    assert configs["segment.bytes"].config_source == 5
    assert cluster.image.topic_config("t") == {"retention.ms": "5"}


def test_defaults_come_from_the_configuration(new_harness: Any) -> None:
    harness = new_harness({"num.partitions": "4", "default.replication.factor": "2"})
    harness.start_broker(1)
    harness.start_broker(2, dirs=2)
    (result,) = create(harness, topic("t", -1, -1))
    assert (result.num_partitions, result.replication_factor) == (4, 2)
    for partition in harness.image.topics_by_name["t"].partitions.values():
        for broker_id, directory in zip(partition.replicas, partition.directories, strict=True):
            assert any(directory) == (broker_id == 1), "a broker with several directories chooses by itself"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("ä"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("exists"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (topic("dotted_name"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (topic("t", partitions=0), ErrorCode.INVALID_PARTITIONS),
        (topic("t", partitions=-2), ErrorCode.INVALID_PARTITIONS),
        (topic("t", factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("t", factor=-2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("t", factor=4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("t", partitions=10_001), ErrorCode.POLICY_VIOLATION),
        (topic("t", partitions=2**31 - 1), ErrorCode.POLICY_VIOLATION),
        (topic("t", configs={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG),
        (topic("t", configs={"no.such": "x"}), ErrorCode.INVALID_CONFIG),
        (topic("t", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (topic("t", 1, -1, assignments=by_hand([1])["assignments"]), ErrorCode.INVALID_REQUEST),
        (topic("t", -1, 1, assignments=by_hand([1])["assignments"]), ErrorCode.INVALID_REQUEST),
        (topic("t", **by_hand([])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", **by_hand([1, 1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", **by_hand([9])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", **by_hand([1], [1, 2])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", **by_hand([1], first=1)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_refusals(cluster: Any, asked: CreatableTopic, code: ErrorCode) -> None:
    create(cluster, topic("exists"), topic("dotted.name"))
    before = len(cluster.log)
    (result,) = create(cluster, asked)
    assert ErrorCode(result.error_code) == code
    assert result.error_message
    assert len(cluster.log) == before


def test_longest_name_and_largest_request(cluster: Any) -> None:
    assert [each.error_code for each in create(cluster, topic("x" * 249), topic("many", 9_999))] == [0, 0]


def test_the_limit_counts_over_all_topics_of_a_request(cluster: Any) -> None:
    results = create(cluster, topic("a", 6000), topic("b", 4001))
    assert {each.error_code for each in results} == {ErrorCode.POLICY_VIOLATION}


def test_one_bad_topic_does_not_keep_the_others(cluster: Any) -> None:
    results = create(cluster, topic("a"), topic("b", 0), topic("c.d"), topic("c_d"), topic("e"), topic("e"))
    codes = {each.name: ErrorCode(each.error_code) for each in results}
    assert codes == {
        "a": ErrorCode.NONE,
        "b": ErrorCode.INVALID_PARTITIONS,
        "c.d": ErrorCode.NONE,
        "c_d": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "e": ErrorCode.INVALID_REQUEST,
    }
    assert len(results) == 5
    assert set(cluster.image.topics_by_name) == {"a", "c.d"}


def test_validate_only_checks_and_changes_nothing(cluster: Any) -> None:
    before = len(cluster.log)
    good, bad = create(cluster, topic("a", 2), topic("b", 0), validate_only=True)
    assert (good.error_code, good.num_partitions) == (0, 2)
    assert bad.error_code == ErrorCode.INVALID_PARTITIONS
    assert len(cluster.log) == before


def test_assignments_by_hand(cluster: Any) -> None:
    (result,) = create(cluster, topic("t", **by_hand([3, 1], [2, 3])))
    assert (result.num_partitions, result.replication_factor) == (2, 2)
    partitions = cluster.image.topics_by_name["t"].partitions
    assert [partitions[i].replicas for i in (0, 1)] == [(3, 1), (2, 3)]


def test_without_active_brokers(new_harness: Any) -> None:
    harness = new_harness()
    assert create(harness, topic("t"))[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    harness.register(1)
    assert create(harness, topic("t"))[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    by_hand_result = create(harness, topic("t", **by_hand([1])))[0]
    assert by_hand_result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def delete(
    harness: Any, *names: str, topics: tuple[DeleteTopicState, ...] = ()
) -> list[tuple[Any, ErrorCode]]:
    request = DeleteTopicsRequest(topic_names=list(names), topics=list(topics))
    decision = decide_delete_topics(harness.context, request)
    harness.append(decision.records)
    return [(each.name, ErrorCode(each.error_code)) for each in decision.reply.responses]


def test_delete_by_name_and_by_id(cluster: Any) -> None:
    a, b, _ = create(cluster, topic("a", configs={"retention.ms": "5"}), topic("b"), topic("c.d"))
    assert delete(cluster, "a", "nope") == [
        ("a", ErrorCode.NONE),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert cluster.image.configs == {}
    by_id = (DeleteTopicState(topic_id=b.topic_id), DeleteTopicState(topic_id=a.topic_id))
    assert delete(cluster, topics=by_id) == [("b", ErrorCode.NONE), (None, ErrorCode.UNKNOWN_TOPIC_ID)]
    delete(cluster, "c.d")
    assert create(cluster, topic("c_d"))[0].error_code == 0, "the name is free again"
    (again,) = create(cluster, topic("a"))
    assert again.topic_id != a.topic_id


def test_delete_refuses_ambiguous_requests(cluster: Any) -> None:
    a, _ = create(cluster, topic("a"), topic("b"))
    invalid = ErrorCode.INVALID_REQUEST
    assert delete(cluster, "a", "a") == [("a", invalid)]
    assert delete(cluster, topics=(DeleteTopicState(),)) == [(None, invalid)]
    assert delete(cluster, topics=(DeleteTopicState(name="a", topic_id=a.topic_id),)) == [("a", invalid)]
    both = (DeleteTopicState(name="a"), DeleteTopicState(topic_id=a.topic_id))
    assert delete(cluster, topics=both) == [("a", invalid), (None, invalid)]
    assert set(cluster.image.topics_by_name) == {"a", "b"}


def test_delete_can_be_switched_off(new_harness: Any) -> None:
    harness = new_harness({"delete.topic.enable": "false"})
    harness.start_broker(1)
    create(harness, topic("a"))
    assert delete(harness, "a") == [("a", ErrorCode.TOPIC_DELETION_DISABLED)]
    assert "a" in harness.image.topics_by_name


def more(
    harness: Any, name: str, count: int, by_hand: list[list[int]] | None = None, **fields: Any
) -> ErrorCode:
    assignments = None if by_hand is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in by_hand]
    topics = [CreatePartitionsTopic(name=name, count=count, assignments=assignments)]
    request = CreatePartitionsRequest(topics=topics, **fields)
    decision = decide_create_partitions(harness.context, request)
    harness.append(decision.records)
    return ErrorCode(decision.reply.results[0].error_code)


def test_more_partitions(cluster: Any) -> None:
    create(cluster, topic("t", 2, 2))
    assert more(cluster, "t", 5) == ErrorCode.NONE
    assert more(cluster, "t", 7, [[1, 2], [3, 1]]) == ErrorCode.NONE
    partitions = cluster.image.topics_by_name["t"].partitions
    assert sorted(partitions) == list(range(7))
    assert all(len(partition.replicas) == 2 for partition in partitions.values())
    assert partitions[6].replicas == (3, 1)
    assert more(cluster, "t", 9, validate_only=True) == ErrorCode.NONE
    assert len(partitions) == 7


def test_more_partitions_refused(cluster: Any) -> None:
    create(cluster, topic("t", 2, 2))
    assert more(cluster, "nope", 3) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert more(cluster, "t", 2) == ErrorCode.INVALID_PARTITIONS
    assert more(cluster, "t", -1) == ErrorCode.INVALID_PARTITIONS
    assert more(cluster, "t", 10_003) == ErrorCode.POLICY_VIOLATION
    assert more(cluster, "t", 2**31 - 1) == ErrorCode.POLICY_VIOLATION
    assert more(cluster, "t", 3, []) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert more(cluster, "t", 3, [[1]]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert more(cluster, "t", 3, [[1, 9]]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    twice = [CreatePartitionsTopic(name="t", count=3, assignments=None)] * 2
    decision = decide_create_partitions(cluster.context, CreatePartitionsRequest(topics=twice))
    assert [each.error_code for each in decision.reply.results] == [ErrorCode.INVALID_REQUEST]
    assert decision.records == []
