"""AlterConfigs and IncrementalAlterConfigs: operations, resources, error codes."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.controller.cluster.configs import decide_alter_configs, decide_incremental_alter_configs
from ottla.controller.topics.create_topics import decide_create_topics
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_configs_request import AlterableConfig as PlainConfig
from ottla.protocol.messages.alter_configs_request import AlterConfigsRequest
from ottla.protocol.messages.alter_configs_request import AlterConfigsResource as PlainResource
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, GROUP = 2, 4, 32


@pytest.fixture
def topic(cluster: Any) -> Any:
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    cluster.append(decide_create_topics(cluster.context, request).records)
    return cluster


def change(
    harness: Any, *changes: tuple[str, int, str | None], on: tuple[int, str] = (TOPIC, "t"), **fields: Any
) -> ErrorCode:
    configs = [AlterableConfig(name=name, config_operation=op, value=value) for name, op, value in changes]
    resources = [AlterConfigsResource(resource_type=on[0], resource_name=on[1], configs=configs)]
    request = IncrementalAlterConfigsRequest(resources=resources, **fields)
    decision = decide_incremental_alter_configs(harness.context, request)
    harness.append(decision.records)
    (answer,) = decision.reply.responses
    assert (answer.resource_type, answer.resource_name) == on
    assert bool(answer.error_message) == bool(answer.error_code)
    return ErrorCode(answer.error_code)


def replace(harness: Any, values: dict[str, str | None], on: tuple[int, str] = (TOPIC, "t")) -> ErrorCode:
    configs = [PlainConfig(name=name, value=value) for name, value in values.items()]
    resources = [PlainResource(resource_type=on[0], resource_name=on[1], configs=configs)]
    decision = decide_alter_configs(harness.context, AlterConfigsRequest(resources=resources))
    harness.append(decision.records)
    return ErrorCode(decision.reply.responses[0].error_code)


def test_set_and_delete(topic: Any) -> None:
    assert change(topic, ("retention.ms", SET, "5"), ("flush.ms", SET, "6")) == ErrorCode.NONE
    assert change(topic, ("retention.ms", DELETE, None), ("flush.ms", SET, "7")) == ErrorCode.NONE
    assert topic.image.topic_config("t") == {"flush.ms": "7"}
    before = len(topic.log)
    assert change(topic, ("flush.ms", SET, "7"), ("retention.ms", DELETE, None)) == ErrorCode.NONE
    assert len(topic.log) == before, "what does not change writes nothing"


def test_append_and_subtract_begin_with_the_value_in_force(topic: Any) -> None:
    assert change(topic, ("cleanup.policy", APPEND, "compact")) == ErrorCode.NONE
    assert topic.image.topic_config("t") == {"cleanup.policy": "delete,compact"}
    assert change(topic, ("cleanup.policy", APPEND, "compact,delete")) == ErrorCode.NONE
    assert change(topic, ("cleanup.policy", SUBTRACT, "delete")) == ErrorCode.NONE
    assert topic.image.topic_config("t") == {"cleanup.policy": "compact"}


def test_alter_configs_removes_values_not_named(topic: Any) -> None:
    assert replace(topic, {"retention.ms": "5", "flush.ms": "6"}) == ErrorCode.NONE
    assert replace(topic, {"flush.ms": "7", "segment.ms": "8"}) == ErrorCode.NONE
    assert topic.image.topic_config("t") == {"flush.ms": "7", "segment.ms": "8"}
    assert replace(topic, {}) == ErrorCode.NONE
    assert topic.image.configs == {}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG),
        ([("no.such", SET, "x")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", APPEND, "5")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SUBTRACT, "5")], ErrorCode.INVALID_CONFIG),
        ([("cleanup.policy", APPEND, "shred")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", 9, "5")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "5"), ("retention.ms", SET, "6")], ErrorCode.INVALID_REQUEST),
        (
            [("min.compaction.lag.ms", SET, "9"), ("max.compaction.lag.ms", SET, "5")],
            ErrorCode.INVALID_CONFIG,
        ),
        ([("follower.replication.throttled.replicas", SET, "1:1," * 9000 + "1:2")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_refused_for_a_topic(topic: Any, changes: list[tuple[str, int, str | None]], code: ErrorCode) -> None:
    assert change(topic, *changes) == code
    assert topic.image.configs == {}


def test_resources_that_are_not_there(topic: Any) -> None:
    good = ("retention.ms", SET, "5")
    assert change(topic, good, on=(TOPIC, "nope")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert change(topic, good, on=(TOPIC, "")) == ErrorCode.INVALID_REQUEST
    assert change(topic, good, on=(TOPIC, "a/b")) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert change(topic, good, on=(8, "1")) == ErrorCode.INVALID_REQUEST
    threads = ("num.io.threads", SET, "5")
    assert change(topic, threads, on=(BROKER, "9")) == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert change(topic, threads, on=(BROKER, "one")) == ErrorCode.INVALID_REQUEST
    assert change(topic, threads, on=(BROKER, "-1")) == ErrorCode.INVALID_REQUEST
    assert topic.image.configs == {}


@pytest.mark.parametrize(
    ("resource_type", "named"), [(8, "BROKER_LOGGER"), (16, "CLIENT_METRICS"), (77, "UNKNOWN (77)")]
)
def test_a_refusal_names_the_resource_type(topic: Any, resource_type: int, named: str) -> None:
    config = AlterableConfig(name="retention.ms", config_operation=SET, value="5")
    resource = AlterConfigsResource(resource_type=resource_type, resource_name="1", configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    (answer,) = decide_incremental_alter_configs(topic.context, request).reply.responses
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message == (f"Resource type {named} cannot be altered; TOPIC, BROKER and GROUP can.")


def test_brokers_one_and_all(topic: Any) -> None:
    assert change(topic, ("num.io.threads", SET, "5"), on=(BROKER, "1")) == ErrorCode.NONE
    assert change(topic, ("log.retention.ms", SET, "6"), on=(BROKER, "")) == ErrorCode.NONE
    assert topic.image.broker_config(1) == {"num.io.threads": "5"}
    assert topic.image.cluster_config() == {"log.retention.ms": "6"}
    assert change(topic, ("log.cleanup.policy", APPEND, "compact"), on=(BROKER, "")) == ErrorCode.NONE
    assert topic.image.cluster_config()["log.cleanup.policy"] == "delete,compact"
    assert change(topic, ("node.id", SET, "6"), on=(BROKER, "1")) == ErrorCode.INVALID_REQUEST
    assert change(topic, ("listeners", SET, "PLAINTEXT://a:1"), on=(BROKER, "")) == ErrorCode.INVALID_REQUEST
    assert change(topic, ("num.io.threads", SET, "0"), on=(BROKER, "1")) == ErrorCode.INVALID_REQUEST


def test_append_to_a_topic_config_starts_from_the_cluster_value(topic: Any) -> None:
    change(topic, ("log.cleanup.policy", SET, "compact"), on=(BROKER, ""))
    change(topic, ("cleanup.policy", APPEND, "delete"))
    assert topic.image.topic_config("t") == {"cleanup.policy": "compact,delete"}


def test_validate_only(topic: Any) -> None:
    assert change(topic, ("retention.ms", SET, "5"), validate_only=True) == ErrorCode.NONE
    assert change(topic, ("retention.ms", SET, "x"), validate_only=True) == ErrorCode.INVALID_CONFIG
    assert topic.image.configs == {}


def test_each_resource_once_and_for_itself(topic: Any) -> None:
    def resource(name: str, value: str) -> AlterConfigsResource:
        configs = [AlterableConfig(name="retention.ms", config_operation=SET, value=value)]
        return AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=configs)

    request = IncrementalAlterConfigsRequest(resources=[resource("nope", "1"), resource("t", "2")])
    decision = decide_incremental_alter_configs(topic.context, request)
    topic.append(decision.records)
    assert [each.error_code for each in decision.reply.responses] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    assert topic.image.topic_config("t") == {"retention.ms": "2"}
    request = IncrementalAlterConfigsRequest(resources=[resource("t", "3"), resource("t", "4")])
    decision = decide_incremental_alter_configs(topic.context, request)
    assert {each.error_code for each in decision.reply.responses} == {ErrorCode.INVALID_REQUEST}
    assert decision.records == []


def test_null_in_a_replacement(topic: Any) -> None:
    assert replace(topic, {"retention.ms": None}) == ErrorCode.INVALID_REQUEST
    assert replace(topic, {"retention.ms": "x"}) == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"consumer.session.timeout.ms": "50000"}, ErrorCode.NONE),
        ({"consumer.heartbeat.interval.ms": "6000", "consumer.assignment.interval.ms": "0"}, ErrorCode.NONE),
        ({"consumer.session.timeout.ms": "44999"}, ErrorCode.INVALID_CONFIG),
        ({"consumer.session.timeout.ms": "60001"}, ErrorCode.INVALID_CONFIG),
        ({"consumer.heartbeat.interval.ms": "4999"}, ErrorCode.INVALID_CONFIG),
        ({"consumer.assignment.interval.ms": "15001"}, ErrorCode.INVALID_CONFIG),
        ({"consumer.session.timeout.ms": "soon"}, ErrorCode.INVALID_CONFIG),
        ({"retention.ms": "5"}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_groups_within_the_bounds_of_the_broker(
    cluster: Any, values: dict[str, str | None], code: ErrorCode
) -> None:
    assert replace(cluster, values, on=(GROUP, "readers")) == code
    assert cluster.image.configs.get((GROUP, "readers"), {}) == ({} if code else values)


def test_a_group_needs_a_name_but_need_not_exist(cluster: Any) -> None:
    changed = ("consumer.session.timeout.ms", SET, "50000")
    assert change(cluster, changed, on=(GROUP, "")) == ErrorCode.INVALID_REQUEST
    assert change(cluster, changed, on=(GROUP, "nobody yet")) == ErrorCode.NONE
    appended = ("consumer.session.timeout.ms", APPEND, "1")
    assert change(cluster, appended, on=(GROUP, "nobody yet")) == ErrorCode.INVALID_CONFIG
