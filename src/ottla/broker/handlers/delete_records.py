"""DeleteRecords (21): moves the start of a log forward; what lies below is gone for every reader at once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsRequest
from ottla.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.connection import Request

API_KEY = 21
TO_HIGH_WATERMARK = -1

log = logging.getLogger("ottla.delete_records")


def handle(broker: Broker, request: Request, message: DeleteRecordsRequest) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_delete(broker, topic.name, asked) for asked in topic.partitions]
            )
            for topic in message.topics
        ]
    )


def _delete(broker: Broker, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1)
    partition = broker.partitions.by_name(topic, asked.partition_index)
    if partition is None:
        result.error_code = broker.why_not_hosted(topic, asked.partition_index)
        return result
    offset = partition.high_watermark if asked.offset == TO_HIGH_WATERMARK else asked.offset
    if not partition.log.config.cleanup_delete:
        # A compacted log's beginning belongs to the cleaner.
        result.error_code = ErrorCode.POLICY_VIOLATION
    elif not 0 <= offset <= partition.high_watermark:
        result.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
    else:
        try:
            partition.log.advance_log_start_offset(offset)
            result.low_watermark = partition.log.log_start_offset
        except StorageError as error:
            log.error("delete records failed: partition=%s-%d error=%s", topic, asked.partition_index, error)
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return result
