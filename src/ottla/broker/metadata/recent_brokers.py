"""Brokers that were alive until recently.

A client that finds a broker missing from Metadata responses discards its state, and librdkafka then waits a
second before it looks for the new leaders. Most fenced brokers come back soon, so those that shut down
cleanly or whose machine refuses connections stay listed for a while; the new leaders of their partitions are
listed at once. A broker that is only silent is not listed: clients would wait for its responses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.metadata_cache import MetadataCache
    from ottla.controller.image.parts import ImageDelta

SHOWN_MS = 60_000


class RecentBrokers:
    def __init__(
        self, metadata: MetadataCache, monotonic_ms: Callable[[], int], is_gone: Callable[[int], bool]
    ) -> None:
        """`is_gone`: whether the broker's machine refuses connections."""
        self._metadata = metadata
        self._monotonic_ms = monotonic_ms
        self._is_gone = is_gone
        self._live: dict[int, None] = {}
        self._until_ms: dict[int, int] = {}

    def image_changed(self, delta: ImageDelta) -> None:
        brokers = self._metadata.image.brokers
        for broker_id in sorted(delta.brokers):
            broker = brokers.get(broker_id)
            if broker is not None and not broker.fenced:
                self._live[broker_id] = None
                self._until_ms.pop(broker_id, None)
            elif broker_id in self._live:
                del self._live[broker_id]
                self._until_ms[broker_id] = self._monotonic_ms() + SHOWN_MS

    def is_recent(self, broker_id: int) -> bool:
        """Whether the broker is fenced, but was alive until recently."""
        until_ms = self._until_ms.get(broker_id)
        if until_ms is None or self._monotonic_ms() >= until_ms:
            return False
        broker = self._metadata.image.brokers.get(broker_id)
        return broker is not None and (broker.in_controlled_shutdown or self._is_gone(broker_id))
