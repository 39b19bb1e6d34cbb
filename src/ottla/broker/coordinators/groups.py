"""The group coordinator: one method per request, which returns the reply or a future of it.

`refuse` builds the response that reports an error of the coordinator itself: not available, loading, moved.
The machine, `ottla.groups`, is imported when the first group needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.group_topics import GroupTopics
from ottla.broker.coordinators.hosted_shard import LOADING, HostedShard, Machine
from ottla.broker.coordinators.hosted_shards import HostedShards
from ottla.broker.metadata.topic_creator import GROUP_TOPIC
from ottla.controller.features import GROUP_VERSION
from ottla.controller.image.cluster import RESOURCE_BROKER, RESOURCE_GROUP
from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.background import BackgroundTasks
    from ottla.broker.coordinators.replies import Refuse, Reply, Result
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
    from ottla.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
    from ottla.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
    from ottla.protocol.messages.delete_groups_response import DeleteGroupsResponse
    from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
    from ottla.protocol.messages.heartbeat_response import HeartbeatResponse
    from ottla.protocol.messages.join_group_request import JoinGroupRequest
    from ottla.protocol.messages.join_group_response import JoinGroupResponse
    from ottla.protocol.messages.leave_group_request import LeaveGroupRequest
    from ottla.protocol.messages.leave_group_response import LeaveGroupResponse
    from ottla.protocol.messages.offset_commit_request import OffsetCommitRequest
    from ottla.protocol.messages.offset_commit_response import OffsetCommitResponse
    from ottla.protocol.messages.offset_delete_request import OffsetDeleteRequest
    from ottla.protocol.messages.offset_delete_response import OffsetDeleteResponse
    from ottla.protocol.messages.sync_group_request import SyncGroupRequest
    from ottla.protocol.messages.sync_group_response import SyncGroupResponse

_Decide = Callable[["GroupShard", int], Outcome]


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
        tasks: BackgroundTasks,
    ) -> None:
        self._broker_config = config
        self._layers = layers
        self._metadata = metadata
        self._randomness = randomness
        self._topics = GroupTopics(metadata)
        self._config: GroupsConfig | None = None
        self._encode: Callable[[Any, Any], tuple[bytes, bytes | None]] | None = None
        self.shards = HostedShards(
            GROUP_TOPIC,
            identity=identity,
            metadata=metadata,
            partitions=partitions,
            clock=clock,
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

    def _make_machine(self, partition: Partition) -> Machine:
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

    # -- membership

    @property
    def has_consumer_protocol(self) -> bool:
        """Whether KIP-848 is enabled, by the cluster's features and by this broker's configuration."""
        protocols = self._broker_config.get_list("group.coordinator.rebalance.protocols")
        return self._metadata.image.features.get(GROUP_VERSION, 0) >= 1 and "consumer" in protocols

    def join_group(
        self, request: JoinGroupRequest, context: RequestContext, refuse: Refuse[JoinGroupResponse]
    ) -> Reply[JoinGroupResponse]:
        return self._submit(
            request.group_id,
            context,
            refuse,
            lambda machine, now_ms: machine.decide_join_group(request, context, now_ms),
        )

    def sync_group(
        self, request: SyncGroupRequest, context: RequestContext, refuse: Refuse[SyncGroupResponse]
    ) -> Reply[SyncGroupResponse]:
        return self._submit(
            request.group_id,
            context,
            refuse,
            lambda machine, now_ms: machine.decide_sync_group(request, context, now_ms),
        )

    def heartbeat(
        self, request: HeartbeatRequest, context: RequestContext, refuse: Refuse[HeartbeatResponse]
    ) -> Reply[HeartbeatResponse]:
        return self._submit(
            request.group_id,
            context,
            refuse,
            lambda machine, now_ms: machine.decide_heartbeat(request, context, now_ms),
            writes=False,
        )

    def leave_group(
        self, request: LeaveGroupRequest, context: RequestContext, refuse: Refuse[LeaveGroupResponse]
    ) -> Reply[LeaveGroupResponse]:
        return self._submit(
            request.group_id,
            context,
            refuse,
            lambda machine, now_ms: machine.decide_leave_group(request, context, now_ms),
        )

    def consumer_group_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        context: RequestContext,
        refuse: Refuse[ConsumerGroupHeartbeatResponse],
    ) -> Reply[ConsumerGroupHeartbeatResponse]:
        return self._submit(
            request.group_id,
            context,
            refuse,
            lambda machine, now_ms: machine.decide_consumer_group_heartbeat(request, context, now_ms),
            writes=False,
        )

    # -- offsets

    def offset_commit(
        self, request: OffsetCommitRequest, context: RequestContext, refuse: Refuse[OffsetCommitResponse]
    ) -> Reply[OffsetCommitResponse]:
        return self._submit(
            request.group_id,
            context,
            refuse,
            lambda machine, now_ms: machine.decide_offset_commit(request, context, now_ms),
        )

    def offset_delete(
        self, request: OffsetDeleteRequest, context: RequestContext, refuse: Refuse[OffsetDeleteResponse]
    ) -> Reply[OffsetDeleteResponse]:
        return self._submit(
            request.group_id,
            context,
            refuse,
            lambda machine, now_ms: machine.decide_offset_delete(request, context, now_ms),
        )

    # -- groups

    def delete_group(
        self, group_id: str, context: RequestContext, refuse: Refuse[DeleteGroupsResponse]
    ) -> Reply[DeleteGroupsResponse]:
        return self._submit(
            group_id,
            context,
            refuse,
            lambda machine, now_ms: machine.decide_delete_groups([group_id], context, now_ms),
        )

    def read(self, group_id: str, view: Callable[[GroupShard], Any], refuse: Refuse[Any]) -> Any:
        """Return the result of `view` for a group's shard, once all state it has read is committed."""
        shard = self.shards.of_key(group_id)
        if isinstance(shard, ErrorCode):
            return refuse(shard)
        return _read(shard, view, refuse)

    def read_all(self, view: Callable[[GroupShard], Any]) -> list[Any] | ErrorCode:
        """`read` for every shard of this broker; the error if one is still loading."""
        replies: list[Any] = []
        for shard in self.shards.all():
            if shard.state == LOADING:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            if shard.machine is not None:
                replies.append(_read(shard, view, lambda code: None))
        return replies

    def _submit(
        self,
        group_id: str,
        context: RequestContext,
        refuse: Refuse[Result],
        decide: _Decide,
        *,
        writes: bool = True,
    ) -> Reply[Result]:
        shard = self.shards.of_key(group_id)
        if isinstance(shard, ErrorCode):
            return refuse(shard)
        return shard.submit(decide, refuse, context, writes=writes)


def _read(shard: HostedShard, view: Callable[[GroupShard], Any], refuse: Refuse[Any]) -> Any:
    return shard.submit(lambda machine, now_ms: Outcome(view(machine)), refuse, writes=False)


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
