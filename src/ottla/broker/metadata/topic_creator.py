"""Creates the topics that coordinators need, and those that clients bring into being by asking for them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.controller.image_parts import TopicImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

if TYPE_CHECKING:
    from ottla.broker.node import Node

GROUP_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
BROKER_DEFAULT = -1
KNOWN_WITHIN_MS = 2000
# Requests wait behind one that asks for a coordinator, fetches among them: out of reach of a controller they
# must not wait for long, and not every time.
COORDINATOR_PATIENCE_MS = 1000
COORDINATOR_PAUSE_MS = 1000
ALL_BROKERS_WITHIN_MS = 10_000
_COMPACTED = {"cleanup.policy": "compact", "compression.type": "producer"}

log = logging.getLogger("ottla.topics")


class TopicCreator:
    """Creates topics on behalf of clients that did not ask for it in so many words."""

    def __init__(self, broker: Node) -> None:
        self._broker = broker
        self._in_vain_until_ms = 0
        self._fewer_from_ms: int | None = None

    async def create(self, names: list[str], *, timeout_ms: int | None = None) -> dict[str, int]:
        """Create what does not exist yet; the error code of each that could not be."""
        request = CreateTopicsRequest(topics=[self._definition(name) for name in dict.fromkeys(names)])
        answer = await self._broker.command(request, timeout_ms=timeout_ms)
        refused: dict[str, int] = {}
        for result in answer.topics:
            if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                if not refused:  # one line per request, however many names it has
                    log.warning("topic not created: topic=%s reason=%s", result.name, result.error_message)
                refused[result.name] = result.error_code
        if len(refused) > 1:
            log.warning("topics not created: count=%d", len(refused))
        # The controller may be elsewhere: its records are on their way here.
        wanted = [name for name in names if name not in refused]
        await self._broker.plane.wait_until(
            lambda: all(name in self._broker.image.topics_by_name for name in wanted), KNOWN_WITHIN_MS
        )
        return refused

    async def find_or_create(self, name: str) -> TopicImage | None:
        """An internal topic, created when it is first needed. None if that takes long: clients ask again."""
        broker = self._broker
        if name not in broker.image.topics_by_name and broker.clock() >= self._in_vain_until_ms:
            refused = await self.create([name], timeout_ms=COORDINATOR_PATIENCE_MS)
            if refused:
                self._in_vain_until_ms = broker.clock() + COORDINATOR_PAUSE_MS
            if refused.get(name) == ErrorCode.INVALID_REPLICATION_FACTOR and self._fewer_from_ms is None:
                self._fewer_from_ms = broker.clock() + ALL_BROKERS_WITHIN_MS
        return broker.image.topics_by_name.get(name)

    def _definition(self, name: str) -> CreatableTopic:
        if name == GROUP_TOPIC:
            return self._internal(name, "offsets.topic", {"segment.bytes": "offsets.topic.segment.bytes"})
        if name == TRANSACTION_TOPIC:
            return self._internal(
                name, "transaction.state.log", {"segment.bytes": "transaction.state.log.segment.bytes"}
            )
        return CreatableTopic(name=name, num_partitions=BROKER_DEFAULT, replication_factor=BROKER_DEFAULT)

    def _brokers(self) -> int:
        """How many the cluster has, those included that are down or, where a cluster is just starting, on
        their way: an internal topic keeps for good the replicas that it is given now."""
        broker = self._broker
        registered = len(broker.image.brokers)
        if self._fewer_from_ms is not None and broker.clock() >= self._fewer_from_ms:
            return registered  # some were waited for in vain
        combined = broker.config.is_broker and broker.config.is_controller
        voters = broker.config.get_list("controller.quorum.voters") if combined else ()
        return max(registered, len(voters))

    def _internal(self, name: str, prefix: str, from_broker: dict[str, str]) -> CreatableTopic:
        config = self._broker.config
        replicas = config.internal_replication_factor(f"{prefix}.replication.factor", self._brokers())
        configs = dict(_COMPACTED)
        configs.update((key, str(config.get(source))) for key, source in from_broker.items())
        if name == TRANSACTION_TOPIC:
            configs["min.insync.replicas"] = str(config.internal_min_isr(f"{prefix}.min.isr", replicas))
            configs["unclean.leader.election.enable"] = "false"
        return CreatableTopic(
            name=name,
            num_partitions=config.get_int(f"{prefix}.num.partitions"),
            replication_factor=replicas,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
