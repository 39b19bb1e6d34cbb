"""DescribeProducers (61): the producers of partitions that this broker leads, and their open transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.declaration import ApiDeclaration
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_producers_request import DescribeProducersRequest
from ottla.protocol.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request
    from ottla.broker.replicas.partition_table import PartitionTable


class DescribeProducers:
    def __init__(self, partitions: PartitionTable) -> None:
        self._partitions = partitions

    def handle(self, request: Request, message: DescribeProducersRequest) -> DescribeProducersResponse:
        return DescribeProducersResponse(
            topics=[
                TopicResponse(
                    name=topic.name,
                    partitions=[self._describe(topic.name, index) for index in topic.partition_indexes],
                )
                for topic in message.topics
            ]
        )

    def _describe(self, topic: str, index: int) -> PartitionResponse:
        partition = self._partitions.by_name(topic, index)
        if partition is None:
            return PartitionResponse(
                partition_index=index, error_code=self._partitions.missing_error(topic, index)
            )
        if not partition.is_leader:
            return PartitionResponse(partition_index=index, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            entries = partition.log.producer_state.entries.values()
        except StorageError:
            return PartitionResponse(partition_index=index, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
        return PartitionResponse(
            partition_index=index,
            active_producers=[
                ProducerState(
                    producer_id=entry.producer_id,
                    producer_epoch=entry.producer_epoch,
                    last_sequence=entry.last_sequence,
                    last_timestamp=entry.last_timestamp,
                    coordinator_epoch=entry.coordinator_epoch,
                    current_txn_start_offset=entry.current_txn_first_offset,
                )
                for entry in entries
            ],
        )


def create(parts: ApiParts) -> Handler:
    return DescribeProducers(parts.partitions).handle


API = ApiDeclaration(ApiKey.DESCRIBE_PRODUCERS, create)
