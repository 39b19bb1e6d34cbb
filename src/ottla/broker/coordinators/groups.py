"""The group coordinator: the shards of __consumer_offsets that this broker leads, and what they need.

Requests go to `shards`, see `HostedShards.submit`. The machine, `ottla.groups`, is imported when the first
group needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.group_topics import GroupTopics
from ottla.broker.coordinators.hosted_shards import HostedShards
from ottla.broker.metadata.topic_creator import GROUP_TOPIC
from ottla.controller.features import GROUP_VERSION
from ottla.controller.image.cluster import RESOURCE_BROKER, RESOURCE_GROUP

if TYPE_CHECKING:
    from ottla.broker.background import BackgroundTasks
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.randomness import Randomness
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.replicas.partition_table import PartitionTable
    from ottla.config.load import BrokerConfig
    from ottla.config.topic_config import ConfigLayers
    from ottla.controller.image.parts import ImageDelta
    from ottla.groups.config import GroupsConfig
    from ottla.groups.shard import GroupShard


class GroupCoordinator:
    def __init__(
        self,
        config: BrokerConfig,
        layers: ConfigLayers,
        *,
        identity: NodeIdentity,
        metadata: MetadataCache,
        partitions: PartitionTable,
        randomness: Randomness,
        clock: Callable[[], int],
        monotonic_ms: Callable[[], int],
        tasks: BackgroundTasks,
    ) -> None:
        self._broker_config = config
        self._layers = layers
        self._metadata = metadata
        self._randomness = randomness
        self._topics = GroupTopics(metadata)
        self._config: GroupsConfig | None = None
        self._encode: Callable[[Any, Any], tuple[bytes, bytes | None]] | None = None
        self.shards: HostedShards[GroupShard] = HostedShards(
            GROUP_TOPIC,
            identity=identity,
            metadata=metadata,
            partitions=partitions,
            clock=clock,
            monotonic_ms=monotonic_ms,
            tasks=tasks,
            make_machine=self._make_machine,
            encode=self._encode_record,
            write_timeout_ms=config.get_int("offsets.commit.timeout.ms"),
            codec=config.get_int("offsets.topic.compression.codec"),
        )

    def start(self) -> None:
        self.shards.start()

    async def stop(self) -> None:
        await self.shards.stop()

    # -- machines

    def _make_machine(self, partition: Partition) -> GroupShard:
        from ottla.groups.config import GroupsConfig
        from ottla.groups.shard import GroupShard

        if self._config is None:
            self._config = GroupsConfig(_LayeredConfig(self._layers), self._group_config)
        return GroupShard(self._config, self._topics, self._new_uuid)

    def _encode_record(self, record: Any) -> tuple[bytes, bytes | None]:
        if self._encode is None:
            # Cached: an import statement takes as long as the encoding, even of a loaded module.
            from ottla.groups.record_codec import encode_record

            self._encode = encode_record
        return self._encode(*record)

    def _group_config(self, group_id: str) -> dict[str, str]:
        return self._metadata.image.configs.get((RESOURCE_GROUP, group_id), {})

    def _new_uuid(self) -> str:
        digits = self._randomness.uuid().hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def image_changed(self, delta: ImageDelta) -> None:
        self.shards.image_changed(delta)
        if self._config is not None and any(kind == RESOURCE_BROKER for kind, _ in delta.configs):
            self._config.read(_LayeredConfig(self._layers))
        if self._topics.image_changed(delta):
            for shard in self.shards.all():
                shard.event(lambda machine, now_ms: machine.topics_changed(now_ms))
        deleted = [topic.name for topic in delta.topics_deleted.values()]
        if deleted:
            for shard in self.shards.all():
                shard.event(lambda machine, now_ms: machine.topics_deleted(deleted, now_ms))

    @property
    def has_consumer_protocol(self) -> bool:
        """Whether KIP-848 is enabled, by the cluster's features and by this broker's configuration."""
        protocols = self._broker_config.get_list("group.coordinator.rebalance.protocols")
        return self._metadata.image.features.get(GROUP_VERSION, 0) >= 1 and "consumer" in protocols


class _LayeredConfig:
    """The broker's properties as they are now, dynamic ones included."""

    def __init__(self, layers: ConfigLayers) -> None:
        self._layers = layers

    def get_int(self, name: str) -> int:
        value = self._layers.broker_value(name)
        assert isinstance(value, int)
        return value

    def get_str(self, name: str) -> str:
        return str(self._layers.broker_value(name))

    def get_list(self, name: str) -> tuple[str, ...]:
        return tuple(self._layers.broker_value(name))
