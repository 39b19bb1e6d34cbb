"""What groups need to know of topics: a read-only view of the broker's metadata image."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol


class TopicsView(Protocol):
    @property
    def epoch(self) -> int:
        """Grows with every change of any topic: the offset of the image will do."""

    def topic_id(self, name: str) -> bytes | None: ...

    def topic_name(self, topic_id: bytes) -> str | None: ...

    def topic_names(self) -> Iterable[str]:
        """All of them, in an order that does not depend on hashes."""

    def partition_count(self, topic_id: bytes) -> int:
        """0 for a topic that does not exist."""

    def topic_hash(self, topic_id: bytes) -> int:
        """Another number when the name, the partitions or the racks of their replicas are others.

        The same on every broker, 63 bits; 0 for a topic that does not exist.
        """

    def partition_racks(self, topic_id: bytes, partition: int) -> Sequence[str]:
        """Racks that hold a replica; empty if none are known."""
