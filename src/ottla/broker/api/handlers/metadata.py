"""Metadata (3): who leads which partition, and where to find them. Creates topics where that is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from ottla.broker.api.cluster_view import (
    PartitionView,
    ReachableBroker,
    any_live_node,
    nodes,
    topic_name_problem,
)
from ottla.broker.net.request import DeferredResponse
from ottla.controller.topic_names import INTERNAL_TOPICS
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node
    from ottla.controller.image import ClusterImage
    from ottla.controller.image_parts import PartitionImage, TopicImage
    from ottla.protocol.message import Message

API_KEY = 3
FIRST_VERSION_WITH_LISTENER_NOT_FOUND = 6
LONG_ANSWER = 300  # partitions, or topics


def handle(broker: Node, request: Request, message: MetadataRequest) -> Any:
    missing = _creatable(broker, message)
    if missing:
        return _create_then_answer(broker, request, message, missing)
    # What stands before it in line may wait for a fail-over: only then is it known who leads.
    return DeferredResponse(lambda: _answer(broker, request, message, {}))


def _creatable(broker: Node, message: MetadataRequest) -> list[str]:
    """The topics of the request that may be created on the way, if any: most requests have none."""
    if not message.topics or not message.allow_auto_topic_creation or not broker.auto_create_topics:
        return []
    known = broker.image.topics_by_name
    return [
        topic.name
        for topic in message.topics
        if topic.name is not None and topic.name not in known and topic_name_problem(topic.name) is None
    ]


async def _create_then_answer(
    broker: Node, request: Request, message: MetadataRequest, missing: list[str]
) -> Message:
    """Unlike Kafka we create first and answer then, so that the first try of a producer succeeds."""
    refused = await broker.topic_creator.create(missing)
    return _answer(broker, request, message, refused)


def _answer(broker: Node, request: Request, message: MetadataRequest, refused: dict[str, int]) -> Message:
    image = broker.image
    shown = nodes(image, request.listener.name, broker.recent_brokers.is_recent)
    if refused or not _is_long(image, message):
        return _build(broker, request, message, refused, shown)
    gone = [broker_id for broker_id in image.brokers if broker.replicas.is_gone(broker_id)]
    question = (
        request.version,
        request.listener.name,
        message.include_topic_authorized_operations,
        message.include_cluster_authorized_operations,
        None if message.topics is None else tuple([(each.topic_id, each.name) for each in message.topics]),
    )
    answers = broker.metadata_answers
    known = answers.find((broker.image_offset, shown, gone), question)
    if known is not None:
        return known
    return answers.keep(question, _build(broker, request, message, refused, shown), request.version)


def _is_long(image: ClusterImage, message: MetadataRequest) -> bool:
    """Could the answer be worth keeping? Most requests name a few topics with a few partitions."""
    if not message.topics:
        return len(image.topics_by_id) >= LONG_ANSWER
    total = 0
    for asked in message.topics:
        topic = image.topics_by_id.get(asked.topic_id) or image.topics_by_name.get(asked.name or "")
        if topic is None:
            return False  # nobody asks for it twice
        total += len(topic.partitions)
    return total >= LONG_ANSWER


def _build(
    broker: Node,
    request: Request,
    message: MetadataRequest,
    refused: dict[str, int],
    shown: list[ReachableBroker],
) -> MetadataResponse:
    answer = MetadataResponse(
        cluster_id=broker.cluster_id,
        controller_id=any_live_node(shown, broker.node_id),
        brokers=[
            MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in shown
        ],
        topics=_topics(broker, request, message, refused),
    )
    if message.include_topic_authorized_operations:
        for topic in answer.topics:
            if not topic.error_code:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    asked_cluster = message.include_cluster_authorized_operations
    answer.cluster_authorized_operations = CLUSTER_OPERATIONS if asked_cluster else NOT_ASKED
    return answer


def _topics(
    broker: Node, request: Request, message: MetadataRequest, refused: dict[str, int]
) -> list[MetadataResponseTopic]:
    image = broker.image
    view = PartitionView(image, request.listener.name, broker.replicas.is_gone)
    version = request.version
    if message.topics is None or (not message.topics and version == 0):
        return [_topic(view, topic, version) for topic in image.topics_by_name.values()]
    found = []
    # Naming a topic again must not have it described again: answers would outgrow requests a thousandfold.
    for topic_id, asked_name in dict.fromkeys((asked.topic_id, asked.name) for asked in message.topics):
        if topic_id != ZERO_UUID:
            topic = image.topics_by_id.get(topic_id)
            missing = MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID,
                name=None if version >= 12 else "",
                topic_id=topic_id,
            )
        else:
            name = asked_name or ""
            topic = image.topics_by_name.get(name)
            bad_name = topic is None and topic_name_problem(name) is not None
            code = ErrorCode.INVALID_TOPIC_EXCEPTION if bad_name else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            missing = MetadataResponseTopic(error_code=refused.get(name, code), name=name)
        found.append(missing if topic is None else _topic(view, topic, version))
    return found


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
    if error == ErrorCode.LISTENER_NOT_FOUND and version < FIRST_VERSION_WITH_LISTENER_NOT_FOUND:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    answer = MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=view.offline_replicas(partition),
    )
    if version == 0:
        _hide_the_dead(view, answer)
    return answer


def _hide_the_dead(view: PartitionView, answer: MetadataResponsePartition) -> None:
    """The first clients cannot stand a replica that is not among the brokers they are told of."""
    replicas = [each for each in answer.replica_nodes if view.is_live(each)]
    if len(replicas) < len(answer.replica_nodes) and not answer.error_code:
        answer.error_code = ErrorCode.REPLICA_NOT_AVAILABLE
    answer.replica_nodes = replicas
    answer.isr_nodes = [each for each in answer.isr_nodes if view.is_live(each)]
