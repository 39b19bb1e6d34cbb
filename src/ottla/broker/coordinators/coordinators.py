"""Builds the group and transaction coordinators of a broker, and what they share.

The parts that only transactions need are built, and their modules imported, on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.coordinators.peer_pool import PeerPool
from ottla.broker.coordinators.transactions import TransactionCoordinator

if TYPE_CHECKING:
    from ottla.broker.background import BackgroundTasks
    from ottla.broker.coordinators.marker_sender import MarkerSender
    from ottla.broker.coordinators.marker_writer import MarkerWriter
    from ottla.broker.coordinators.produce_verification import ProduceVerification
    from ottla.broker.coordinators.verification import Verification
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata.producer_ids import ProducerIds
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.randomness import Randomness
    from ottla.broker.replicas.partition_table import PartitionTable
    from ottla.config.load import BrokerConfig
    from ottla.config.topic_config import ConfigLayers
    from ottla.controller.image.parts import ImageDelta
    from ottla.protocol.messages.produce_request import ProduceRequest
    from ottla.transactions.markers import Markers


class Coordinators:
    def __init__(
        self,
        config: BrokerConfig,
        layers: ConfigLayers,
        *,
        identity: NodeIdentity,
        metadata: MetadataCache,
        partitions: PartitionTable,
        randomness: Randomness,
        producer_ids: ProducerIds,
        clock: Callable[[], int],
        monotonic_ms: Callable[[], int],
        tasks: BackgroundTasks,
    ) -> None:
        self._config = config
        self._layers = layers
        self._identity = identity
        self._metadata = metadata
        self._partitions = partitions
        self._clock = clock
        self._monotonic_ms = monotonic_ms
        self._tasks = tasks
        self._verification: Verification | None = None
        self._marker_writer: MarkerWriter | None = None
        self.groups = GroupCoordinator(
            config,
            layers,
            identity=identity,
            metadata=metadata,
            partitions=partitions,
            randomness=randomness,
            clock=clock,
            monotonic_ms=monotonic_ms,
            tasks=tasks,
        )
        self.transactions = TransactionCoordinator(
            config,
            identity=identity,
            metadata=metadata,
            partitions=partitions,
            producer_ids=producer_ids,
            clock=clock,
            monotonic_ms=monotonic_ms,
            tasks=tasks,
            make_marker_sender=self._make_marker_sender,
        )

    @property
    def verification(self) -> Verification:
        """Verifies first writes of transactions with their coordinators."""
        if self._verification is None:
            from ottla.broker.coordinators.verification import Verification

            self._verification = Verification(
                self._config,
                self._layers,
                identity=self._identity,
                transactions=self.transactions,
                peers=self._new_peers(),
                monotonic_ms=self._monotonic_ms,
                tasks=self._tasks,
            )
        return self._verification

    def verify_produce(self, message: ProduceRequest, version: int) -> ProduceVerification:
        """Find the first writes of transactions in a produce request."""
        from ottla.broker.coordinators.produce_verification import ProduceVerification

        return ProduceVerification(
            message,
            version,
            partitions=self._partitions,
            verification=self.verification,
            monotonic_ms=self._monotonic_ms,
        )

    @property
    def marker_writer(self) -> MarkerWriter:
        """Writes transaction markers to partitions of this broker."""
        if self._marker_writer is None:
            from ottla.broker.coordinators.marker_writer import MarkerWriter

            self._marker_writer = MarkerWriter(self._partitions, self.groups.shards, self._clock)
        return self._marker_writer

    def _make_marker_sender(self, on_written: Callable[[int, Markers], None]) -> MarkerSender:
        from ottla.broker.coordinators.marker_sender import MarkerSender

        return MarkerSender(
            on_written,
            identity=self._identity,
            metadata=self._metadata,
            writer=self.marker_writer,
            peers=self._new_peers(),
            monotonic_ms=self._monotonic_ms,
            tasks=self._tasks,
        )

    def _new_peers(self) -> PeerPool:
        return PeerPool(self._config, self._identity, self._metadata)

    def start(self) -> None:
        self.groups.start()
        self.transactions.start()

    async def stop(self) -> None:
        await self.transactions.stop()
        await self.groups.stop()
        if self._verification is not None:
            self._verification.close()

    def image_changed(self, delta: ImageDelta) -> None:
        self.groups.image_changed(delta)
        self.transactions.image_changed(delta)
