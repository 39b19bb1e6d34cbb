"""The replicas of this broker: leader or follower, as the committed metadata say.

`PartitionLifecycle` calls `assign` for every partition that has changed; nothing else changes a role. The
rules are in `ottla.replication`: `LeaderState` and `FollowerState` decide, `Partition.react` carries out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ottla.broker.background import cancel
from ottla.broker.replicas.fetchers import ReplicaFetchers
from ottla.broker.replicas.isr_changes import IsrChanges
from ottla.broker.replicas.throttles import ReplicationThrottles
from ottla.replication.follower import FollowerState
from ottla.replication.leader import LeaderState

if TYPE_CHECKING:
    from ottla.broker.background import BackgroundTasks
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.replicas.flusher import Flusher
    from ottla.broker.replicas.follower_fetch import FollowerFetchService
    from ottla.broker.replicas.isr_changes import AskController
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.replicas.partition_table import PartitionTable
    from ottla.broker.replicas.topic_settings import TopicSettings
    from ottla.config.load import BrokerConfig
    from ottla.config.topic_config import ConfigLayers
    from ottla.controller.image.parts import PartitionImage
    from ottla.storage.log_dir import LogDir

TICKS_PER_BATCH = 200  # leaders checked before the event loop continues


class ReplicaManager:
    def __init__(
        self,
        config: BrokerConfig,
        layers: ConfigLayers,
        identity: NodeIdentity,
        metadata: MetadataCache,
        partitions: PartitionTable,
        flusher: Flusher,
        clock: Callable[[], int],
        ask_controller: AskController,
        tasks: BackgroundTasks,
    ) -> None:
        self._config = config
        self._identity = identity
        self._metadata = metadata
        self._partitions = partitions
        self._flusher = flusher
        self._tasks = tasks
        self._clock = clock
        self._lag_time_max_ms = config.get_int("replica.lag.time.max.ms")
        self._throttles = ReplicationThrottles(identity, layers)
        self._isr_changes = IsrChanges(identity, clock, ask_controller, tasks)
        self._fetchers = ReplicaFetchers(
            config, identity, metadata, flusher, clock, self._throttles.follower_quota, tasks
        )
        self._follower_fetches: FollowerFetchService | None = None
        self._leaders: dict[Partition, None] = {}  # those with followers
        self._ticker: asyncio.Task[None] | None = None

    # -- life cycle

    def start(self) -> None:
        """Begin to fetch and to watch the ISRs, once the existing partitions are hosted."""
        self._throttles.rates_changed()
        self._isr_changes.start()
        self._fetchers.start()
        self._ticker = self._tasks.keep_running("replica-lag", self._tick)

    async def stop(self) -> None:
        """End fetches in both directions, before the logs are closed."""
        self._fetchers.stop()
        if self._follower_fetches is not None:
            self._follower_fetches.drop_all()
        await cancel(self._ticker)
        await self._isr_changes.stop()

    # -- figures

    @property
    def leader_count(self) -> int:
        return sum(partition.is_leader for partition in self._partitions)

    @property
    def under_replicated(self) -> list[Partition]:
        return [each for each in self._leaders if each.leader is not None and each.leader.is_under_replicated]

    @property
    def isr_shrinks(self) -> int:
        return self._isr_changes.shrinks

    @property
    def isr_expands(self) -> int:
        return self._isr_changes.expands

    @property
    def truncations(self) -> int:
        return self._fetchers.counters.truncations

    # -- roles

    def assign(self, partition: Partition, state: PartitionImage, settings: TopicSettings) -> None:
        """Bring the role of a partition in line with the metadata."""
        if state.leader != partition.leader_id and partition.follower is not None:
            self._fetchers.unfollow(partition)
        if state.leader == self._identity.node_id:
            self._lead(partition, state, settings)
        elif state.leader >= 0:
            self._follow(partition, state)
        else:
            self._leaders.pop(partition, None)
            partition.make_leaderless(state.leader_epoch)

    def drop(self, partition: Partition) -> None:
        """Drop the role of a partition that leaves this broker."""
        self._fetchers.unfollow(partition)
        self._leaders.pop(partition, None)

    def _lead(self, partition: Partition, state: PartitionImage, settings: TopicSettings) -> None:
        leader = partition.leader
        if leader is not None:
            flags = self._update_leader(partition, leader, state)
            if len(state.replicas) > 1:
                partition.make_leader(state.leader, state.leader_epoch, leader)
                partition.react(flags)
                return
            self._leaders.pop(partition, None)
        plog = partition.log
        unsafe = plog.unflushed_messages >= plog.config.flush_messages
        if unsafe:
            self._flusher.flush(partition)
        if len(state.replicas) == 1:
            partition.make_leader(state.leader, state.leader_epoch, None)
            if not unsafe:
                partition.commit(plog.log_end_offset)
            return
        plog.leader_epochs.assign(state.leader_epoch, plog.log_end_offset)
        leader = LeaderState(
            self._identity.node_id,
            state,
            log_start_offset=plog.log_start_offset,
            log_end_offset=plog.log_end_offset,
            high_watermark=partition.high_watermark,
            min_isr=settings.min_isr,
            lag_time_max_ms=self._lag_time_max_ms,
            eligible=self._is_eligible,
            now_ms=self._clock(),
            counted_end_offset=plog.recovery_point if unsafe else plog.log_end_offset,
        )
        self._leaders[partition] = None
        partition.make_leader(state.leader, state.leader_epoch, leader)
        partition.commit(leader.high_watermark)

    def _update_leader(self, partition: Partition, leader: LeaderState, state: PartitionImage) -> int:
        isr_before = leader.isr
        flags = leader.metadata_changed(state, self._clock())
        if leader.isr != isr_before:
            self._isr_changes.changed(partition, isr_before, leader.isr)
        if leader.leader_epoch > partition.leader_epoch:
            partition.log.leader_epochs.assign(leader.leader_epoch, leader.epoch_start_offset)
        return flags

    def _follow(self, partition: Partition, state: PartitionImage) -> None:
        self._leaders.pop(partition, None)
        in_isr = self._identity.node_id in state.isr
        follower = partition.follower
        if follower is None:
            follower = FollowerState(
                partition.log,
                state.leader,
                state.leader_epoch,
                partition.high_watermark,
                in_isr=in_isr,
                backoff_ms_max=self._config.get_int("replica.fetch.backoff.ms"),
            )
            if partition.log.unflushed_messages >= partition.log.config.flush_messages:
                self._flusher.flush(partition)
                follower.wait_for_flush()
        else:
            follower.new_leader(state.leader, state.leader_epoch, in_isr)
        partition.make_follower(state.leader, state.leader_epoch, follower)
        self._fetch(partition)

    def _fetch(self, partition: Partition) -> None:
        """Copy a partition, or continue with its changed state, unless its log directory is offline: a fetch
        would tell the leader that this replica can take part."""
        if partition.log.log_dir.error is None:
            self._fetchers.follow(partition, self._throttles.limits_follower(partition))

    def follower_may_fetch(self, partition: Partition) -> None:
        """Continue to fetch: the flush that the follower waited for is done."""
        self._fetchers.touch(partition)

    def directory_offline(self, log_dir: LogDir) -> None:
        """End the fetches for replicas in a log directory that failed or stalled."""
        for partition in self._partitions:
            if partition.log.log_dir is log_dir and partition.follower is not None:
                self._fetchers.unfollow(partition)

    def directory_resumed(self, log_dir: LogDir) -> None:
        """Continue with the replicas of a log directory whose disk answers again."""
        now_ms = self._clock()
        for partition in self._partitions:
            plog, follower = partition.log, partition.follower
            if plog.log_dir is not log_dir:
                continue
            if follower is not None:
                follower.connection_lost(now_ms)
                self._fetch(partition)
            if plog.unflushed_messages >= plog.config.flush_messages:
                self._flusher.flush(partition)

    # -- leading

    @property
    def follower_fetches(self) -> FollowerFetchService:
        """Created for the first follower: a broker without followers never loads it."""
        if self._follower_fetches is None:
            from ottla.broker.replicas.follower_fetch import FollowerFetchService

            self._follower_fetches = FollowerFetchService(
                self._partitions,
                self._metadata,
                self._throttles,
                self._clock,
                self._config.get_int("fetch.max.bytes"),
            )
        return self._follower_fetches

    def is_connected(self, node_id: int) -> bool:
        """Whether the fetch connection of this follower is open."""
        return self._follower_fetches is not None and self._follower_fetches.is_connected(node_id)

    def isr_change_wanted(self, partition: Partition) -> None:
        self._isr_changes.propose(partition)

    async def _tick(self) -> None:
        """Remove followers that lag from the ISR."""
        while True:
            await asyncio.sleep(self._lag_time_max_ms / 2000)
            await self._tick_all()

    async def _tick_all(self) -> None:
        for count, partition in enumerate(list(self._leaders), 1):
            if partition.leader is not None:
                partition.react(partition.leader.tick(self._clock()))
            if count % TICKS_PER_BATCH == 0:
                await asyncio.sleep(0)

    def _is_eligible(self, node_id: int, broker_epoch: int) -> bool:
        broker = self._metadata.image.brokers.get(node_id)
        return broker is not None and broker.active and broker_epoch in (-1, broker.epoch)

    def is_alive(self, node_id: int) -> bool:
        """Whether the metadata list the broker as unfenced."""
        broker = self._metadata.image.brokers.get(node_id)
        return broker is not None and not broker.fenced

    def is_gone(self, node_id: int) -> bool:
        """Whether a leader that this broker follows refuses connections: known here before it is fenced."""
        return self._fetchers.is_refused(node_id)

    # -- other changes of the metadata

    def topic_changed(
        self, topic: str, settings: TopicSettings, partitions: Iterable[Partition]
    ) -> list[Partition]:
        """Apply a topic's changed configuration; returns the partitions for `lower_min_isr`."""
        self._throttles.topic_changed(topic, settings)
        now_ms = self._clock()
        lowered = []
        for partition in partitions:
            if partition.configure(settings, now_ms):
                lowered.append(partition)
            if partition.follower is not None:
                self._fetch(partition)
        return lowered

    def lower_min_isr(self, partitions: Iterable[Partition], min_isr: int) -> None:
        """Apply a smaller min.insync.replicas, after the partitions have followed the metadata."""
        now_ms = self._clock()
        for partition in partitions:
            partition.lower_min_isr(min_isr, now_ms)

    def topic_deleted(self, topic: str) -> None:
        self._throttles.topic_deleted(topic)

    def configs_changed(self) -> None:
        """Apply this broker's own changed configuration."""
        self._throttles.rates_changed()

    def brokers_changed(self, node_ids: Iterable[int]) -> None:
        """Brokers registered, left, were fenced or unfenced."""
        for node_id in node_ids:
            if self._follower_fetches is not None and not self.is_alive(node_id):
                self._follower_fetches.drop(node_id)
            self._fetchers.locate(node_id)
        now_ms = self._clock()
        for partition in list(self._leaders):
            leader = partition.leader
            if leader is not None and any(node_id in leader.followers for node_id in node_ids):
                partition.react(leader.tick(now_ms))
                partition.low_watermark_moved()
