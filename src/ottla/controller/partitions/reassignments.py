"""Decides on AlterPartitionReassignments and ListPartitionReassignments (KIP-455).

While a partition moves, its replicas are the target followed by those that will go. It ends when the whole
target is in sync: see `PartitionChange`. Taking it back, or giving another target, starts from the replicas
there were before.
"""

from __future__ import annotations

from ottla.controller.context import Context
from ottla.controller.image.parts import TopicImage
from ottla.controller.partitions.assignments import check_replicas
from ottla.controller.partitions.change import UNCLEAN, PartitionChange
from ottla.controller.partitions.rules import PartitionRules
from ottla.controller.refusal import Refusal
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from ottla.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from ottla.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def decide_alter_partition_reassignments(
    context: Context, request: AlterPartitionReassignmentsRequest
) -> Outcome[AlterPartitionReassignmentsResponse]:
    """Each partition for itself: a new target, or none to take the reassignment back."""
    rules = PartitionRules(context)
    records: list[Message] = []
    seen: set[tuple[str, int]] = set()
    reply = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    for asked_topic in request.topics:
        answers = ReassignableTopicResponse(name=asked_topic.name)
        reply.responses.append(answers)
        topic = context.image.topics_by_name.get(asked_topic.name)
        for asked in asked_topic.partitions:
            number = asked.partition_index
            answer = ReassignablePartitionResponse(partition_index=number, error_message=None)
            answers.partitions.append(answer)
            try:
                if (asked_topic.name, number) in seen:
                    raise Refusal(ErrorCode.INVALID_REQUEST, "The partition appears twice.")
                seen.add((asked_topic.name, number))
                if topic is None or number not in topic.partitions:
                    raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such partition.")
                change = PartitionChange(rules, topic, number)
                if asked.replicas is None:
                    _take_back(rules, change, topic)
                else:
                    _aim(rules, change, asked.replicas, request.allow_replication_factor_change)
                record = change.build()
                if record is not None:
                    records.append(record)
            except Refusal as refusal:
                answer.error_code = refusal.code
                answer.error_message = refusal.message
    return Outcome(reply, records=records, effects=rules.unclean_elections)


def _take_back(rules: PartitionRules, change: PartitionChange, topic: TopicImage) -> None:
    if not change.adding and not change.removing:
        raise Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    change.replicas = [each for each in change.replicas if each not in change.adding]
    change.isr = [each for each in change.isr if each not in change.adding]
    change.adding = []
    change.removing = []
    if not change.isr and not _can_go_on(rules, change, topic):
        text = "The reassignment cannot be taken back: only new replicas are in sync."
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)


def _can_go_on(rules: PartitionRules, change: PartitionChange, topic: TopicImage) -> bool:
    partition = change.partition
    live = [each for each in change.replicas if rules.may_lead(partition, each)]
    eligible = set(partition.elr) & set(change.replicas) if rules.elr_on else set()
    if eligible & set(live) or (eligible and not partition.isr):
        return True
    if live and rules.unclean_allowed(topic.name):
        change.election = UNCLEAN
        return True
    return False


def _aim(rules: PartitionRules, change: PartitionChange, target: list[int], may_change_factor: bool) -> None:
    check_replicas(rules.image.brokers, change.number, target, None, needs_active=False)
    before = [each for each in change.replicas if each not in change.adding]
    if not may_change_factor and len(target) != len(before):
        text = f"The replication factor would change from {len(before)} to {len(target)}."
        raise Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    # New replicas of a cancelled target are removed at once, unless no other replica is in sync.
    given_up = [each for each in change.adding if each not in target]
    going = [each for each in before if each not in target]
    partition = change.partition
    if given_up and set(partition.isr or partition.elr or partition.last_known_elr) <= set(given_up):
        going += given_up
    else:
        change.isr = [each for each in change.isr if each not in given_up]
    change.adding = [each for each in target if each not in before]
    change.removing = going
    change.replicas = [*target, *going]


def decide_list_partition_reassignments(
    context: Context, request: ListPartitionReassignmentsRequest
) -> Outcome[ListPartitionReassignmentsResponse]:
    """Reassignments in progress, of the named partitions or of all. Changes nothing."""
    image = context.image
    reply = ListPartitionReassignmentsResponse(error_message=None)
    asked: list[tuple[TopicImage | None, list[int]]]
    if request.topics is None:
        asked = [(topic, sorted(topic.partitions)) for topic in image.topics_by_id.values()]
    else:
        asked = [(image.topics_by_name.get(each.name), each.partition_indexes) for each in request.topics]
    for topic, numbers in asked:
        if topic is None:
            continue
        ongoing = OngoingTopicReassignment(name=topic.name)
        for number in numbers:
            partition = topic.partitions.get(number)
            if partition is not None and (partition.adding_replicas or partition.removing_replicas):
                ongoing.partitions.append(
                    OngoingPartitionReassignment(
                        partition_index=number,
                        replicas=list(partition.replicas),
                        adding_replicas=list(partition.adding_replicas),
                        removing_replicas=list(partition.removing_replicas),
                    )
                )
        if ongoing.partitions:
            reply.topics.append(ongoing)
    return Outcome(reply)
