"""What becomes of partitions when a broker comes or goes.

A broker that goes leaves the ISR, unless it is the last one in it: that one alone knows what was
committed, so the partition waits for it without a leader. A broker that comes leads the partitions that
waited for it. Every change of the leader is a new leader epoch, also when the same broker leads again
after a restart: followers and consumers find out by it that the end of the log may not be what it was.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.controller.image import ClusterImage
from ottla.controller.image_parts import LEADER_UNCHANGED, NO_LEADER, PartitionImage
from ottla.protocol.message import Message
from ottla.protocol.messages.partition_change_record import PartitionChangeRecord


def _partitions(image: ClusterImage) -> Iterator[tuple[bytes, int, PartitionImage]]:
    for topic in image.topics_by_id.values():
        for number, partition in topic.partitions.items():
            yield topic.topic_id, number, partition


def broker_leaves(image: ClusterImage, broker_id: int) -> list[Message]:
    """Changes of the partitions that have the broker in their ISR."""
    records: list[Message] = []
    for topic_id, number, partition in _partitions(image):
        if broker_id not in partition.isr:
            continue
        rest = [each for each in partition.isr if each != broker_id]
        leader = LEADER_UNCHANGED
        if partition.leader == broker_id:
            alive = [each for each in partition.replicas if each in rest and _active(image, each)]
            leader = alive[0] if alive else NO_LEADER
        if not rest and leader == LEADER_UNCHANGED:
            continue
        records.append(
            PartitionChangeRecord(
                partition_id=number, topic_id=topic_id, isr=rest if rest else None, leader=leader
            )
        )
    return records


def broker_arrives(image: ClusterImage, broker_id: int) -> list[Message]:
    """Elections of the broker in partitions that have no leader and count it in sync."""
    return [
        PartitionChangeRecord(partition_id=number, topic_id=topic_id, leader=broker_id)
        for topic_id, number, partition in _partitions(image)
        if partition.leader == NO_LEADER and broker_id in partition.isr
    ]


def leads_any(image: ClusterImage, broker_id: int) -> bool:
    return any(partition.leader == broker_id for _, _, partition in _partitions(image))


def _active(image: ClusterImage, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.active
