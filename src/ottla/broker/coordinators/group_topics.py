"""The topics of the metadata image, as the group machines see them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.controller.image.cluster import ClusterImage
    from ottla.controller.image.parts import ImageDelta, TopicImage


class GroupTopics:
    """A `TopicsView`. Its epoch increases only with changes that affect groups."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self.epoch = 1
        self._hashes: dict[bytes, int] = {}

    @property
    def _image(self) -> ClusterImage:
        return self._metadata.image

    def image_changed(self, delta: ImageDelta) -> bool:
        """Return whether a change affects groups."""
        concerns = bool(delta.topics_created or delta.topics_deleted or delta.partitions_created)
        if not concerns and (delta.partitions or delta.brokers):
            # Replicas may have moved to other racks.
            concerns = any(broker.rack for broker in self._image.brokers.values())
        if concerns:
            self.epoch += 1
            self._hashes.clear()
        return concerns

    def topic_id(self, name: str) -> bytes | None:
        topic = self._image.topics_by_name.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self._image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def topic_names(self) -> Iterable[str]:
        return list(self._image.topics_by_name)

    def partition_count(self, topic_id: bytes) -> int:
        topic = self._image.topics_by_id.get(topic_id)
        return 0 if topic is None else len(topic.partitions)

    def topic_hash(self, topic_id: bytes) -> int:
        found = self._hashes.get(topic_id)
        if found is None:
            topic = self._image.topics_by_id.get(topic_id)
            found = 0 if topic is None else self._hash(topic)
            self._hashes[topic_id] = found
        return found

    def _hash(self, topic: TopicImage) -> int:
        from hashlib import blake2b  # imports a library

        racks = [sorted(self._racks(topic, index)) for index in sorted(topic.partitions)]
        text = repr((topic.topic_id, topic.name, racks))
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1

    def partition_racks(self, topic_id: bytes, partition: int) -> Sequence[str]:
        topic = self._image.topics_by_id.get(topic_id)
        return () if topic is None else self._racks(topic, partition)

    def _racks(self, topic: TopicImage, index: int) -> list[str]:
        brokers = self._image.brokers
        racks: dict[str, None] = {}
        state = topic.partitions.get(index)
        for node_id in () if state is None else state.replicas:
            broker = brokers.get(node_id)
            if broker is not None and broker.rack:
                racks[broker.rack] = None
        return list(racks)
