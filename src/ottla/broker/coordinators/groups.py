"""The group coordinator: requests about groups in, replies or futures of them out.

The core, `ottla.groups`, is imported when the first group needs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.coordinator import Coordinator
from ottla.broker.coordinators.hosted_shard import LOADING, Machine
from ottla.broker.coordinators.image_topics import ImageTopics
from ottla.broker.metadata.topic_creator import GROUP_TOPIC
from ottla.controller.features import GROUP_VERSION
from ottla.controller.image import RESOURCE_BROKER, RESOURCE_GROUP
from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.coordinators.writing import Ticket
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node
    from ottla.broker.replicas.partition import Partition
    from ottla.controller.image_parts import ImageDelta
    from ottla.groups.config import GroupsConfig
    from ottla.groups.shard import GroupShard
    from ottla.protocol.message import Message

# Decides a request: machine, context, time.
Decide = Callable[["GroupShard", RequestContext, int], Outcome]


class GroupCoordinator(Coordinator):
    TOPIC = GROUP_TOPIC

    def __init__(self, broker: Node) -> None:
        config = broker.config
        super().__init__(
            broker,
            config.get_int("offsets.commit.timeout.ms"),
            codec=config.get_int("offsets.topic.compression.codec"),
        )
        self.topics = ImageTopics(broker)
        self._config: GroupsConfig | None = None
        self._encode: Callable[[Any, Any], tuple[bytes, bytes | None]] | None = None

    # -- what shards are made of

    def make_machine(self, partition: Partition) -> Machine:
        from ottla.groups.shard import GroupShard

        return GroupShard(self.config, self.topics, self._new_uuid)

    @property
    def config(self) -> GroupsConfig:
        if self._config is None:
            from ottla.groups.config import GroupsConfig

            self._config = GroupsConfig(_LayeredConfig(self.broker), self._overrides)
        return self._config

    def encode(self, record: Any) -> tuple[bytes, bytes | None]:
        if self._encode is None:
            # Kept: an import statement takes as long as the encoding, even when all is imported.
            from ottla.groups.record_codec import encode_record

            self._encode = encode_record
        return self._encode(*record)

    def _overrides(self, group_id: str) -> dict[str, str]:
        return self.broker.image.configs.get((RESOURCE_GROUP, group_id), {})

    def _new_uuid(self) -> str:
        digits = self.broker.random_uuid().hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    # -- metadata

    def image_changed(self, delta: ImageDelta) -> None:
        super().image_changed(delta)
        if self._config is not None and any(kind == RESOURCE_BROKER for kind, _ in delta.configs):
            self._config.read(_LayeredConfig(self.broker))
        if self.topics.image_changed(delta):
            for shard in self.shards:
                shard.event(lambda machine, now_ms: machine.topics_changed(now_ms))
        deleted = [topic.name for topic in delta.topics_deleted.values()]
        if deleted:
            for shard in self.shards:
                shard.event(lambda machine, now_ms: machine.topics_deleted(deleted, now_ms))

    # -- requests

    @property
    def has_consumer_protocol(self) -> bool:
        """Is KIP-848 switched on: by the cluster, and here?"""
        protocols = self.broker.config.get_list("group.coordinator.rebalance.protocols")
        return self.broker.image.features.get(GROUP_VERSION, 0) >= 1 and "consumer" in protocols

    def ask(
        self,
        request: Request,
        group_id: str,
        decide: Decide,
        refuse: Callable[[int], Any],
        *,
        writes: bool = True,
    ) -> Any:
        """The response to a request about one group, or its future."""
        shard = self.shard_of(group_id)
        if isinstance(shard, ErrorCode):
            return refuse(shard)

        def decide_once(machine: GroupShard, ticket: Ticket, now_ms: int) -> Outcome:
            return decide(machine, context_of(request, ticket), now_ms)

        return shard.submit(decide_once, refuse, writes=writes)

    def look(self, group_id: str, see: Callable[[GroupShard], Any], refuse: Callable[[int], Any]) -> Any:
        """What there is to see of one group, or a future of it: nothing is shown before it is committed."""
        shard = self.shard_of(group_id)
        if isinstance(shard, ErrorCode):
            return refuse(shard)
        return shard.submit(lambda machine, ticket, now_ms: Outcome(see(machine)), refuse, writes=False)

    def look_everywhere(self, see: Callable[[GroupShard], Any]) -> list[Any] | ErrorCode:
        """The same of every shard here; the error if one of them is not there yet."""
        answers: list[Any] = []
        for shard in self.shards:
            if shard.state == LOADING:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            if shard.machine is not None:
                answers.append(
                    shard.submit(
                        lambda machine, ticket, now_ms: Outcome(see(machine)), _nothing, writes=False
                    )
                )
        return answers


def context_of(request: Request, ticket: Ticket) -> RequestContext:
    host = request.connection.peer.rpartition(":")[0]
    return RequestContext(
        token=ticket, api_version=request.version, client_id=request.client_id or "", client_host=f"/{host}"
    )


def together(answers: Sequence[Any], merge: Callable[[list[Any]], Message]) -> Any:
    """One reply made of several answers; a future of it if one of them is."""
    futures = [each for each in answers if isinstance(each, asyncio.Future)]
    if not futures:
        return merge(list(answers))
    done: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    left = len(futures)

    def one_done(_: asyncio.Future[Any]) -> None:
        nonlocal left
        left -= 1
        if left == 0 and not done.done():
            done.set_result(
                merge([each.result() if isinstance(each, asyncio.Future) else each for each in answers])
            )

    for future in futures:
        future.add_done_callback(one_done)
    return done


def _nothing(code: int) -> None:
    return None


class _LayeredConfig:
    """The broker's properties as they are now, dynamic ones too."""

    def __init__(self, broker: Node) -> None:
        self._layers = broker.layers

    def get_int(self, name: str) -> int:
        value = self._layers.broker_value(name)
        assert isinstance(value, int)
        return value

    def get_str(self, name: str) -> str:
        return str(self._layers.broker_value(name))

    def get_list(self, name: str) -> tuple[str, ...]:
        return tuple(self._layers.broker_value(name))
