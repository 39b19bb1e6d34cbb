"""Decides AssignReplicasToDirs: a broker reports the directories of its replicas."""

from __future__ import annotations

from ottla.controller.context import Context
from ottla.controller.image.parts import TopicImage
from ottla.controller.partitions.change import PartitionChange
from ottla.controller.partitions.directories import DIRECTORY_UNASSIGNED, is_online
from ottla.controller.partitions.rules import PartitionRules
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from ottla.protocol.messages.assign_replicas_to_dirs_response import (
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)


def decide_assign_replicas_to_dirs(
    context: Context, request: AssignReplicasToDirsRequest
) -> Outcome[AssignReplicasToDirsResponse]:
    """Decide each replica separately. A replica reported in an offline directory cannot be used."""
    broker = context.image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        code = ErrorCode.BROKER_ID_NOT_REGISTERED if broker is None else ErrorCode.STALE_BROKER_EPOCH
        return Outcome(AssignReplicasToDirsResponse(error_code=code))
    rules = PartitionRules(context)
    records: list[Message] = []
    seen: set[tuple[bytes, int]] = set()
    reply = AssignReplicasToDirsResponse()
    for directory in request.directories:
        answers = DirectoryData(id=directory.id)
        reply.directories.append(answers)
        online = is_online(broker, directory.id)
        for asked in directory.topics:
            topic = context.image.topics_by_id.get(asked.topic_id)
            answer = TopicData(topic_id=asked.topic_id)
            answers.topics.append(answer)
            for each in asked.partitions:
                number = each.partition_index
                code = _problem(topic, number, broker.broker_id)
                if (asked.topic_id, number) in seen:
                    code = ErrorCode.INVALID_REQUEST
                seen.add((asked.topic_id, number))
                answer.partitions.append(PartitionData(partition_index=number, error_code=code))
                if code == ErrorCode.NONE:
                    assert topic is not None
                    records += _assign(rules, topic, number, broker.broker_id, directory.id, online)
    return Outcome(reply, records=records, effects=rules.unclean_elections)


def _problem(topic: TopicImage | None, number: int, broker_id: int) -> ErrorCode:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(number)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if broker_id in partition.replicas else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _assign(
    rules: PartitionRules, topic: TopicImage, number: int, broker_id: int, directory: bytes, online: bool
) -> list[Message]:
    change = PartitionChange(rules, topic, number)
    if len(change.directories) != len(change.replicas):
        change.directories = [DIRECTORY_UNASSIGNED] * len(change.replicas)
    index = change.replicas.index(broker_id)
    replaced = change.directories[index] not in (directory, DIRECTORY_UNASSIGNED)
    if replaced and not is_online(rules.image.brokers[broker_id], change.directories[index]):
        # The directory with the broker's copy is gone; what it has now began empty.
        change.lost_copy = broker_id
    change.directories[index] = directory
    if not online or (change.lost_copy is not None and change.partition.leader != broker_id):
        change.isr = [each for each in change.isr if each != broker_id]
    record = change.build()
    return [] if record is None else [record]
