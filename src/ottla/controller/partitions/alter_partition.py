"""Decides AlterPartition: a leader proposes an ISR, and the controller accepts or refuses it."""

from __future__ import annotations

from ottla.controller.context import Context
from ottla.controller.image.parts import LEADER_UNCHANGED, PartitionImage, TopicImage
from ottla.controller.partitions.change import RECOVERED, RECOVERING, PartitionChange
from ottla.controller.partitions.rules import PartitionRules
from ottla.controller.refusal import Refusal
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.alter_partition_request import AlterPartitionRequest
from ottla.protocol.messages.alter_partition_request import PartitionData as Asked
from ottla.protocol.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData


def decide_alter_partition(
    context: Context, request: AlterPartitionRequest
) -> Outcome[AlterPartitionResponse]:
    """Each partition for itself. The answer carries the state after the change, so that the leader need not
    wait for the record to reach it."""
    broker = context.image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        code = ErrorCode.BROKER_ID_NOT_REGISTERED if broker is None else ErrorCode.STALE_BROKER_EPOCH
        return Outcome(AlterPartitionResponse(error_code=code))
    rules = PartitionRules(context)
    records: list[Message] = []
    reply = AlterPartitionResponse()
    seen: set[tuple[bytes, int]] = set()
    for asked_topic in request.topics:
        answers = TopicData(topic_id=asked_topic.topic_id)
        reply.topics.append(answers)
        for asked in asked_topic.partitions:
            try:
                topic = context.image.topics_by_id.get(asked_topic.topic_id)
                if topic is None:
                    raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "There is no such topic.")
                key = (topic.topic_id, asked.partition_index)
                if key in seen:
                    raise Refusal(ErrorCode.INVALID_REQUEST, "The partition appears twice.")
                seen.add(key)
                answers.partitions.append(_alter(rules, topic, asked, request.broker_id, records))
            except Refusal as refusal:
                answers.partitions.append(
                    PartitionData(partition_index=asked.partition_index, error_code=refusal.code)
                )
    return Outcome(reply, records=records, effects=rules.unclean_elections)


def _alter(
    rules: PartitionRules, topic: TopicImage, asked: Asked, broker_id: int, records: list[Message]
) -> PartitionData:
    partition = topic.partitions.get(asked.partition_index)
    if partition is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such partition.")
    new_isr = _new_isr(asked)
    _check_epochs(partition, asked, broker_id)
    _check_isr(rules, partition, asked, new_isr)
    change = PartitionChange(rules, topic, asked.partition_index)
    change.isr = list(new_isr)
    change.recovery_state = asked.leader_recovery_state
    record = change.build()
    if record is not None:
        records.append(record)
    if change.leader != broker_id:
        # The change ended a reassignment that takes the partition away from its leader.
        return PartitionData(partition_index=asked.partition_index, error_code=ErrorCode.NEW_LEADER_ELECTED)
    new_epoch = record is not None and record.leader != LEADER_UNCHANGED
    return PartitionData(
        partition_index=asked.partition_index,
        leader_id=change.leader,
        leader_epoch=partition.leader_epoch + new_epoch,
        isr=change.isr,
        leader_recovery_state=change.recovery_state,
        partition_epoch=partition.partition_epoch + (record is not None),
    )


def _new_isr(asked: Asked) -> dict[int, int]:
    """Brokers and their epochs; -1 where the leader does not know it."""
    if asked.new_isr_with_epochs:
        pairs = [(each.broker_id, each.broker_epoch) for each in asked.new_isr_with_epochs]
    else:
        pairs = [(broker_id, -1) for broker_id in asked.new_isr]
    new_isr = dict(pairs)
    if len(new_isr) != len(pairs):
        raise Refusal(ErrorCode.INVALID_REQUEST, "A broker is in the ISR twice.")
    return new_isr


def _check_epochs(partition: PartitionImage, asked: Asked, broker_id: int) -> None:
    if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
        # The leader has seen what this controller has not: another one must be active.
        raise Refusal(ErrorCode.NOT_CONTROLLER, "The leader is ahead of this controller.")
    if asked.leader_epoch < partition.leader_epoch:
        raise Refusal(ErrorCode.FENCED_LEADER_EPOCH, f"The leader epoch is {partition.leader_epoch}.")
    if broker_id != partition.leader:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"The leader is {partition.leader}.")
    if asked.partition_epoch < partition.partition_epoch:
        text = f"The partition epoch is {partition.partition_epoch}."
        raise Refusal(ErrorCode.INVALID_UPDATE_VERSION, text)


def _check_isr(
    rules: PartitionRules, partition: PartitionImage, asked: Asked, new_isr: dict[int, int]
) -> None:
    state = asked.leader_recovery_state
    if not new_isr.keys() <= set(partition.replicas) or partition.leader not in new_isr:
        raise Refusal(ErrorCode.INVALID_REQUEST, "The ISR holds the leader, and replicas only.")
    if state not in (RECOVERED, RECOVERING):
        raise Refusal(ErrorCode.INVALID_REQUEST, f"There is no recovery state {state}.")
    if state == RECOVERING and (len(new_isr) > 1 or partition.leader_recovery_state == RECOVERED):
        raise Refusal(ErrorCode.INVALID_REQUEST, "A leader that recovers is alone, and was so before.")
    for broker_id, epoch in new_isr.items():
        broker = rules.image.brokers.get(broker_id)
        if broker is None or not broker.active or epoch not in (-1, broker.epoch):
            text = f"Broker {broker_id} is gone, fenced, in controlled shutdown, or started again."
            raise Refusal(ErrorCode.INELIGIBLE_REPLICA, text)
