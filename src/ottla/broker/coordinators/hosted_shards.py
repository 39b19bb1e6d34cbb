"""The shards of one internal topic that this broker leads, found by key.

The set of shards follows the roles of the topic's partitions. They are compared when the metadata change and
when a request comes, whichever is first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.broker.background import BackgroundTasks, cancel
from ottla.broker.coordinators.hosted_shard import ENDED, LOADING, HostedShard, Machine, ShardSettings
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.protocol.hashing import java_hash_partition

if TYPE_CHECKING:
    from ottla.broker.coordinators.replies import Refuse, Reply, Result
    from ottla.broker.coordinators.shard_log import Encode
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.replicas.partition_table import PartitionTable
    from ottla.controller.image.parts import ImageDelta
    from ottla.machines.outcome import RequestContext

Shard = TypeVar("Shard", bound=Machine)  # the machine, such as GroupShard

START_AFTER_MS = 100
REBUILD_AFTER_MS = 1000  # after a failure
KEYS_CACHED_MAX = 100_000
ALL_SHARDS = -1


class HostedShards(Generic[Shard]):
    def __init__(
        self,
        topic: str,
        *,
        identity: NodeIdentity,
        metadata: MetadataCache,
        partitions: PartitionTable,
        clock: Callable[[], int],
        monotonic_ms: Callable[[], int],
        tasks: BackgroundTasks,
        make_machine: Callable[[Partition], Machine],
        encode: Encode,
        write_timeout_ms: int,
        codec: int = 0,
        on_ended: Callable[[HostedShard], None] = lambda _: None,
        on_effects: Callable[[HostedShard, list[Any]], None] = lambda *_: None,
    ) -> None:
        self.topic = topic
        self._identity = identity
        self._metadata = metadata
        self._partitions = partitions
        self._tasks = tasks
        self._settings = ShardSettings(
            make_machine=make_machine,
            encode=encode,
            clock=clock,
            monotonic_ms=monotonic_ms,
            write_timeout_ms=write_timeout_ms,
            codec=codec,
            on_failed=self._shard_failed,
            on_records_found=self._load,
            on_ended=on_ended,
            on_effects=on_effects,
        )
        self._shards: dict[int, HostedShard] = {}
        self._indexes: dict[str, int] = {}  # by key: hashing text in Python is slow
        self._to_load: dict[HostedShard, None] = {}
        self._loader: asyncio.Task[None] | None = None
        self._timers: dict[int, asyncio.TimerHandle] = {}  # by shard index, or ALL_SHARDS
        self._running = False

    # -- start and stop

    def start(self) -> None:
        """Start when the partitions are hosted and have their roles."""
        self._running = True
        # Requests find their shards before that; loading the others must not delay the start of the broker.
        loop = asyncio.get_running_loop()
        self._timers[ALL_SHARDS] = loop.call_later(START_AFTER_MS / 1000, self._update_all)

    async def stop(self) -> None:
        """Refuse all waiting requests with NOT_COORDINATOR."""
        self._running = False
        for timer in self._timers.values():
            timer.cancel()
        for shard in self._shards.values():
            shard.end(ErrorCode.NOT_COORDINATOR)
        self._shards.clear()
        self._to_load.clear()
        await cancel(self._loader)

    def image_changed(self, delta: ImageDelta) -> None:
        """Follow a change of the metadata, after the partitions have followed."""
        if not self._running:
            return
        if any(topic.name == self.topic for topic in delta.topics_deleted.values()):
            self._indexes.clear()
            self._update([*self._shards])
        topic = self._metadata.image.topics_by_name.get(self.topic)
        if topic is not None and topic.topic_id in delta.partitions:
            if any(topic_id == topic.topic_id for topic_id, _ in delta.partitions_created):
                self._indexes.clear()
            self._update(delta.partitions[topic.topic_id])

    # -- requests

    def submit(
        self,
        key: str,
        decide: Callable[[Shard, int], Outcome],
        refuse: Refuse[Result],
        context: RequestContext | None = None,
        *,
        writes: bool = True,
    ) -> Reply[Result]:
        """Return the reply of a key's shard, or a future of it. `refuse` builds the response that reports an
        error of the coordinator itself: not available, loading, moved."""
        shard = self.of_key(key)
        if isinstance(shard, ErrorCode):
            return refuse(shard)
        return shard.submit(decide, refuse, context, writes=writes)

    def read(self, key: str, view: Callable[[Shard, int], Result], refuse: Refuse[Result]) -> Reply[Result]:
        """Return the result of `view` (shard, time) once all state it has read is committed."""
        return self.submit(key, lambda shard, now_ms: Outcome(view(shard, now_ms)), refuse, writes=False)

    def read_all(self, view: Callable[[Shard, int], Result]) -> list[Reply[Result | None]] | ErrorCode:
        """`read` for every shard of this broker, None if it ends first; the error if one is still loading."""
        replies: list[Reply[Result | None]] = []
        for shard in self.all():
            if shard.state == LOADING:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            if shard.machine is not None:
                replies.append(
                    shard.submit(
                        lambda machine, now_ms: Outcome(view(machine, now_ms)), lambda _: None, writes=False
                    )
                )
        return replies

    # -- look-up

    def all(self) -> list[HostedShard]:
        """The shards that this broker leads, by index."""
        if self._running:
            self._update_all()
        return [self._shards[index] for index in sorted(self._shards)]

    def of_key(self, key: str) -> HostedShard | ErrorCode:
        """Return the shard of a key, or the error if this broker has none."""
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
        self._update((index,))
        return self._shards.get(index) or self._error_of(index)

    def index_of(self, key: str) -> int | None:
        """Return the partition that a key belongs to; None if the topic does not exist yet."""
        index = self._indexes.get(key)
        if index is None:
            topic = self._metadata.image.topics_by_name.get(self.topic)
            if topic is None:
                return None
            if len(self._indexes) >= KEYS_CACHED_MAX:
                self._indexes.clear()
            index = self._indexes[key] = java_hash_partition(key, len(topic.partitions))
        return index

    def by_index(self, index: int) -> HostedShard | None:
        """Return the shard of a partition, in any state."""
        return self._shards.get(index)

    def leader_of(self, key: str) -> int | None:
        """Return the leader of a key's partition: -1 or None if there is none."""
        index = self.index_of(key)
        topic = self._metadata.image.topics_by_name.get(self.topic)
        state = None if topic is None or index is None else topic.partitions.get(index)
        return None if state is None else state.leader

    def _error_of(self, index: int) -> ErrorCode:
        """A partition that this broker leads by the metadata, but does not host yet, is loading."""
        topic = self._metadata.image.topics_by_name.get(self.topic)
        state = None if topic is None else topic.partitions.get(index)
        if state is not None and state.leader == self._identity.node_id:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR

    # -- following the roles of the partitions

    def _update_all(self) -> None:
        self._update(self._partitions.of_topic(self.topic))

    def _update(self, indexes: Iterable[int]) -> None:
        """Create and end shards to match the roles of their partitions."""
        for index in sorted(indexes):
            partition = self._partitions.by_name(self.topic, index)
            shard = self._shards.get(index)
            leads = partition is not None and partition.is_leader
            if shard is not None:
                if leads and shard.partition is partition and partition.leader_epoch - shard.epoch in (0, 1):
                    # No other broker can have led in between: the machine is still up to date.
                    shard.epoch = partition.leader_epoch
                    if shard.state != ENDED or index in self._timers:
                        continue
                shard.end(ErrorCode.NOT_COORDINATOR)
                self._to_load.pop(shard, None)
                del self._shards[index]
            if leads:
                assert partition is not None
                shard = self._shards[index] = HostedShard(partition, self._settings)
                if shard.state == LOADING:
                    self._load(shard)

    def _shard_failed(self, shard: HostedShard) -> None:
        """Rebuild it from its log after a pause: the cause may persist."""
        index = shard.partition.index
        if self._running and index not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[index] = loop.call_later(REBUILD_AFTER_MS / 1000, self._rebuild, index)

    def _rebuild(self, index: int) -> None:
        del self._timers[index]
        self._update((index,))

    def _load(self, shard: HostedShard) -> None:
        self._to_load[shard] = None
        if self._loader is None:
            self._loader = self._tasks.run_to_end("coordinator-load", self._load_all)

    async def _load_all(self) -> None:
        """Load shards one at a time: a loaded shard serves while the others load."""
        while self._to_load:
            shard = next(iter(self._to_load))
            del self._to_load[shard]
            if shard.state == LOADING:
                try:
                    await shard.load()
                except BaseException:
                    self._to_load[shard] = None  # after the others
                    raise
        self._loader = None
