"""Topics as groups see them, without a broker's image."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class FixedTopics:
    """A `TopicsView`. Every change increments the epoch."""

    def __init__(self, topics: dict[str, int] | None = None) -> None:
        self._ids: dict[str, bytes] = {}
        self._names: dict[bytes, str] = {}
        self._counts: dict[bytes, int] = {}
        self._racks: dict[bytes, list[tuple[str, ...]]] = {}
        self.epoch = 0
        for name, partitions in (topics or {}).items():
            self.set(name, partitions)

    def set(self, name: str, partitions: int, racks: list[tuple[str, ...]] | None = None) -> bytes:
        """Create the topic, or change it."""
        self.epoch += 1
        topic_id = self._ids.get(name)
        if topic_id is None:
            # With the epoch in its id, a recreated topic is another topic.
            topic_id = self.epoch.to_bytes(4, "big") + name.encode()[:12].ljust(12, b"\x01")
        self._ids[name] = topic_id
        self._names[topic_id] = name
        self._counts[topic_id] = partitions
        self._racks[topic_id] = racks or []
        return topic_id

    def drop(self, name: str) -> None:
        self.epoch += 1
        topic_id = self._ids.pop(name)
        del self._names[topic_id], self._counts[topic_id], self._racks[topic_id]

    def topic_id(self, name: str) -> bytes | None:
        return self._ids.get(name)

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def topic_names(self) -> Iterable[str]:
        return sorted(self._ids)

    def partition_count(self, topic_id: bytes) -> int:
        return self._counts.get(topic_id, 0)

    def topic_hash(self, topic_id: bytes) -> int:
        if topic_id not in self._counts:
            return 0
        digest = 17
        for byte in repr((topic_id, self._counts[topic_id], self._racks[topic_id])).encode():
            digest = (digest * 31 + byte) & 0x7FFFFFFFFFFFFFFF
        return digest

    def partition_racks(self, topic_id: bytes, partition: int) -> Sequence[str]:
        racks = self._racks.get(topic_id, [])
        return racks[partition] if partition < len(racks) else ()
