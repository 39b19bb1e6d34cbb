"""Decides CreateTopics: each topic with its partitions, replicas and configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ottla.config.definitions import ConfigError
from ottla.config.topic_config import check_topic_configs
from ottla.controller.context import PARTITIONS_PER_REQUEST_MAX, Context
from ottla.controller.image.cluster import RESOURCE_TOPIC
from ottla.controller.partitions.assignments import check_replicas, new_partition_record
from ottla.controller.refusal import Refusal
from ottla.controller.topics.names import METADATA_TOPIC, check_topic_name
from ottla.controller.topics.placement import place_partitions
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.config_record import ConfigRecord
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from ottla.protocol.messages.topic_record import TopicRecord
from ottla.protocol.uuids import ZERO_UUID


def decide_create_topics(context: Context, request: CreateTopicsRequest) -> Outcome[CreateTopicsResponse]:
    """Each topic for itself: those that cannot be created do not keep the others from it."""
    records: list[Message] = []
    reply = CreateTopicsResponse()
    too_many = _partitions_asked(context, request.topics) > PARTITIONS_PER_REQUEST_MAX
    named = Counter(topic.name for topic in request.topics)
    answered: set[str] = set()
    taken: dict[str, str] = {}  # folded names of this request
    for topic in request.topics:
        if topic.name in answered:
            continue
        answered.add(topic.name)
        try:
            if too_many:
                text = f"Excessively large number of partitions: {PARTITIONS_PER_REQUEST_MAX} per request."
                raise Refusal(ErrorCode.POLICY_VIOLATION, text)
            if named[topic.name] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            _check_name(context, topic.name, taken)
            created, result = _create_topic(context, topic)
        except Refusal as refusal:
            result = CreatableTopicResult(
                name=topic.name, error_code=refusal.code, error_message=refusal.message
            )
        else:
            taken[topic.name.replace(".", "_")] = topic.name
            if request.validate_only:
                result.topic_id = ZERO_UUID
            else:
                records += created
        reply.topics.append(result)
    return Outcome(reply, records=records)


def _partitions_asked(context: Context, topics: Iterable[CreatableTopic]) -> int:
    asked = 0
    for topic in topics:
        if topic.assignments:
            asked += len(topic.assignments)
        elif topic.num_partitions == -1:
            asked += context.config.get_int("num.partitions")
        else:
            asked += max(0, topic.num_partitions)
    return asked


def _check_name(context: Context, name: str, taken: dict[str, str]) -> None:
    check_topic_name(name)
    if name == METADATA_TOPIC:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if name in context.image.topics_by_name:
        raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if "." in name or "_" in name:
        folded = name.replace(".", "_")
        other = context.image.names_folded.get(folded) or taken.get(folded)
        if other is not None:
            text = f"Topic '{name}' collides with existing topic: {other}"
            raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, text)


def _create_topic(context: Context, topic: CreatableTopic) -> tuple[list[Message], CreatableTopicResult]:
    overrides = _checked_overrides(context, topic)
    replicas = _assigned(context, topic) if topic.assignments else _placed(context, topic)
    topic_id = context.new_uuid()
    records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    for name, value in overrides.items():
        records.append(
            ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name=topic.name, name=name, value=value)
        )
    brokers = context.image.brokers
    for number, ids in enumerate(replicas):
        records.append(new_partition_record(brokers, topic_id, number, ids))
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        num_partitions=len(replicas),
        replication_factor=len(replicas[0]),
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=False,
                config_source=entry.source,
                is_sensitive=entry.prop.sensitive,
            )
            for entry in context.layers().describe_topic(overrides)
        ],
        error_message=None,
    )
    return records, result


def _checked_overrides(context: Context, topic: CreatableTopic) -> dict[str, str]:
    overrides: dict[str, str] = {}
    nulls = [config.name for config in topic.configs if config.value is None]
    if nulls:
        text = f"Null value not supported for topic configs: {','.join(nulls)}"
        raise Refusal(ErrorCode.INVALID_CONFIG, text)
    for config in topic.configs:
        assert config.value is not None
        overrides[config.name] = config.value
    try:
        check_topic_configs(overrides, context.layers().topic_defaults())
    except ConfigError as error:
        raise Refusal(ErrorCode.INVALID_CONFIG, str(error)) from None
    return overrides


def _assigned(context: Context, topic: CreatableTopic) -> list[list[int]]:
    """The replicas that the request gives by hand."""
    if topic.replication_factor != -1 or topic.num_partitions != -1:
        text = "With a manual assignment, both num_partitions and replication_factor must be -1."
        raise Refusal(ErrorCode.INVALID_REQUEST, text)
    replicas: dict[int, list[int]] = {}
    factor: int | None = None
    for each in topic.assignments:
        if each.partition_index in replicas:
            text = f"Found multiple manual assignments for partition {each.partition_index}."
            raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        check_replicas(context.image.brokers, each.partition_index, each.broker_ids, factor)
        factor = len(each.broker_ids)
        replicas[each.partition_index] = each.broker_ids
    if sorted(replicas) != list(range(len(replicas))):
        text = "Partitions must be numbered from 0 without gaps."
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return [replicas[number] for number in range(len(replicas))]


def _placed(context: Context, topic: CreatableTopic) -> list[list[int]]:
    factor = topic.replication_factor
    count = topic.num_partitions
    if factor < -1 or factor == 0:
        text = "Replication factor must be larger than 0, or -1 to use the default value."
        raise Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    if count < -1 or count == 0:
        text = "Number of partitions must be larger than 0, or -1 to use the default value."
        raise Refusal(ErrorCode.INVALID_PARTITIONS, text)
    config = context.config
    count = config.get_int("num.partitions") if count == -1 else count
    factor = config.get_int("default.replication.factor") if factor == -1 else factor
    return place_partitions(context.image.brokers.values(), count, factor, context.draw)
