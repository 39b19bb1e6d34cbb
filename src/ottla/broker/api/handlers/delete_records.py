"""DeleteRecords (21): moves the start of a log forward; what lies below is gone for every reader at once.

It is answered when the living followers have moved theirs as well: none of them could bring the records back
as a leader.
"""

from __future__ import annotations

import asyncio
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
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node
    from ottla.broker.replicas.partition import Partition

API_KEY = 21
TO_HIGH_WATERMARK = -1

log = logging.getLogger("ottla.delete_records")


def handle(
    broker: Node, request: Request, message: DeleteRecordsRequest
) -> DeleteRecordsResponse | asyncio.Future[DeleteRecordsResponse]:
    deletion = _Deletion(broker)
    answer = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[deletion.begin(topic.name, asked) for asked in topic.partitions]
            )
            for topic in message.topics
        ]
    )
    return deletion.when_done(answer, message.timeout_ms) if deletion.waiting else answer


class _Deletion:
    """The partitions of one request, and which of them wait for followers."""

    def __init__(self, broker: Node) -> None:
        self._broker = broker
        self.waiting: list[tuple[Partition, int, DeleteRecordsPartitionResult]] = []
        self._answer: DeleteRecordsResponse
        self._done: asyncio.Future[DeleteRecordsResponse]

    def begin(self, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        broker = self._broker
        result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1)
        partition = broker.partitions.by_name(topic, asked.partition_index)
        if partition is None:
            result.error_code = broker.why_not_hosted(topic, asked.partition_index)
            return result
        if not partition.is_leader:
            result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
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
                self._settle(partition, offset, result)
            except StorageError as error:
                log.error(
                    "delete records failed: partition=%s-%d error=%s", topic, asked.partition_index, error
                )
                result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result

    def _settle(self, partition: Partition, offset: int, result: DeleteRecordsPartitionResult) -> None:
        """Answer for the partition if all who count have deleted the records."""
        low_watermark = partition.low_watermark(self._broker.replicas.is_alive)
        if low_watermark < offset:
            self.waiting.append((partition, offset, result))
            partition.when_low_watermark_moves(self._look)
        else:
            result.low_watermark = low_watermark

    def when_done(
        self, answer: DeleteRecordsResponse, timeout_ms: int
    ) -> asyncio.Future[DeleteRecordsResponse]:
        loop = asyncio.get_running_loop()
        self._answer = answer
        self._done = loop.create_future()
        timer = loop.call_later(max(0, timeout_ms) / 1000, self._time_is_up)
        self._done.add_done_callback(lambda _: timer.cancel())
        return self._done

    def _look(self) -> None:
        if self._done.done():
            return
        waiting, self.waiting = self.waiting, []
        for partition, offset, result in waiting:
            if partition.deleted or not partition.is_leader:
                result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                self._settle(partition, offset, result)
        if not self.waiting:
            self._done.set_result(self._answer)

    def _time_is_up(self) -> None:
        if not self._done.done():
            for _, _, result in self.waiting:
                result.error_code = ErrorCode.REQUEST_TIMED_OUT
            self._done.set_result(self._answer)
