"""FindCoordinator (10): the broker that coordinates a group or a transactional id.

The coordinator of a key is the leader of the internal topic's partition that the key hashes to. The first
request creates the topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.cluster_view import nodes
from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.metadata.topic_creator import GROUP_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.hashing import java_hash_partition
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from ottla.protocol.versions import FIND_COORDINATOR_BATCHES_SINCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata.applier import MetadataApplier
    from ottla.broker.metadata.topic_creator import TopicCreator
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.net.request import Request
    from ottla.broker.replicas.partition_table import PartitionTable

HOSTED_WITHIN_MS = 1000
GROUP_KEY, TRANSACTION_KEY = 0, 1
TOPIC_OF_KEY_TYPE = {GROUP_KEY: GROUP_TOPIC, TRANSACTION_KEY: TRANSACTION_TOPIC}


class FindCoordinator:
    def __init__(
        self,
        identity: NodeIdentity,
        metadata: MetadataCache,
        applier: MetadataApplier,
        topic_creator: TopicCreator,
        partitions: PartitionTable,
        is_gone: Callable[[int], bool],
    ) -> None:
        self._identity = identity
        self._metadata = metadata
        self._applier = applier
        self._topic_creator = topic_creator
        self._partitions = partitions
        self._is_gone = is_gone

    def handle(self, request: Request, message: FindCoordinatorRequest) -> Any:
        topic_name = TOPIC_OF_KEY_TYPE.get(message.key_type)
        if topic_name is None or topic_name in self._metadata.image.topics_by_name:
            return self._respond(request, message)
        return self._create_then_respond(request, message, topic_name)

    async def _create_then_respond(
        self, request: Request, message: FindCoordinatorRequest, topic_name: str
    ) -> FindCoordinatorResponse:
        """Create the topic, and wait for the partitions that this broker leads: the client's next request
        comes at once, and must find its coordinator."""
        topic = await self._topic_creator.find_or_create(topic_name)
        if topic is not None:
            ours = sum(state.leader == self._identity.node_id for state in topic.partitions.values())
            hosted = self._partitions.of_topic
            await self._applier.wait_until(
                lambda: sum(each.is_leader for each in hosted(topic_name).values()) >= ours, HOSTED_WITHIN_MS
            )
        return self._respond(request, message)

    def _respond(self, request: Request, message: FindCoordinatorRequest) -> FindCoordinatorResponse:
        if request.version >= FIND_COORDINATOR_BATCHES_SINCE:
            keys = dict.fromkeys(message.coordinator_keys)
            found = [self._find(request, message.key_type, key) for key in keys]
            return FindCoordinatorResponse(coordinators=found)
        one = self._find(request, message.key_type, message.key)
        return FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )

    def _find(self, request: Request, key_type: int, key: str) -> Coordinator:
        topic_name = TOPIC_OF_KEY_TYPE.get(key_type)
        if topic_name is None:
            return _failed(key, ErrorCode.INVALID_REQUEST, f"key type {key_type} has no coordinator")
        if key == "" and key_type == TRANSACTION_KEY:
            return _failed(key, ErrorCode.INVALID_REQUEST, "a transactional id must not be empty")
        image = self._metadata.image
        topic = image.topics_by_name.get(topic_name)
        if topic is None:
            return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic_name} could not be created")
        leader = topic.partitions[java_hash_partition(key, len(topic.partitions))].leader
        for node in nodes(image, request.listener.name):
            # A broker that stopped listening is about to be replaced: a client would retry it for long.
            if node.node_id == leader and not self._is_gone(leader):
                return Coordinator(
                    key=key, node_id=node.node_id, host=node.host, port=node.port, error_message=None
                )
        reason = f"the coordinator's partition of {topic_name} has no leader"
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)


def _failed(key: str, code: ErrorCode, reason: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=reason)


def create(parts: ApiParts) -> Handler:
    return FindCoordinator(
        parts.identity,
        parts.metadata,
        parts.applier,
        parts.topic_creator,
        parts.partitions,
        parts.replicas.is_gone,
    ).handle


API = ApiDeclaration(ApiKey.FIND_COORDINATOR, create)
