"""The difference between two images, as a delta of records."""

from __future__ import annotations

from typing import Any

from ottla.controller.image.cluster import ClusterImage
from ottla.controller.image.parts import ImageDelta


def difference(old: ClusterImage, new: ClusterImage) -> ImageDelta:
    """The delta from `old` to `new`."""
    delta = ImageDelta()
    _topics(old, new, delta)
    delta.configs.update(_changed(old.configs, new.configs))
    delta.brokers.update(_changed(old.brokers, new.brokers))
    delta.features.update(_changed(old.features, new.features))
    return delta


def _topics(old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
    for topic_id, topic in old.topics_by_id.items():
        if topic_id not in new.topics_by_id:
            delta.topics_deleted[topic_id] = topic
    for topic_id, topic in new.topics_by_id.items():
        known = old.topics_by_id.get(topic_id)
        if known is None:
            delta.topics_created[topic_id] = topic
        for index, partition in topic.partitions.items():
            before = None if known is None else known.partitions.get(index)
            if before is None:
                delta.partitions_created.add((topic_id, index))
            if before != partition:
                delta.partition_changed(topic_id, index)


def _changed(old: dict[Any, Any], new: dict[Any, Any]) -> list[Any]:
    return [key for key in {**old, **new} if old.get(key) != new.get(key)]
