"""The view of topics that groups need, read from the broker's metadata image."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol


class TopicsView(Protocol):
    @property
    def epoch(self) -> int:
        """Increases with every change of any topic, such as the offset of the image."""

    def topic_id(self, name: str) -> bytes | None: ...

    def topic_name(self, topic_id: bytes) -> str | None: ...

    def topic_names(self) -> Iterable[str]:
        """Return all names, in an order that does not depend on hashes."""

    def partition_count(self, topic_id: bytes) -> int:
        """0 for a topic that does not exist."""

    def topic_hash(self, topic_id: bytes) -> int:
        """Return a hash of the name, the partitions and the racks of their replicas.

        It has 63 bits and is the same on every broker; 0 for a topic that does not exist.
        """

    def partition_racks(self, topic_id: bytes, partition: int) -> Sequence[str]:
        """Racks that hold a replica; empty if none are known."""
