"""From committed metadata to hosted partitions: the only code that creates, changes or drops them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.topic_settings import TopicSettings
from ottla.config.topic_config import ConfigLayers
from ottla.controller.image import RESOURCE_BROKER, RESOURCE_TOPIC, ClusterImage
from ottla.controller.image_parts import ImageDelta, PartitionImage, TopicImage
from ottla.protocol.message import Message
from ottla.storage.errors import DiskFull, StorageError
from ottla.storage.log import PartitionLog

if TYPE_CHECKING:
    from ottla.broker.node import Node

STEPS_PER_TURN = 20  # partitions created or dropped before the loop does something else, about 3 ms
TURN_SECONDS_MAX = 0.005  # and fewer where the disk is slow

log = logging.getLogger("ottla.metadata")


class MetadataPublisher:
    """Owns the broker's image: applies records to it and makes the partitions follow."""

    def __init__(self, broker: Node) -> None:
        self._broker = broker
        self._cache = broker.metadata
        self.on_change: list[Callable[[ImageDelta], None]] = []  # called when a delta has been carried out
        self._waiting_for_room: dict[tuple[bytes, int], None] = {}  # new partitions whose disk was full

    @property
    def image(self) -> ClusterImage:
        return self._cache.image

    async def publish(self, records: list[Message], last_offset: int) -> None:
        """Apply committed records and carry out what they change here."""
        delta = ImageDelta()
        for record in records:
            self._cache.image.apply(record, delta)
        self._cache.offset = last_offset
        await self._follow(delta)

    async def publish_snapshot(self, records: Iterable[Message], last_offset: int) -> None:
        """The image is from now on the one that these records make: carry out the difference."""
        from ottla.broker.metadata.image_diff import difference

        image = ClusterImage()
        for record in records:
            image.apply(record)
        delta = difference(self.image, image)
        self._cache.image = image
        self._cache.offset = last_offset
        await self._follow(delta)

    async def _follow(self, delta: ImageDelta) -> None:
        """One request may create thousands of logs: the loop gets its turn every few of them. A partition
        that is in the image but not hosted yet answers NOT_LEADER_OR_FOLLOWER, and clients come again."""
        self._broker.dispatcher.fast_path.forget()
        loop = asyncio.get_running_loop()
        turn_began = loop.time()
        for step, _ in enumerate(self._carry_out(delta), 1):
            if step % STEPS_PER_TURN == 0 or loop.time() - turn_began > TURN_SECONDS_MAX:
                await asyncio.sleep(0)
                turn_began = loop.time()
        if delta.brokers:
            self._broker.replicas.brokers_changed(sorted(delta.brokers))
        for tell in self.on_change:
            tell(delta)

    def forget(self) -> None:
        """A snapshot takes the place of what was replayed so far."""
        self._cache.image = ClusterImage()

    def replay(self, record: Message, offset: int) -> None:
        """Apply a record at start-up; `host_everything` follows when all are in."""
        self._cache.image.apply(record)
        self._cache.offset = offset

    def copy_of_image(self) -> ClusterImage:
        """What is committed, as an image of its own."""
        copy = ClusterImage()
        for record in self.image.to_records():
            copy.apply(record)
        return copy

    def host_what_waits(self) -> None:
        """Try again to open the new partitions that found no room."""
        waiting, self._waiting_for_room = self._waiting_for_room, {}
        for topic_id, index in waiting:
            topic = self.image.topics_by_id.get(topic_id)
            if topic is not None and index in topic.partitions:
                state = topic.partitions[index]
                self._host(topic, index, state, self.settings_of(topic.name), is_new=True)

    def settings_of(self, topic: str) -> TopicSettings:
        return TopicSettings(self._broker.layers.topic_values(self.image.topic_config(topic)))

    def refresh_layers(self) -> None:
        """Take over what is set dynamically for this broker and for all of them."""
        broker = self._broker
        broker.layers = ConfigLayers(
            broker.config, self.image.broker_config(broker.node_id), self.image.cluster_config()
        )

    def host_everything(self) -> None:
        """At start-up: a partition for every log that the image gives this broker."""
        shared = TopicSettings(
            self._broker.layers.topic_values({})
        )  # most topics have no configs of their own
        for topic in self.image.topics_by_id.values():
            settings = shared
            if self.image.topic_config(topic.name):
                settings = self.settings_of(topic.name)
                self._broker.replicas.topic_changed(topic.name, settings, ())
            for index, partition in topic.partitions.items():
                self._host(topic, index, partition, settings, is_new=False)

    def set_strays_aside(self) -> None:
        """Keep, but do not serve, logs that are not ours (any more): of a topic that was deleted while we
        were down, say, or of a partition that was given to other brokers."""
        image, node_id = self.image, self._broker.node_id

        def is_known(topic: str, partition: int, topic_id: bytes) -> bool:
            known = image.topics_by_name.get(topic)
            if known is None or topic_id != known.topic_id or partition not in known.partitions:
                return False
            return node_id in known.partitions[partition].replicas

        for stray in self._broker.logs.find_strays(is_known):
            self._broker.logs.set_aside(stray, self._broker.random_uuid().hex())

    # -- changes

    def _carry_out(self, delta: ImageDelta) -> Iterator[None]:
        """Follow the delta, a partition per step."""
        for topic in delta.topics_deleted.values():
            yield from self._drop(topic)
        if any(kind == RESOURCE_BROKER for kind, _ in delta.configs):
            self.refresh_layers()
            self._broker.replicas.configs_changed()
            self._reconfigure(self.image.topics_by_name)
        else:
            self._reconfigure(sorted(name for kind, name in delta.configs if kind == RESOURCE_TOPIC))
        for topic_id, indexes in delta.partitions.items():
            changed = self.image.topics_by_id[topic_id]
            settings = self.settings_of(changed.name)
            for index in sorted(indexes):
                # One that only changed, by the new leader epoch of a restart say, may lie in a directory that
                # is offline: an empty log must not take its place.
                is_new = (topic_id, index) in delta.partitions_created
                self._host(changed, index, changed.partitions[index], settings, is_new=is_new)
                yield

    def _host(
        self,
        topic: TopicImage,
        index: int,
        state: PartitionImage,
        settings: TopicSettings,
        *,
        is_new: bool,
    ) -> None:
        """Bring one partition in line with the image."""
        broker = self._broker
        partition = broker.partitions.by_id(topic.topic_id, index)
        if broker.node_id not in state.replicas:
            if partition is not None:
                broker.partitions.remove(partition)
                self._retire(partition)
            return
        if partition is None:
            # One that moves to this broker has no log here yet.
            is_new = is_new or broker.node_id in state.adding_replicas
            opened = self._open_log(topic, index, settings, is_new=is_new)
            if opened is None:
                return
            partition = Partition(topic.name, topic.topic_id, index, opened, settings.rules, broker.flusher)
            checkpoint = broker.logs.high_watermark(topic.name, index) or 0
            partition.high_watermark = min(max(checkpoint, opened.log_start_offset), opened.log_end_offset)
            broker.partitions.add(partition)
        broker.replicas.assign(partition, state, settings)
        broker.directory_reports.hosted(partition, state)

    def _open_log(
        self, topic: TopicImage, index: int, settings: TopicSettings, *, is_new: bool
    ) -> PartitionLog | None:
        broker = self._broker
        try:
            return broker.logs.open_or_create(
                topic.name, index, topic.topic_id, settings.log, broker.clock(), is_new=is_new
            )
        except StorageError as error:
            if is_new and isinstance(error, DiskFull):
                self._waiting_for_room[topic.topic_id, index] = None
            log.error("partition is offline: partition=%s-%d error=%s", topic.name, index, error)
            return None

    def _drop(self, topic: TopicImage) -> Iterator[None]:
        broker = self._broker
        broker.replicas.topic_deleted(topic.name)
        for partition in broker.partitions.remove_topic(topic.name):
            self._retire(partition)
            yield
        for index in topic.partitions:
            self._delete_log(topic.name, index)  # where it could not be hosted
            yield

    def _retire(self, partition: Partition) -> None:
        self._broker.replicas.drop(partition)
        partition.retire()
        self._delete_log(partition.topic, partition.index)

    def _delete_log(self, topic: str, index: int) -> None:
        broker = self._broker
        try:
            broker.logs.delete(topic, index, broker.random_uuid().hex(), broker.clock())
        except StorageError as error:
            log.error("log not deleted: partition=%s-%d error=%s", topic, index, error)

    def _reconfigure(self, topics: Iterable[str]) -> None:
        broker = self._broker
        for name in topics:
            if name not in self.image.topics_by_name:
                continue
            partitions = broker.partitions.of_topic(name)
            settings = self.settings_of(name)
            for partition in partitions.values():
                partition.log.config = settings.log
                partition.rules = settings.rules
            broker.replicas.topic_changed(name, settings, partitions.values())
