"""The shards of one internal topic that this broker leads, found by key.

Which shards there are follows from the roles of the topic's partitions: looked at when the metadata have
changed, and when a request comes, whichever is first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.hosted_shard import ENDED, LOADING, HostedShard, Machine, Means
from ottla.protocol.errors import ErrorCode
from ottla.protocol.hashing import java_hash_partition

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.broker.replicas.partition import Partition
    from ottla.controller.image_parts import ImageDelta

LOOK_AFTER_MS = 100  # when the broker starts
MAKE_ANEW_MS = 1000  # after a failure
KEYS_REMEMBERED_MAX = 100_000


class Coordinator:
    """A kind of coordinator says what its topic and its machines are."""

    TOPIC: str

    def __init__(self, broker: Node, write_timeout_ms: int, codec: int = 0) -> None:
        self.broker = broker
        self._means = Means(
            make_machine=self.make_machine,
            encode=self.encode,
            clock=broker.clock,
            write_timeout_ms=write_timeout_ms,
            codec=codec,
            shard_failed=self._shard_failed,
            shard_wakes=self._load,
            shard_ended=self.shard_ended,
            hand_out=self.hand_out,
        )
        self._shards: dict[int, HostedShard] = {}
        self._indexes: dict[str, int] = {}  # of keys: hashing text in Python takes its time
        self._to_load: dict[HostedShard, None] = {}
        self._loader: asyncio.Task[None] | None = None
        self._timers: dict[int, asyncio.TimerHandle] = {}  # by number of the shard; -1 is for all
        self._running = False

    def make_machine(self, partition: Partition) -> Machine:
        raise NotImplementedError

    def encode(self, record: Any) -> tuple[bytes, bytes | None]:
        raise NotImplementedError

    def shard_ended(self, shard: HostedShard) -> None:
        """Whatever was done for it is in vain."""

    def hand_out(self, shard: HostedShard, markers: list[Any]) -> None:
        """The decision to end these transactions is committed."""
        raise NotImplementedError

    # -- life

    def start(self) -> None:
        """The partitions that exist are hosted, and have their roles."""
        self._running = True
        # Requests find their shards before that; the rest does not hold up the start of the broker.
        self._timers[-1] = asyncio.get_running_loop().call_later(LOOK_AFTER_MS / 1000, self._look_at_all)

    def _look_at_all(self) -> None:
        self._look(self.broker.partitions.of_topic(self.TOPIC))

    async def stop(self) -> None:
        """Tell everybody who waits to look elsewhere, or to come again."""
        self._running = False
        for timer in self._timers.values():
            timer.cancel()
        for shard in self._shards.values():
            shard.end(ErrorCode.NOT_COORDINATOR)
        self._shards.clear()
        self._to_load.clear()
        if self._loader is not None:
            self._loader.cancel()
            await asyncio.wait([self._loader])

    def image_changed(self, delta: ImageDelta) -> None:
        """The metadata have changed, and the partitions with them."""
        if not self._running:
            return
        if any(topic.name == self.TOPIC for topic in delta.topics_deleted.values()):
            self._indexes.clear()
            self._look([*self._shards])
        topic = self.broker.image.topics_by_name.get(self.TOPIC)
        if topic is not None and topic.topic_id in delta.partitions:
            if any(topic_id == topic.topic_id for topic_id, _ in delta.partitions_created):
                self._indexes.clear()
            self._look(delta.partitions[topic.topic_id])

    # -- shards

    @property
    def shards(self) -> list[HostedShard]:
        """Those that this broker has, by number."""
        if self._running:
            self._look_at_all()
        return [self._shards[index] for index in sorted(self._shards)]

    def shard_of(self, key: str) -> HostedShard | ErrorCode:
        """The shard of a key, or why there is none here."""
        index = self.index_of(key)
        if index is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        shard = self._shards.get(index)
        if shard is not None:
            partition = shard.partition
            if partition.is_leader and partition.leader_epoch == shard.epoch and not partition.deleted:
                return shard
        if not self._running:
            return ErrorCode.NOT_COORDINATOR
        self._look((index,))
        return self._shards.get(index) or self._why_none(index)

    def index_of(self, key: str) -> int | None:
        """The partition that a key belongs to; None if there is no such topic yet."""
        index = self._indexes.get(key)
        if index is None:
            topic = self.broker.image.topics_by_name.get(self.TOPIC)
            if topic is None:
                return None
            if len(self._indexes) >= KEYS_REMEMBERED_MAX:
                self._indexes.clear()
            index = self._indexes[key] = java_hash_partition(key, len(topic.partitions))
        return index

    def hosted(self, index: int) -> HostedShard | None:
        """The shard of a partition, in whatever state."""
        return self._shards.get(index)

    def _why_none(self, index: int) -> ErrorCode:
        """Led by this broker, by the metadata, but not hosted yet: it will be in a moment."""
        topic = self.broker.image.topics_by_name.get(self.TOPIC)
        state = None if topic is None else topic.partitions.get(index)
        if state is not None and state.leader == self.broker.node_id:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR

    def _look(self, indexes: Iterable[int]) -> None:
        """Make shards what the roles of their partitions say."""
        for index in sorted(indexes):
            partition = self.broker.partitions.by_name(self.TOPIC, index)
            shard = self._shards.get(index)
            leads = partition is not None and partition.is_leader
            if shard is not None:
                if leads and shard.partition is partition and partition.leader_epoch - shard.epoch in (0, 1):
                    # Nobody else can have led in between: what is known stays true.
                    shard.epoch = partition.leader_epoch
                    if shard.state != ENDED or index in self._timers:
                        continue
                shard.end(ErrorCode.NOT_COORDINATOR)
                self._to_load.pop(shard, None)
                del self._shards[index]
            if leads:
                assert partition is not None
                shard = self._shards[index] = HostedShard(partition, self._means)
                if shard.state == LOADING:
                    self._load(shard)

    def _shard_failed(self, shard: HostedShard) -> None:
        """Make it anew from its log, but not at once: what is broken may stay so."""
        index = shard.partition.index
        if self._running and index not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[index] = loop.call_later(MAKE_ANEW_MS / 1000, self._make_anew, index)

    def _make_anew(self, index: int) -> None:
        del self._timers[index]
        self._look((index,))

    def _load(self, shard: HostedShard) -> None:
        self._to_load[shard] = None
        if self._loader is None:
            self._loader = asyncio.get_running_loop().create_task(self._load_all(), name="coordinator-load")

    async def _load_all(self) -> None:
        """One shard after the other: the first are of use while others are still loading."""
        while self._to_load:
            shard = next(iter(self._to_load))
            del self._to_load[shard]
            if shard.state == LOADING:
                await shard.load()
        self._loader = None
