"""Creates the internal topics of coordinators, and topics on first use (auto.create.topics.enable)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.metadata.controller_channel import ControllerUnreachable
from ottla.controller.image.parts import TopicImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.metadata.applier import MetadataApplier
    from ottla.broker.metadata.controller_channel import ControllerChannel
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.config.load import BrokerConfig

GROUP_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
BROKER_DEFAULT = -1
KNOWN_WITHIN_MS = 2000
# Later requests of a connection wait for FindCoordinator: without a controller the wait must be short, and
# must not be repeated for each request.
COORDINATOR_TIMEOUT_MS = 1000
COORDINATOR_PAUSE_MS = 1000
ALL_BROKERS_WITHIN_MS = 10_000
_COMPACTED = {"cleanup.policy": "compact", "compression.type": "producer"}

log = logging.getLogger("ottla.topics")


class TopicCreator:
    """Creates topics that no client has explicitly requested."""

    def __init__(
        self,
        config: BrokerConfig,
        metadata: MetadataCache,
        controller: ControllerChannel,
        applier: MetadataApplier,
        monotonic_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._controller = controller
        self._applier = applier
        self._monotonic_ms = monotonic_ms
        self._paused_until_ms = 0
        self._fewer_from_ms: int | None = None

    async def create(self, names: list[str], *, timeout_ms: int | None = None) -> dict[str, int]:
        """Create the topics that do not exist; returns the error code of each that could not be created."""
        request = CreateTopicsRequest(topics=[self._definition(name) for name in dict.fromkeys(names)])
        try:
            response = await self._controller.ask(request, timeout_ms=timeout_ms)
        except ControllerUnreachable as error:
            return self._all_refused(names, ErrorCode.REQUEST_TIMED_OUT, str(error))
        except StorageError as error:
            return self._all_refused(names, error.code, error.reason)
        refused: dict[str, int] = {}
        for result in response.topics:
            if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                if not refused:  # one line per request, however many names it has
                    log.warning("topic not created: topic=%s reason=%s", result.name, result.error_message)
                refused[result.name] = result.error_code
        if len(refused) > 1:
            log.warning("topics not created: count=%d", len(refused))
        # The controller may be on another node: wait until its records are applied here.
        wanted = [name for name in names if name not in refused]
        await self._applier.wait_until(
            lambda: all(name in self._metadata.image.topics_by_name for name in wanted), KNOWN_WITHIN_MS
        )
        return refused

    def _all_refused(self, names: list[str], code: int, reason: str) -> dict[str, int]:
        log.warning("topics not created: count=%d reason=%s", len(names), reason)
        return dict.fromkeys(names, code)

    async def find_or_create(self, name: str) -> TopicImage | None:
        """An internal topic, created on first use; None if that takes long: clients retry."""
        if name not in self._metadata.image.topics_by_name and self._monotonic_ms() >= self._paused_until_ms:
            refused = await self.create([name], timeout_ms=COORDINATOR_TIMEOUT_MS)
            if refused:
                self._paused_until_ms = self._monotonic_ms() + COORDINATOR_PAUSE_MS
            if refused.get(name) == ErrorCode.INVALID_REPLICATION_FACTOR and self._fewer_from_ms is None:
                self._fewer_from_ms = self._monotonic_ms() + ALL_BROKERS_WITHIN_MS
        return self._metadata.image.topics_by_name.get(name)

    def _definition(self, name: str) -> CreatableTopic:
        if name == GROUP_TOPIC:
            return self._internal(name, "offsets.topic", {"segment.bytes": "offsets.topic.segment.bytes"})
        if name == TRANSACTION_TOPIC:
            return self._internal(
                name, "transaction.state.log", {"segment.bytes": "transaction.state.log.segment.bytes"}
            )
        return CreatableTopic(name=name, num_partitions=BROKER_DEFAULT, replication_factor=BROKER_DEFAULT)

    def _brokers(self) -> int:
        """The number of brokers, including those that are down or, in a cluster that is starting, not yet
        registered: an internal topic keeps its initial number of replicas."""
        registered = len(self._metadata.image.brokers)
        if self._fewer_from_ms is not None and self._monotonic_ms() >= self._fewer_from_ms:
            return registered  # the others did not register in time
        combined = self._config.is_broker and self._config.is_controller
        voters = self._config.get_list("controller.quorum.voters") if combined else ()
        return max(registered, len(voters))

    def _internal(self, name: str, prefix: str, from_broker: dict[str, str]) -> CreatableTopic:
        config = self._config
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
