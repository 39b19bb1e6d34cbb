"""OffsetForLeaderEpoch (23): the end offset of a leader epoch, by which a reader detects divergence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.declaration import ApiDeclaration
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from ottla.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request
    from ottla.broker.replicas.partition_table import PartitionTable


class OffsetForLeaderEpoch:
    def __init__(self, partitions: PartitionTable) -> None:
        self._partitions = partitions

    def handle(self, request: Request, message: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[self._end_offset(topic.topic, wanted) for wanted in topic.partitions],
                )
                for topic in message.topics
            ]
        )

    def _end_offset(self, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
        partition = self._partitions.by_name(topic, wanted.partition)
        if partition is None:
            code = self._partitions.missing_error(topic, wanted.partition)
            return EpochEndOffset(error_code=code, partition=wanted.partition)
        if not partition.is_leader:
            return EpochEndOffset(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, partition=wanted.partition)
        wrong_epoch = partition.check_leader_epoch(wanted.current_leader_epoch)
        if wrong_epoch:
            return EpochEndOffset(error_code=wrong_epoch, partition=wanted.partition)
        log = partition.log
        if wanted.leader_epoch == partition.leader_epoch:
            epoch, end_offset = wanted.leader_epoch, log.log_end_offset
        else:
            epoch, end_offset = log.leader_epochs.end_offset_for(wanted.leader_epoch, log.log_end_offset)
        return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)


def create(parts: ApiParts) -> Handler:
    return OffsetForLeaderEpoch(parts.partitions).handle


API = ApiDeclaration(ApiKey.OFFSET_FOR_LEADER_EPOCH, create)
