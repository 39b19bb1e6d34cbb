"""Decides on ElectLeaders, and gives leadership back to preferred replicas from time to time."""

from __future__ import annotations

from ottla.controller.context import Context
from ottla.controller.image.parts import NO_LEADER, TopicImage
from ottla.controller.image.queries import all_partitions, has_leader
from ottla.controller.partitions.change import PREFERRED, UNCLEAN, PartitionChange
from ottla.controller.partitions.rules import PartitionRules
from ottla.controller.refusal import Refusal
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ottla.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

TYPE_PREFERRED, TYPE_UNCLEAN = 0, 1
ELECTIONS_PER_PASS = 1000
IMBALANCE_PERCENT_DEFAULT = 10


def decide_elect_leaders(context: Context, request: ElectLeadersRequest) -> Outcome[ElectLeadersResponse]:
    """For the named partitions, or for all: then those that need no election are left out. A request for an
    unclean election accepts the loss, so the topic's configuration does not matter."""
    if request.election_type not in (TYPE_PREFERRED, TYPE_UNCLEAN):
        return Outcome(ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST))
    image = context.image
    asked: list[tuple[str, list[int]]]
    if request.topic_partitions is None:
        asked = [(topic.name, list(topic.partitions)) for topic in image.topics_by_id.values()]
    else:
        asked = [(each.topic, each.partitions) for each in request.topic_partitions]
    rules = PartitionRules(context)
    records: list[Message] = []
    done: set[tuple[str, int]] = set()
    reply = ElectLeadersResponse()
    for name, numbers in asked:
        result = ReplicaElectionResult(topic=name)
        for number in numbers:
            if (name, number) in done:
                continue
            done.add((name, number))
            code, message = ErrorCode.NONE, None
            try:
                records.append(_elect(rules, image.topics_by_name.get(name), number, request.election_type))
            except Refusal as refusal:
                code, message = refusal.code, refusal.message
            if request.topic_partitions is not None or code != ErrorCode.ELECTION_NOT_NEEDED:
                result.partition_result.append(
                    PartitionResult(partition_id=number, error_code=code, error_message=message)
                )
        if result.partition_result:
            reply.replica_election_results.append(result)
    return Outcome(reply, records=records, effects=rules.unclean_elections)


def _elect(rules: PartitionRules, topic: TopicImage | None, number: int, election_type: int) -> Message:
    partition = None if topic is None else topic.partitions.get(number)
    if topic is None or partition is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such partition.")
    led = has_leader(rules.image, partition)
    preferred = election_type == TYPE_PREFERRED
    if led and (not preferred or partition.leader == partition.replicas[0]):
        raise Refusal(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for the partition.")
    change = PartitionChange(rules, topic, number)
    change.election = PREFERRED if preferred else UNCLEAN
    record = change.build()
    if preferred and change.leader != change.replicas[0]:
        text = "The preferred leader is not available."
        raise Refusal(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, text)
    if record is None or change.leader == NO_LEADER:
        raise Refusal(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica can lead the partition.")
    return record


def decide_balance_leaders(context: Context) -> Outcome[list[tuple[str, int]]]:
    """Elections of preferred leaders, for brokers that do not lead what they should by more than
    `leader.imbalance.per.broker.percentage`. The reply names the partitions; after a full pass
    (`ELECTIONS_PER_PASS`) there may be more."""
    if not context.config.get_bool("auto.leader.rebalance.enable"):
        return Outcome([])
    image = context.image
    wanted: dict[int, int] = {}
    missing: dict[int, list[tuple[TopicImage, int]]] = {}
    for topic, number, partition in all_partitions(image):
        preferred = partition.replicas[0]
        wanted[preferred] = wanted.get(preferred, 0) + 1
        if partition.leader == preferred or preferred not in partition.isr:
            continue
        if not partition.adding_replicas and not partition.removing_replicas:
            missing.setdefault(preferred, []).append((topic, number))
    percent = context.config.values.get("leader.imbalance.per.broker.percentage", IMBALANCE_PERCENT_DEFAULT)
    rules = PartitionRules(context)
    records: list[Message] = []
    moved: list[tuple[str, int]] = []
    for broker_id, partitions in missing.items():
        if len(partitions) * 100 <= wanted[broker_id] * percent:
            continue
        for topic, number in partitions[: ELECTIONS_PER_PASS - len(records)]:
            change = PartitionChange(rules, topic, number)
            change.election = PREFERRED
            record = change.build()
            if record is not None and change.leader == broker_id:
                records.append(record)
                moved.append((topic.name, number))
    return Outcome(moved, records=records)
