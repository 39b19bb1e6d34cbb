"""Metadata (3): the brokers, and the leader of each partition. Creates missing topics where allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.authorized_operations import CLUSTER_OPERATIONS, NOT_REQUESTED, TOPIC_OPERATIONS
from ottla.broker.api.cluster_view import (
    PartitionView,
    ReachableBroker,
    any_live_node,
    nodes,
    topic_name_problem,
)
from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.api.topics.metadata_responses import MetadataResponseCache
from ottla.broker.net.request import DeferredResponse
from ottla.controller.topics.names import INTERNAL_TOPICS
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.uuids import ZERO_UUID
from ottla.protocol.versions import (
    METADATA_LISTENER_NOT_FOUND_SINCE,
    METADATA_NULL_FOR_ALL_TOPICS_SINCE,
    METADATA_NULL_TOPIC_NAME_SINCE,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata.topic_creator import TopicCreator
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.net.request import Request
    from ottla.controller.image.cluster import ClusterImage
    from ottla.controller.image.parts import PartitionImage, TopicImage
    from ottla.protocol.message import Message

LARGE_RESPONSE = 300  # partitions, or topics


class Metadata:
    def __init__(
        self,
        identity: NodeIdentity,
        metadata: MetadataCache,
        topic_creator: TopicCreator,
        is_recent: Callable[[int], bool],
        is_gone: Callable[[int], bool],
        *,
        auto_create_topics: bool,
    ) -> None:
        """`is_recent` names fenced brokers that are still shown, `is_gone` brokers that stopped listening."""
        self._identity = identity
        self._metadata = metadata
        self._topic_creator = topic_creator
        self._is_recent = is_recent
        self._is_gone = is_gone
        self._auto_create_topics = auto_create_topics
        self._cache = MetadataResponseCache()

    def handle(self, request: Request, message: MetadataRequest) -> Any:
        missing = self._creatable(message)
        if missing:
            return self._create_then_respond(request, message, missing)
        # An earlier request of the connection may be waiting for a fail-over: build the response after it.
        return DeferredResponse(lambda: self._respond(request, message, {}))

    def _creatable(self, message: MetadataRequest) -> list[str]:
        """The topics of the request that do not exist and may be created; usually none."""
        if not message.topics or not message.allow_auto_topic_creation or not self._auto_create_topics:
            return []
        known = self._metadata.image.topics_by_name
        return [
            topic.name
            for topic in message.topics
            if topic.name is not None and topic.name not in known and topic_name_problem(topic.name) is None
        ]

    async def _create_then_respond(
        self, request: Request, message: MetadataRequest, missing: list[str]
    ) -> Message:
        """Unlike Kafka, respond after the creation, so that the first attempt of a producer succeeds."""
        refused = await self._topic_creator.create(missing)
        return self._respond(request, message, refused)

    def _respond(self, request: Request, message: MetadataRequest, refused: dict[str, int]) -> Message:
        image = self._metadata.image
        shown = nodes(image, request.listener.name, self._is_recent)
        if refused or not _is_large(image, message):
            return self._build(request, message, refused, shown)
        gone = [broker_id for broker_id in image.brokers if self._is_gone(broker_id)]
        topics = message.topics
        key = (
            request.version,
            request.listener.name,
            message.include_topic_authorized_operations,
            message.include_cluster_authorized_operations,
            None if topics is None else tuple([(each.topic_id, each.name) for each in topics]),
        )
        known = self._cache.find((self._metadata.offset, shown, gone), key)
        if known is not None:
            return known
        return self._cache.store(key, self._build(request, message, refused, shown), request.version)

    def _build(
        self,
        request: Request,
        message: MetadataRequest,
        refused: dict[str, int],
        shown: list[ReachableBroker],
    ) -> MetadataResponse:
        response = MetadataResponse(
            cluster_id=self._identity.cluster_id,
            controller_id=any_live_node(shown, self._identity.node_id),
            brokers=[
                MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
                for node in shown
            ],
            topics=self._topics(request, message, refused),
        )
        if message.include_topic_authorized_operations:
            for topic in response.topics:
                if not topic.error_code:
                    topic.topic_authorized_operations = TOPIC_OPERATIONS
        wanted = message.include_cluster_authorized_operations
        response.cluster_authorized_operations = CLUSTER_OPERATIONS if wanted else NOT_REQUESTED
        return response

    def _topics(
        self, request: Request, message: MetadataRequest, refused: dict[str, int]
    ) -> list[MetadataResponseTopic]:
        image, version = self._metadata.image, request.version
        view = PartitionView(image, request.listener.name, self._is_gone)
        if message.topics is None or (not message.topics and version < METADATA_NULL_FOR_ALL_TOPICS_SINCE):
            return [_topic(view, topic, version) for topic in image.topics_by_name.values()]
        found = []
        # A repeated topic is described once: the response could be a thousand times the request.
        for topic_id, wanted_name in dict.fromkeys((named.topic_id, named.name) for named in message.topics):
            if topic_id != ZERO_UUID:
                topic = image.topics_by_id.get(topic_id)
                missing = MetadataResponseTopic(
                    error_code=ErrorCode.UNKNOWN_TOPIC_ID,
                    name=None if version >= METADATA_NULL_TOPIC_NAME_SINCE else "",
                    topic_id=topic_id,
                )
            else:
                name = wanted_name or ""
                topic = image.topics_by_name.get(name)
                bad_name = topic is None and topic_name_problem(name) is not None
                code = ErrorCode.INVALID_TOPIC_EXCEPTION if bad_name else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                missing = MetadataResponseTopic(error_code=refused.get(name, code), name=name)
            found.append(missing if topic is None else _topic(view, topic, version))
        return found


def create(parts: ApiParts) -> Handler:
    return Metadata(
        parts.identity,
        parts.metadata,
        parts.topic_creator,
        parts.recent_brokers.is_recent,
        parts.replicas.is_gone,
        auto_create_topics=parts.config.get_bool("auto.create.topics.enable"),
    ).handle


def _is_large(image: ClusterImage, message: MetadataRequest) -> bool:
    """Whether the response may be large enough to cache. Most requests name few partitions."""
    if not message.topics:
        return len(image.topics_by_id) >= LARGE_RESPONSE
    total = 0
    for named in message.topics:
        topic = image.topics_by_id.get(named.topic_id) or image.topics_by_name.get(named.name or "")
        if topic is None:
            return False
        total += len(topic.partitions)
    return total >= LARGE_RESPONSE


def _topic(view: PartitionView, topic: TopicImage, version: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _partition(view, index, partition, version) for index, partition in topic.partitions.items()
        ],
    )


def _partition(
    view: PartitionView, index: int, partition: PartitionImage, version: int
) -> MetadataResponsePartition:
    leader, error = view.leader(partition)
    if error == ErrorCode.LISTENER_NOT_FOUND and version < METADATA_LISTENER_NOT_FOUND_SINCE:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    response = MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=view.offline_replicas(partition),
    )
    if version < METADATA_NULL_FOR_ALL_TOPICS_SINCE:
        _hide_missing_replicas(view, response)
    return response


def _hide_missing_replicas(view: PartitionView, response: MetadataResponsePartition) -> None:
    """The oldest clients fail on a replica that is not among the brokers of the response."""
    replicas = [each for each in response.replica_nodes if view.is_live(each)]
    if len(replicas) < len(response.replica_nodes) and not response.error_code:
        response.error_code = ErrorCode.REPLICA_NOT_AVAILABLE
    response.replica_nodes = replicas
    response.isr_nodes = [each for each in response.isr_nodes if view.is_live(each)]


API = ApiDeclaration(ApiKey.METADATA, create)
