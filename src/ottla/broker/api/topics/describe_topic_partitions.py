"""DescribeTopicPartitions (75): topics in detail, in pages of bounded size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.authorized_operations import TOPIC_OPERATIONS
from ottla.broker.api.cluster_view import PartitionView, topic_name_problem
from ottla.broker.api.declaration import ApiDeclaration
from ottla.controller.topics.names import INTERNAL_TOPICS
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from ottla.protocol.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request
    from ottla.controller.image.cluster import ClusterImage
    from ottla.controller.image.parts import PartitionImage, TopicImage


def create(parts: ApiParts) -> Handler:
    metadata, limit = parts.metadata, parts.config.get_int("max.request.partition.size.limit")
    return lambda request, message: describe(metadata.image, limit, request, message)


def describe(
    image: ClusterImage, limit: int, request: Request, message: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    names = sorted({topic.name for topic in message.topics} or image.topics_by_name)
    first_index = 0
    if message.cursor is not None:
        names = [name for name in names if name >= message.cursor.topic_name]
        if names and names[0] == message.cursor.topic_name:
            first_index = max(0, message.cursor.partition_index)
    left = min(message.response_partition_limit, limit) if message.response_partition_limit > 0 else limit
    response = DescribeTopicPartitionsResponse()
    view = PartitionView(image, request.listener.name)
    for name in names:
        if left <= 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topics_by_name.get(name)
        if topic is None:
            response.topics.append(_missing(name))
            continue
        indexes = [index for index in sorted(topic.partitions) if index >= first_index]
        response.topics.append(_describe(view, topic, indexes[:left]))
        if len(indexes) > left:
            response.next_cursor = Cursor(topic_name=name, partition_index=indexes[left])
            break
        left -= len(indexes)
        first_index = 0
    return response


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    bad = topic_name_problem(name) is not None
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if bad else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name)


def _describe(
    view: PartitionView, topic: TopicImage, indexes: list[int]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(view, index, topic.partitions[index]) for index in indexes],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(
    view: PartitionView, index: int, partition: PartitionImage
) -> DescribeTopicPartitionsResponsePartition:
    leader, error = view.leader(partition)
    return DescribeTopicPartitionsResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=view.offline_replicas(partition),
    )


API = ApiDeclaration(ApiKey.DESCRIBE_TOPIC_PARTITIONS, create)
