"""DeleteRecords (21): advance the log start offset; readers lose the records below it at once.

The response waits until the live followers have advanced theirs, so that none of them can bring the records
back as leader.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.broker.api.declaration import ApiDeclaration
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsRequest
from ottla.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.replicas.partition_table import PartitionTable

TO_HIGH_WATERMARK = -1

log = logging.getLogger("ottla.delete_records")


class DeleteRecords:
    def __init__(
        self,
        partitions: PartitionTable,
        is_alive: Callable[[int], bool],
    ) -> None:
        self.partitions = partitions
        self.is_alive = is_alive

    def handle(
        self, request: Request, message: DeleteRecordsRequest
    ) -> DeleteRecordsResponse | asyncio.Future[DeleteRecordsResponse]:
        deletion = _Deletion(self)
        response = DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name=topic.name,
                    partitions=[deletion.delete(topic.name, wanted) for wanted in topic.partitions],
                )
                for topic in message.topics
            ]
        )
        return deletion.when_done(response, message.timeout_ms) if deletion.waiting else response


def create(parts: ApiParts) -> Handler:
    return DeleteRecords(parts.partitions, parts.replicas.is_alive).handle


class _Deletion:
    """The partitions of one request, and those that wait for followers."""

    def __init__(self, context: DeleteRecords) -> None:
        self._context = context
        self.waiting: list[tuple[Partition, int, DeleteRecordsPartitionResult]] = []
        self._watched: set[Partition] = set()
        self._response: DeleteRecordsResponse
        self._done: asyncio.Future[DeleteRecordsResponse]
        self._timer: asyncio.TimerHandle

    def delete(self, topic: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        context = self._context
        result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1)
        partition = context.partitions.by_name(topic, wanted.partition_index)
        if partition is None:
            result.error_code = context.partitions.missing_error(topic, wanted.partition_index)
            return result
        if not partition.is_leader:
            result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return result
        offset = partition.high_watermark if wanted.offset == TO_HIGH_WATERMARK else wanted.offset
        if not partition.log.config.cleanup_delete:
            # Only the cleaner moves the start of a compacted log.
            result.error_code = ErrorCode.POLICY_VIOLATION
        elif not 0 <= offset <= partition.high_watermark:
            result.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            try:
                partition.log.advance_log_start_offset(offset)
                self._finish(partition, offset, result)
            except StorageError as error:
                log.error(
                    "delete records failed: partition=%s-%d error=%s", topic, wanted.partition_index, error
                )
                result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result

    def _finish(self, partition: Partition, offset: int, result: DeleteRecordsPartitionResult) -> None:
        """Complete the result of the partition if all live followers have deleted the records."""
        low_watermark = partition.low_watermark(self._context.is_alive)
        if low_watermark < offset:
            self.waiting.append((partition, offset, result))
            self._watched.add(partition)
            partition.when_low_watermark_moves(self._recheck)
        else:
            result.low_watermark = low_watermark

    def when_done(
        self, response: DeleteRecordsResponse, timeout_ms: int
    ) -> asyncio.Future[DeleteRecordsResponse]:
        loop = asyncio.get_running_loop()
        self._response = response
        self._done = loop.create_future()
        self._timer = loop.call_later(max(0, timeout_ms) / 1000, self._time_out)
        self._done.add_done_callback(self._release)
        return self._done

    def _release(self, _: asyncio.Future[DeleteRecordsResponse]) -> None:
        """Done, timed out, or the client has left."""
        self._timer.cancel()
        for partition in self._watched:
            partition.forget_low_watermark_waiter(self._recheck)

    def _recheck(self) -> None:
        if self._done.done():
            return
        waiting, self.waiting = self.waiting, []
        for partition, offset, result in waiting:
            if partition.deleted or not partition.is_leader:
                result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                self._finish(partition, offset, result)
        if not self.waiting:
            self._done.set_result(self._response)

    def _time_out(self) -> None:
        if not self._done.done():
            for _, _, result in self.waiting:
                result.error_code = ErrorCode.REQUEST_TIMED_OUT
            self._done.set_result(self._response)


API = ApiDeclaration(ApiKey.DELETE_RECORDS, create)
