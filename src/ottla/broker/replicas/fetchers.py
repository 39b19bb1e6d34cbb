"""The follower fetchers of this broker, one for each leader broker that it follows."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.replicas.fetch_counters import FetchCounters

if TYPE_CHECKING:
    from ottla.broker.background import BackgroundTasks
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.replicas.fetcher import ReplicaFetcher
    from ottla.broker.replicas.flusher import Flusher
    from ottla.broker.replicas.partition import Partition
    from ottla.config.load import BrokerConfig
    from ottla.replication.throttle import ReplicationQuota

log = logging.getLogger("ottla.replicas")

PLAINTEXT = 0


class ReplicaFetchers:
    def __init__(
        self,
        config: BrokerConfig,
        identity: NodeIdentity,
        metadata: MetadataCache,
        flusher: Flusher,
        clock: Callable[[], int],
        quota: ReplicationQuota,
        tasks: BackgroundTasks,
    ) -> None:
        self.counters = FetchCounters()
        self._config = config
        self._identity = identity
        self._metadata = metadata
        self._flusher = flusher
        self._clock = clock
        self._quota = quota
        self._tasks = tasks
        name: str | None = config.get("inter.broker.listener.name")
        self._listener_name = name.upper() if name else None
        self._by_leader: dict[int, ReplicaFetcher] = {}
        self._running = False

    def start(self) -> None:
        self._running = True
        for leader_id, fetcher in self._by_leader.items():
            self.locate(leader_id)
            fetcher.start()

    def stop(self) -> None:
        self._running = False
        for fetcher in self._by_leader.values():
            fetcher.stop()

    def follow(self, partition: Partition, throttled: bool) -> None:
        """Copy a partition from its leader, or continue with its changed state."""
        self._fetcher(partition.leader_id).follow(partition, throttled)

    def unfollow(self, partition: Partition) -> None:
        fetcher = self._by_leader.get(partition.leader_id)
        if fetcher is not None:
            fetcher.unfollow(partition)

    def touch(self, partition: Partition) -> None:
        """The follower may fetch again."""
        fetcher = self._by_leader.get(partition.leader_id)
        if fetcher is not None:
            fetcher.touch(partition)

    def is_refused(self, leader_id: int) -> bool:
        """Whether the last connection attempt to this leader was refused."""
        fetcher = self._by_leader.get(leader_id)
        return fetcher is not None and fetcher.is_refused

    def locate(self, leader_id: int) -> None:
        """Look up where the leader listens now."""
        fetcher = self._by_leader.get(leader_id)
        if fetcher is None:
            return
        broker = self._metadata.image.brokers.get(leader_id)
        if broker is None:
            fetcher.move_to(None, -1)
            return
        wanted = self._listener_name
        for name, host, port, protocol in broker.endpoints:
            if name == wanted or (wanted is None and protocol == PLAINTEXT):
                fetcher.move_to((host, port), broker.epoch)
                return
        log.error("leader %d has no listener that this broker could use", leader_id)
        fetcher.move_to(None, -1)

    def _fetcher(self, leader_id: int) -> ReplicaFetcher:
        fetcher = self._by_leader.get(leader_id)
        if fetcher is None:
            from ottla.broker.replicas.fetcher import ReplicaFetcher

            fetcher = self._by_leader[leader_id] = ReplicaFetcher(
                leader_id,
                self._config,
                self._identity,
                self._flusher,
                self._clock,
                self._quota,
                self.counters,
                self._tasks,
            )
            if self._running:
                self.locate(leader_id)
                fetcher.start()
        return fetcher
