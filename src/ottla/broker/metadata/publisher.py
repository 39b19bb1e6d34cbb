"""Writes the metadata cache and makes this broker follow it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ottla.controller.image.cluster import ClusterImage
from ottla.controller.image.parts import ImageDelta

if TYPE_CHECKING:
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.replicas.manager import ReplicaManager
    from ottla.broker.replicas.partition_lifecycle import PartitionLifecycle
    from ottla.protocol.message import Message

STEPS_PER_BATCH = 20  # partitions created or dropped before the event loop continues, about 3 ms
BATCH_SECONDS_MAX = 0.005  # fewer where the disk is slow


class MetadataPublisher:
    """`before_change` are called when the image has changed and the partitions have not; `on_change` when
    they have followed."""

    def __init__(
        self, metadata: MetadataCache, lifecycle: PartitionLifecycle, replicas: ReplicaManager
    ) -> None:
        self._metadata = metadata
        self._lifecycle = lifecycle
        self._replicas = replicas
        self.before_change: list[Callable[[], None]] = []
        self.on_change: list[Callable[[ImageDelta], None]] = []

    # -- start-up

    def replay(self, record: Message, offset: int) -> None:
        """Apply a record to the image alone; `PartitionLifecycle.host_all` follows."""
        self._metadata.image.apply(record)
        self._metadata.offset = offset

    def reset(self) -> None:
        """Drop the replayed image: a snapshot replaces it."""
        self._metadata.image = ClusterImage()

    # -- changes

    async def publish(self, records: list[Message], last_offset: int) -> None:
        """Apply committed records and make the partitions follow."""
        delta = ImageDelta()
        for record in records:
            self._metadata.image.apply(record, delta)
        self._metadata.offset = last_offset
        await self._follow(delta)

    async def publish_snapshot(self, records: Iterable[Message], last_offset: int) -> None:
        """Replace the image by that of a snapshot, and make the partitions follow."""
        from ottla.broker.metadata.image_diff import difference

        image = ClusterImage()
        for record in records:
            image.apply(record)
        delta = difference(self._metadata.image, image)
        self._metadata.image = image
        self._metadata.offset = last_offset
        await self._follow(delta)

    async def _follow(self, delta: ImageDelta) -> None:
        """One request may create thousands of logs, so other tasks run between batches of them. Until it is
        hosted a partition answers NOT_LEADER_OR_FOLLOWER, and clients retry."""
        for notify in self.before_change:
            notify()
        loop = asyncio.get_running_loop()
        batch_began = loop.time()
        for step, _ in enumerate(self._lifecycle.carry_out(delta), 1):
            if step % STEPS_PER_BATCH == 0 or loop.time() - batch_began > BATCH_SECONDS_MAX:
                await asyncio.sleep(0)
                batch_began = loop.time()
        if delta.brokers:
            self._replicas.brokers_changed(sorted(delta.brokers))
        for notify_change in self.on_change:
            notify_change(delta)
