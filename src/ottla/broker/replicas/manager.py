"""The replicas of this broker: who leads, who follows, as the committed metadata say.

`MetadataPublisher` calls `assign` for every partition that has changed; nothing else gives or takes a role.
The machines of `ottla.replication` say what an event asks for, and `react` does it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.broker.replicas.isr_changes import IsrChanges
from ottla.replication.follower import FollowerState
from ottla.replication.leader import (
    HIGH_WATERMARK_MOVED,
    ISR_CHANGE_WANTED,
    LOG_START_MOVED,
    LeaderState,
)
from ottla.replication.throttle import ReplicationQuota, ThrottledReplicas

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.broker.replicas.fetch_service import FetchService
    from ottla.broker.replicas.fetcher import ReplicaFetcher
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.replicas.topic_settings import TopicSettings
    from ottla.controller.image_parts import PartitionImage

log = logging.getLogger("ottla.replicas")

TICKS_PER_TURN = 200  # leaders looked at before the loop does something else
PLAINTEXT = 0
RACK_SELECTORS = ("RackAwareReplicaSelector", "rack")


class ReplicaManager:
    def __init__(self, broker: Node) -> None:
        config = broker.config
        self._broker = broker
        self._lag_time_max_ms = config.get_int("replica.lag.time.max.ms")
        self._listener_name: str | None = config.get("inter.broker.listener.name")
        selector = config.get("replica.selector.class") or ""
        self._selects_by_rack = selector.rpartition(".")[2] in RACK_SELECTORS
        self.leader_quota = ReplicationQuota()
        self.follower_quota = ReplicationQuota()
        self._service: FetchService | None = None
        self._isr_changes = IsrChanges(broker, self)
        self._fetchers: dict[int, ReplicaFetcher] = {}  # by leader
        self._throttled: dict[str, tuple[ThrottledReplicas, ThrottledReplicas]] = {}  # leaders, followers
        self._leaders: dict[Partition, None] = {}  # those with followers
        self._ticker: asyncio.Task[None] | None = None
        self._running = False
        self.bytes_in = 0
        self.truncations = 0

    # -- life

    def start(self) -> None:
        """Begin to fetch and to watch the ISRs; the partitions that exist are hosted."""
        self._running = True
        self.configs_changed()
        self._isr_changes.start()
        for fetcher in self._fetchers.values():
            self._locate(fetcher)
            fetcher.start()
        self._ticker = asyncio.get_running_loop().create_task(self._tick(), name="replica-lag")

    async def stop(self) -> None:
        """No more fetches, neither way; the logs are about to be closed."""
        self._running = False
        for fetcher in self._fetchers.values():
            fetcher.stop()
        if self._service is not None:
            self._service.drop_all()
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.wait([self._ticker])
        await self._isr_changes.stop()

    # -- figures

    @property
    def leader_count(self) -> int:
        return sum(partition.is_leader for partition in self._broker.partitions)

    @property
    def under_replicated(self) -> list[Partition]:
        return [each for each in self._leaders if each.leader is not None and each.leader.is_under_replicated]

    @property
    def isr_shrinks(self) -> int:
        return self._isr_changes.shrinks

    @property
    def isr_expands(self) -> int:
        return self._isr_changes.expands

    # -- roles

    def assign(self, partition: Partition, state: PartitionImage, settings: TopicSettings) -> None:
        """Bring a partition's role in line with the metadata."""
        moved = (partition.leader_id, partition.leader_epoch) != (state.leader, state.leader_epoch)
        if state.leader != partition.leader_id and partition.follower is not None:
            self._unfollow(partition)
        if state.leader == self._broker.node_id:
            self._lead(partition, state, settings)
        elif state.leader >= 0:
            self._follow(partition, state)
        else:
            self._leaders.pop(partition, None)
            partition.rest()
        partition.leader_id = state.leader
        partition.leader_epoch = state.leader_epoch
        if moved:
            partition.wake()

    def drop(self, partition: Partition) -> None:
        """The partition leaves this broker."""
        self._unfollow(partition)
        self._leaders.pop(partition, None)

    def _lead(self, partition: Partition, state: PartitionImage, settings: TopicSettings) -> None:
        now_ms = self._broker.clock()
        leader = partition.leader
        plog = partition.log
        if leader is not None:
            isr_before = leader.isr
            flags = leader.metadata_changed(state, now_ms)
            if leader.isr != isr_before:
                self._isr_changes.changed(partition, isr_before, leader.isr)
            if leader.leader_epoch > partition.leader_epoch:
                plog.leader_epochs.assign(leader.leader_epoch, leader.epoch_start_offset)
            if len(state.replicas) > 1:
                partition.leader_epoch = state.leader_epoch
                self.react(partition, flags)
                return
            self._leaders.pop(partition, None)
        unsafe = plog.unflushed_messages >= plog.config.flush_messages
        if unsafe:
            self._broker.flusher.flush(partition)
        if len(state.replicas) == 1:
            partition.lead(None, self)
            if not unsafe:
                partition.commit(plog.log_end_offset)
            return
        plog.leader_epochs.assign(state.leader_epoch, plog.log_end_offset)
        leader = LeaderState(
            self._broker.node_id,
            state,
            log_start_offset=plog.log_start_offset,
            log_end_offset=plog.log_end_offset,
            high_watermark=partition.high_watermark,
            min_isr=settings.min_isr,
            lag_time_max_ms=self._lag_time_max_ms,
            eligible=self._is_eligible,
            now_ms=now_ms,
            counted_end_offset=plog.recovery_point if unsafe else plog.log_end_offset,
        )
        partition.lead(leader, self)
        self._leaders[partition] = None
        partition.commit(leader.high_watermark)

    def _follow(self, partition: Partition, state: PartitionImage) -> None:
        self._leaders.pop(partition, None)
        in_isr = self._broker.node_id in state.isr
        follower = partition.follower
        if follower is None:
            follower = FollowerState(
                partition.log,
                state.leader,
                state.leader_epoch,
                partition.high_watermark,
                in_isr=in_isr,
                backoff_ms_max=self._broker.config.get_int("replica.fetch.backoff.ms"),
            )
            partition.follow(follower, self)
            unsafe = partition.log.unflushed_messages >= partition.log.config.flush_messages
            if unsafe:
                self._broker.flusher.flush(partition)
                follower.wait_for_disk()
        else:
            follower.new_leader(state.leader, state.leader_epoch, in_isr)
        throttled = self._throttled.get(partition.topic)
        is_throttled = throttled is not None and throttled[1].has(partition.index, self._broker.node_id)
        self._fetcher(state.leader).follow(partition, is_throttled)

    def _unfollow(self, partition: Partition) -> None:
        fetcher = self._fetchers.get(partition.leader_id)
        if fetcher is not None:
            fetcher.unfollow(partition)

    def _fetcher(self, leader_id: int) -> ReplicaFetcher:
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            from ottla.broker.replicas.fetcher import ReplicaFetcher

            fetcher = self._fetchers[leader_id] = ReplicaFetcher(self._broker, self, leader_id)
            if self._running:
                self._locate(fetcher)
                fetcher.start()
        return fetcher

    def fetch_on(self, partition: Partition) -> None:
        """The follower may fetch again: the disk has what it waited for."""
        fetcher = self._fetchers.get(partition.leader_id)
        if fetcher is not None:
            fetcher.touch(partition)

    # -- leading

    @property
    def service(self) -> FetchService:
        """Made for the first follower that fetches: a broker alone never loads it."""
        if self._service is None:
            from ottla.broker.replicas.fetch_service import FetchService

            self._service = FetchService(self._broker, self)
        return self._service

    def react(self, partition: Partition, flags: int) -> None:
        """Do what a leader's event asks for."""
        leader = partition.leader
        if not flags or leader is None:
            return
        if flags & HIGH_WATERMARK_MOVED:
            partition.commit(leader.high_watermark)
        if flags & LOG_START_MOVED:
            partition.low_watermark_moved()
        if flags & ISR_CHANGE_WANTED:
            self._isr_changes.propose(partition)

    async def _tick(self) -> None:
        """Who has not kept up leaves the ISR."""
        while True:
            await asyncio.sleep(self._lag_time_max_ms / 2000)
            await self._tick_all()

    async def _tick_all(self) -> None:
        for count, partition in enumerate(list(self._leaders), 1):
            if partition.leader is not None:
                self.react(partition, partition.leader.tick(self._broker.clock()))
            if count % TICKS_PER_TURN == 0:
                await asyncio.sleep(0)

    def _is_eligible(self, node_id: int, broker_epoch: int) -> bool:
        broker = self._broker.image.brokers.get(node_id)
        return broker is not None and broker.active and broker_epoch in (-1, broker.epoch)

    def is_alive(self, node_id: int) -> bool:
        broker = self._broker.image.brokers.get(node_id)
        return broker is not None and not broker.fenced

    def is_gone(self, node_id: int) -> bool:
        """Does a leader that this broker follows listen no more? It is known here before it is fenced."""
        fetcher = self._fetchers.get(node_id)
        return fetcher is not None and fetcher.is_refused

    def nearest_replica(self, partition: Partition, rack: str, fetch_offset: int) -> int:
        """Who of the replicas in sync should serve a consumer of that rack; this broker if none is nearer.

        One that has just died is not: librdkafka was seen to stay with it for 15 s and more.
        """
        node_id, brokers, leader = self._broker.node_id, self._broker.image.brokers, partition.leader
        own = brokers.get(node_id)
        if not self._selects_by_rack or leader is None or own is None or own.rack == rack:
            return node_id
        nearest, longest = node_id, -1
        for follower in leader.followers.values():
            broker = brokers.get(follower.node_id)
            if (
                broker is not None
                and broker.active
                and broker.rack == rack
                and leader.is_in_isr(follower.node_id)
                and self.service.is_connected(follower.node_id)
                and follower.log_start_offset <= fetch_offset <= follower.end_offset
                and follower.end_offset > longest
            ):
                nearest, longest = follower.node_id, follower.end_offset
        return nearest

    def throttles_leader(self, partition: Partition, node_id: int) -> bool:
        """Is what this follower gets counted and limited? Never for a member of the ISR."""
        throttled = self._throttled.get(partition.topic)
        if throttled is None or not throttled[0].has(partition.index, self._broker.node_id):
            return False
        return partition.leader is not None and not partition.leader.is_in_isr(node_id)

    # -- what else the metadata say

    def topic_changed(self, topic: str, settings: TopicSettings, partitions: Iterable[Partition]) -> None:
        """A topic's configuration is another."""
        node_id = self._broker.node_id
        if settings.throttled_leaders or settings.throttled_followers:
            self._throttled[topic] = (settings.throttled_leaders, settings.throttled_followers)
        else:
            self._throttled.pop(topic, None)
        for partition in partitions:
            if partition.leader is not None and partition.leader.min_isr != settings.min_isr:
                flags = partition.leader.min_isr_changed(settings.min_isr, self._broker.clock())
                self.react(partition, flags)
            elif partition.follower is not None and partition.leader_id in self._fetchers:
                throttled = settings.throttled_followers.has(partition.index, node_id)
                self._fetchers[partition.leader_id].follow(partition, throttled)

    def topic_deleted(self, topic: str) -> None:
        self._throttled.pop(topic, None)

    def configs_changed(self) -> None:
        """This broker's own configuration is another."""
        layers = self._broker.layers
        self.leader_quota.bytes_per_second = layers.broker_value("leader.replication.throttled.rate")
        self.follower_quota.bytes_per_second = layers.broker_value("follower.replication.throttled.rate")

    def brokers_changed(self, node_ids: Iterable[int]) -> None:
        """Brokers came, went, were fenced or unfenced, or have registered again."""
        brokers = self._broker.image.brokers
        for node_id in node_ids:
            broker = brokers.get(node_id)
            if self._service is not None and (broker is None or broker.fenced):
                self._service.drop(node_id)
            fetcher = self._fetchers.get(node_id)
            if fetcher is not None:
                self._locate(fetcher)
        now_ms = self._broker.clock()
        for partition in list(self._leaders):
            leader = partition.leader
            if leader is not None and any(node_id in leader.followers for node_id in node_ids):
                self.react(partition, leader.tick(now_ms))
                partition.low_watermark_moved()

    def _locate(self, fetcher: ReplicaFetcher) -> None:
        broker = self._broker.image.brokers.get(fetcher.leader_id)
        if broker is None:
            fetcher.move_to(None, -1)
            return
        wanted = self._listener_name.upper() if self._listener_name else None
        for name, host, port, protocol in broker.endpoints:
            if name == wanted or (wanted is None and protocol == PLAINTEXT):
                fetcher.move_to((host, port), broker.epoch)
                return
        log.error("leader %d has no listener that this broker could use", fetcher.leader_id)
        fetcher.move_to(None, -1)
