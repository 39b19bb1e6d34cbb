"""How partitions change when a broker arrives or leaves.

A broker that leaves drops out of the ISR, and another replica takes over its leaderships. A broker that
arrives leads the partitions that waited for it. Every change of the leader is a new leader epoch, also when
the same broker leads again after a restart: it shows followers and consumers that the end of the log may
have changed.

A partition with a single replica has no other leader and no reader that could be misled, so a planned
restart of its broker costs it one record instead of two: the partition keeps its leader while that is
fenced, and leads again in a new epoch when it is back. A fenced leader does not count as a leader.
"""

from __future__ import annotations

from ottla.controller.context import Context
from ottla.controller.image.cluster import ClusterImage
from ottla.controller.image.parts import NO_LEADER, TopicImage
from ottla.controller.image.queries import all_partitions
from ottla.controller.partitions.change import Changes, PartitionChange
from ottla.controller.partitions.directories import DIRECTORY_UNASSIGNED, directory_of
from ottla.controller.partitions.rules import PartitionRules
from ottla.protocol.message import Message
from ottla.protocol.messages.partition_change_record import PartitionChangeRecord


def broker_leaves(context: Context, broker_id: int, *, keep_single: bool = False) -> Changes:
    """The broker leaves, with an intact log. `keep_single`: it returns, and its unreplicated partitions
    wait."""
    rules = PartitionRules(context, leaving=broker_id)
    records: list[Message] = []
    for topic, number, partition in all_partitions(context.image):
        if broker_id not in partition.isr and partition.leader != broker_id:
            continue
        if keep_single and partition.replicas == (broker_id,):
            continue
        records += _without(rules, topic, number, broker_id)
    return records, rules.unclean_elections


def broker_restarts_uncleanly(context: Context, broker_id: int) -> Changes:
    """The broker did not stop in order: the end of its logs may be lost, so it is not in sync any more."""
    rules = PartitionRules(context, unclean_restart=broker_id)
    if not rules.elr_on:
        return broker_leaves(context, broker_id, keep_single=True)
    records: list[Message] = []
    for topic, number, partition in all_partitions(context.image):
        counted = broker_id in partition.isr or broker_id in partition.elr or partition.leader == broker_id
        if counted and partition.replicas != (broker_id,):
            records += _without(rules, topic, number, broker_id)
    return records, rules.unclean_elections


def _without(rules: PartitionRules, topic: TopicImage, number: int, broker_id: int) -> list[Message]:
    change = PartitionChange(rules, topic, number)
    change.isr = [each for each in change.isr if each != broker_id]
    record = change.build()
    return [] if record is None else [record]


def directories_leave(context: Context, broker_id: int, partitions: list[tuple[TopicImage, int]]) -> Changes:
    """The broker stays, but cannot use its replicas of these partitions."""
    rules = PartitionRules(context, leaving=broker_id)
    records: list[Message] = []
    for topic, number in partitions:
        partition = topic.partitions[number]
        if broker_id in partition.isr or partition.leader == broker_id:
            records += _without(rules, topic, number, broker_id)
    return records, rules.unclean_elections


def directories_return(context: Context, broker_id: int, directories: frozenset[bytes]) -> Changes:
    """The broker can use its replicas in these directories again: elections in the partitions that waited for
    one of them."""
    rules = PartitionRules(context, returning=directories)
    records: list[Message] = []
    for topic, number, partition in all_partitions(context.image):
        if partition.leader == NO_LEADER and directory_of(partition, broker_id) in directories:
            record = PartitionChange(rules, topic, number).build()
            if record is not None:
                records.append(record)
    return records, rules.unclean_elections


def broker_arrives(context: Context, broker_id: int) -> Changes:
    """Elections in the partitions that have no leader, and new epochs where the broker led all along."""
    rules = PartitionRules(context, arriving=broker_id)
    broker = context.image.brokers[broker_id]
    directories = frozenset((*broker.log_dirs, DIRECTORY_UNASSIGNED))
    alone = (broker_id,)
    records: list[Message] = []
    for topic, number, partition in all_partitions(context.image):
        leader = partition.leader
        if leader == broker_id:
            single = partition.replicas == alone == partition.isr
            if single and directories.issuperset(partition.directories) and not partition.elr:
                # The common case of a node alone with thousands of partitions, without the long way.
                records.append(
                    PartitionChangeRecord(partition_id=number, topic_id=topic.topic_id, leader=broker_id)
                )
                continue
        elif leader != NO_LEADER or broker_id not in partition.replicas:
            continue
        record = PartitionChange(rules, topic, number).build(restarted=True)
        if record is not None:
            records.append(record)
    return records, rules.unclean_elections


def must_hand_over(image: ClusterImage, broker_id: int) -> bool:
    """Whether the broker leads partitions that others could lead."""
    return any(
        partition.leader == broker_id and partition.replicas != (broker_id,)
        for _, _, partition in all_partitions(image)
    )
