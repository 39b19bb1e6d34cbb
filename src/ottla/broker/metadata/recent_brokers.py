"""Brokers that were there a moment ago.

A client that finds a broker missing from the Metadata takes all that it knows of it apart, and librdkafka
then waits a second before it looks where the partitions have gone. Most brokers that are fenced come back
soon, so those that stopped in order or whose machine refuses connections stay listed for a while; what they
led is told of its new leaders at once. One that is just silent goes: clients would wait for its answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.controller.image import ClusterImage
    from ottla.controller.image_parts import ImageDelta

SHOWN_MS = 60_000


class RecentBrokers:
    def __init__(
        self, image: Callable[[], ClusterImage], clock: Callable[[], int], is_gone: Callable[[int], bool]
    ) -> None:
        """`is_gone`: its machine says that nobody listens there."""
        self._image = image
        self._clock = clock
        self._is_gone = is_gone
        self._live: dict[int, None] = {}
        self._until_ms: dict[int, int] = {}

    def image_changed(self, delta: ImageDelta) -> None:
        brokers = self._image().brokers
        for broker_id in sorted(delta.brokers):
            broker = brokers.get(broker_id)
            if broker is not None and not broker.fenced:
                self._live[broker_id] = None
                self._until_ms.pop(broker_id, None)
            elif broker_id in self._live:
                del self._live[broker_id]
                self._until_ms[broker_id] = self._clock() + SHOWN_MS

    def is_recent(self, broker_id: int) -> bool:
        """Was it there a moment ago, and is it not now?"""
        until_ms = self._until_ms.get(broker_id)
        if until_ms is None or self._clock() >= until_ms:
            return False
        broker = self._image().brokers.get(broker_id)
        return broker is not None and (broker.in_controlled_shutdown or self._is_gone(broker_id))
