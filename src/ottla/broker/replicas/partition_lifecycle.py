"""Hosted partitions follow the committed metadata: only this module creates, reconfigures or drops them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.topic_settings import TopicSettings
from ottla.controller.image.cluster import RESOURCE_BROKER, RESOURCE_TOPIC
from ottla.storage.errors import DiskFull, StorageError

if TYPE_CHECKING:
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.randomness import Randomness
    from ottla.broker.replicas.flusher import Flusher
    from ottla.broker.replicas.manager import ReplicaManager
    from ottla.broker.replicas.partition_table import PartitionTable
    from ottla.config.topic_config import ConfigLayers
    from ottla.controller.image.parts import ImageDelta, PartitionImage, TopicImage
    from ottla.storage.log import PartitionLog
    from ottla.storage.manager.log_manager import LogManager
    from ottla.storage.manager.managed_dir import ManagedDir

log = logging.getLogger("ottla.metadata")


class PartitionLifecycle:
    def __init__(
        self,
        layers: ConfigLayers,
        identity: NodeIdentity,
        metadata: MetadataCache,
        logs: LogManager,
        partitions: PartitionTable,
        flusher: Flusher,
        replicas: ReplicaManager,
        randomness: Randomness,
        clock: Callable[[], int],
        on_hosted: Callable[[Partition, PartitionImage], None],
    ) -> None:
        """`on_hosted` is called each time a partition has been brought in line with the metadata."""
        self._layers = layers
        self._identity = identity
        self._metadata = metadata
        self._logs = logs
        self._partitions = partitions
        self._flusher = flusher
        self._replicas = replicas
        self._randomness = randomness
        self._clock = clock
        self._on_hosted = on_hosted
        self._pending: dict[tuple[bytes, int], None] = {}  # new partitions for which no disk had room

    # -- start-up

    def refresh_layers(self) -> None:
        """Read the dynamic configuration of this broker and of the cluster."""
        image = self._metadata.image
        self._layers.set_dynamic(image.broker_config(self._identity.node_id), image.cluster_config())

    def settings_of(self, topic: str) -> TopicSettings:
        return TopicSettings(self._layers.topic_values(self._metadata.image.topic_config(topic)))

    def load_logs(self) -> None:
        """Open all logs. This may take long after a crash: call it off the event loop."""
        self._logs.load(lambda topic: self.settings_of(topic).log, self._clock())

    def set_strays_aside(self) -> None:
        """Keep, but do not serve, logs that the metadata do not assign to this broker: their topic was
        deleted, or the partition reassigned, while the broker was down."""
        image, node_id = self._metadata.image, self._identity.node_id

        def is_known(topic: str, partition: int, topic_id: bytes) -> bool:
            known = image.topics_by_name.get(topic)
            if known is None or topic_id != known.topic_id or partition not in known.partitions:
                return False
            return node_id in known.partitions[partition].replicas

        for stray in self._logs.find_strays(is_known):
            self._logs.set_aside(stray, self._randomness.uuid().hex())

    def host_all(self) -> None:
        """Host a partition for every log that the metadata assign to this broker."""
        image = self._metadata.image
        shared = TopicSettings(self._layers.topic_values({}))  # most topics have no overrides
        for topic in image.topics_by_id.values():
            settings = shared
            if image.topic_config(topic.name):
                settings = self.settings_of(topic.name)
                self._replicas.topic_changed(topic.name, settings, ())
            for index, partition in topic.partitions.items():
                self._host(topic, index, partition, settings, is_new=False)

    async def sync_recovered(self) -> None:
        """Flush what a killed process left in the page cache, where `flush.messages` requires it: the records
        are served, and acknowledged to retries, from now on."""
        for partition in self._partitions:
            if partition.log.unflushed_messages >= partition.log.config.flush_messages:
                self._flusher.flush(partition)
        await self._flusher.drain()

    # -- changes

    def carry_out(self, delta: ImageDelta) -> Iterator[None]:
        """Follow a delta of the metadata, one partition per step."""
        image = self._metadata.image
        for topic in delta.topics_deleted.values():
            yield from self._drop(topic)
        if any(kind == RESOURCE_BROKER for kind, _ in delta.configs):
            self.refresh_layers()
            self._replicas.configs_changed()
            lowered = self._reconfigure(image.topics_by_name)
        else:
            lowered = self._reconfigure(
                sorted(name for kind, name in delta.configs if kind == RESOURCE_TOPIC)
            )
        for topic_id, indexes in delta.partitions.items():
            changed = image.topics_by_id[topic_id]
            settings = self.settings_of(changed.name)
            for index in sorted(indexes):
                # A partition that only changed, for example by a new leader epoch, may be in a directory that
                # is offline: an empty log must not replace it.
                is_new = (topic_id, index) in delta.partitions_created
                self._host(changed, index, changed.partitions[index], settings, is_new=is_new)
                yield
        # At last: the ISR of older metadata must not meet a smaller minimum.
        for partitions, min_isr in lowered:
            self._replicas.lower_min_isr(partitions, min_isr)

    def retry_pending_partitions(self) -> None:
        """Retry new partitions for which the disk was full, or did not answer."""
        pending, self._pending = self._pending, {}
        for topic_id, index in pending:
            topic = self._metadata.image.topics_by_id.get(topic_id)
            if topic is not None and index in topic.partitions:
                state = topic.partitions[index]
                self._host(topic, index, state, self.settings_of(topic.name), is_new=True)

    def directory_resumed(self, log_dir: ManagedDir) -> None:
        """Continue with the partitions of a log directory whose disk answers again."""
        try:
            self._logs.resumed(log_dir)
        except StorageError as error:
            log.error("logs not deleted: path=%s error=%s", log_dir.path, error)
        self._replicas.directory_resumed(log_dir)

    def _host(
        self,
        topic: TopicImage,
        index: int,
        state: PartitionImage,
        settings: TopicSettings,
        *,
        is_new: bool,
    ) -> None:
        """Bring one partition in line with the metadata."""
        node_id = self._identity.node_id
        partition = self._partitions.by_id(topic.topic_id, index)
        if node_id not in state.replicas:
            if partition is not None:
                self._partitions.remove(partition)
                self._retire(partition)
            return
        if partition is None:
            # A partition that is reassigned to this broker has no log here yet.
            is_new = is_new or node_id in state.adding_replicas
            opened = self._open_log(topic, index, settings, is_new=is_new)
            if opened is None:
                return
            partition = Partition(
                topic.name,
                topic.topic_id,
                index,
                opened,
                settings.rules,
                self._flusher,
                self._replicas,
                high_watermark=self._logs.high_watermark(topic.name, index) or 0,
            )
            self._partitions.add(partition)
        self._replicas.assign(partition, state, settings)
        self._on_hosted(partition, state)

    def _open_log(
        self, topic: TopicImage, index: int, settings: TopicSettings, *, is_new: bool
    ) -> PartitionLog | None:
        try:
            return self._logs.open_or_create(
                topic.name, index, topic.topic_id, settings.log, self._clock(), is_new=is_new
            )
        except StorageError as error:
            if is_new and (isinstance(error, DiskFull) or any(each.is_stalled for each in self._logs.dirs)):
                self._pending[topic.topic_id, index] = None
            log.error("partition is offline: partition=%s-%d error=%s", topic.name, index, error)
            return None

    def _drop(self, topic: TopicImage) -> Iterator[None]:
        self._replicas.topic_deleted(topic.name)
        for partition in self._partitions.remove_topic(topic.name):
            self._retire(partition)
            yield
        for index in topic.partitions:
            self._delete_log(topic.name, index)  # of partitions that could not be hosted
            yield

    def _retire(self, partition: Partition) -> None:
        self._replicas.drop(partition)
        partition.retire()
        self._delete_log(partition.topic, partition.index)

    def _delete_log(self, topic: str, index: int) -> None:
        try:
            self._logs.delete(topic, index, self._randomness.uuid().hex(), self._clock())
        except StorageError as error:
            log.error("log not deleted: partition=%s-%d error=%s", topic, index, error)

    def _reconfigure(self, topics: Iterable[str]) -> list[tuple[list[Partition], int]]:
        """Apply changed configurations; returns the partitions whose minimum of in-sync replicas gets
        smaller, and that minimum."""
        lowered = []
        for name in topics:
            if name in self._metadata.image.topics_by_name:
                settings = self.settings_of(name)
                partitions = self._partitions.of_topic(name).values()
                found = self._replicas.topic_changed(name, settings, partitions)
                if found:
                    lowered.append((found, settings.min_isr))
        return lowered
