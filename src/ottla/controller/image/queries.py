"""Queries on the partitions of an image."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.controller.image.cluster import ClusterImage
from ottla.controller.image.parts import PartitionImage, TopicImage


def all_partitions(image: ClusterImage) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
    for topic in image.topics_by_id.values():
        for number, partition in topic.partitions.items():
            yield topic, number, partition


def has_leader(image: ClusterImage, partition: PartitionImage) -> bool:
    """Whether the partition has a leader. A fenced one does not count."""
    leader = image.brokers.get(partition.leader)
    return leader is not None and not leader.fenced
