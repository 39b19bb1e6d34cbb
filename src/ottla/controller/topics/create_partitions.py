"""Decides on CreatePartitions: more partitions for topics that exist."""

from __future__ import annotations

from collections import Counter

from ottla.controller.context import PARTITIONS_PER_REQUEST_MAX, Context
from ottla.controller.partitions.assignments import check_replicas, new_partition_record
from ottla.controller.refusal import Refusal
from ottla.controller.topics.placement import place_partitions
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


def decide_create_partitions(
    context: Context, request: CreatePartitionsRequest
) -> Outcome[CreatePartitionsResponse]:
    """Each topic for itself; partitions are only ever added."""
    named = Counter(topic.name for topic in request.topics)
    records: list[Message] = []
    reply = CreatePartitionsResponse()
    answered: set[str] = set()
    for topic in request.topics:
        if topic.name in answered:
            continue
        answered.add(topic.name)
        result = CreatePartitionsTopicResult(name=topic.name)
        try:
            if named[topic.name] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            records += _more_partitions(context, topic, PARTITIONS_PER_REQUEST_MAX - len(records))
        except Refusal as refusal:
            result.error_code = refusal.code
            result.error_message = refusal.message
        reply.results.append(result)
    return Outcome(reply, records=[] if request.validate_only else records)


def _more_partitions(context: Context, topic: CreatePartitionsTopic, room: int) -> list[Message]:
    image = context.image.topics_by_name.get(topic.name)
    if image is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such topic.")
    now = len(image.partitions)
    more = topic.count - now
    if more <= 0:
        text = f"Topic {topic.name} has {now} partition(s); {topic.count} would not be an increase."
        raise Refusal(ErrorCode.INVALID_PARTITIONS, text)
    if more > room:
        text = f"Excessively large number of partitions: {PARTITIONS_PER_REQUEST_MAX} per request."
        raise Refusal(ErrorCode.POLICY_VIOLATION, text)
    brokers = context.image.brokers
    factor = len(image.partitions[0].replicas)
    if topic.assignments is None:
        replicas = place_partitions(brokers.values(), more, factor, context.draw)
    else:
        replicas = [each.broker_ids for each in topic.assignments]
        if len(replicas) != more:
            text = f"{more} partition(s) are to be added, but {len(replicas)} assignment(s) were given."
            raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        for number, ids in enumerate(replicas, now):
            check_replicas(brokers, number, ids, factor)
    return [new_partition_record(brokers, image.topic_id, now + i, ids) for i, ids in enumerate(replicas)]
