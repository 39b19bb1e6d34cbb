"""ListOffsets (2): the offset at a timestamp, or the first, last or another special offset of a log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.api.declaration import ApiDeclaration
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from ottla.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.versions import (
    LIST_OFFSETS_EARLIEST_LOCAL_SINCE,
    LIST_OFFSETS_EARLIEST_PENDING_UPLOAD_SINCE,
    LIST_OFFSETS_LATEST_TIERED_SINCE,
    LIST_OFFSETS_LEADER_EPOCH_SINCE,
    LIST_OFFSETS_MAX_TIMESTAMP_SINCE,
    LIST_OFFSETS_OFFSET_NOT_AVAILABLE_SINCE,
)
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.replicas.partition_table import PartitionTable

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = (
    -1,
    -2,
    -3,
    -4,
    -5,
    -6,
)
# A version that does not define a special timestamp must not get an offset for it.
FIRST_VERSION = {
    MAX_TIMESTAMP: LIST_OFFSETS_MAX_TIMESTAMP_SINCE,
    EARLIEST_LOCAL: LIST_OFFSETS_EARLIEST_LOCAL_SINCE,
    LATEST_TIERED: LIST_OFFSETS_LATEST_TIERED_SINCE,
    EARLIEST_PENDING_UPLOAD: LIST_OFFSETS_EARLIEST_PENDING_UPLOAD_SINCE,
}
READ_COMMITTED = 1
CONSUMER = -1
DEBUG_CONSUMER = -2

log = logging.getLogger("ottla.list_offsets")


class ListOffsets:
    def __init__(self, partitions: PartitionTable) -> None:
        self._partitions = partitions

    def handle(self, request: Request, message: ListOffsetsRequest) -> ListOffsetsResponse:
        seen: set[tuple[str, int]] = set()
        repeated: set[tuple[str, int]] = set()
        for topic in message.topics:
            for requested in topic.partitions:
                key = (topic.name, requested.partition_index)
                (repeated if key in seen else seen).add(key)
        response = ListOffsetsResponse()
        for topic in message.topics:
            results = []
            for requested in topic.partitions:
                if (topic.name, requested.partition_index) in repeated:
                    results.append(_error(requested, ErrorCode.INVALID_REQUEST))
                else:
                    results.append(self._find(request.version, message, topic.name, requested))
            response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=results))
        return response

    def _find(
        self, version: int, message: ListOffsetsRequest, topic: str, requested: ListOffsetsPartition
    ) -> ListOffsetsPartitionResponse:
        if requested.timestamp < 0 and version < FIRST_VERSION.get(requested.timestamp, 0):
            return _error(requested, ErrorCode.UNSUPPORTED_VERSION)
        if requested.timestamp < EARLIEST_PENDING_UPLOAD:
            return _error(requested, ErrorCode.INVALID_REQUEST)
        partition = self._partitions.by_name(topic, requested.partition_index)
        if partition is None:
            return _error(requested, self._partitions.missing_error(topic, requested.partition_index))
        if not partition.is_leader and message.replica_id != DEBUG_CONSUMER:
            return _error(requested, partition.not_leading)
        wrong_epoch = partition.check_leader_epoch(requested.current_leader_epoch)
        if wrong_epoch:
            return _error(requested, wrong_epoch)
        leader = partition.leader
        is_client = message.replica_id < 0
        unsettled = is_client and leader is not None and not leader.offsets_are_settled
        if unsettled and _needs_settled(requested.timestamp):
            # A former leader may have returned an offset above this high watermark: the client retries.
            new_error = version >= LIST_OFFSETS_OFFSET_NOT_AVAILABLE_SINCE
            code = ErrorCode.OFFSET_NOT_AVAILABLE if new_error else ErrorCode.LEADER_NOT_AVAILABLE
            return _error(requested, code)
        try:
            offset, timestamp = _offset(partition, message, requested.timestamp)
        except StorageError as error:
            log.error("lookup failed: partition=%s-%d error=%s", topic, requested.partition_index, error)
            return _error(requested, ErrorCode.KAFKA_STORAGE_ERROR)
        if offset < 0:
            return ListOffsetsPartitionResponse(partition_index=requested.partition_index)
        epoch = partition.log.leader_epochs.epoch_for_offset(offset)
        if requested.timestamp == LATEST:
            epoch = partition.leader_epoch
        if version < LIST_OFFSETS_LEADER_EPOCH_SINCE:
            epoch = -1
        return ListOffsetsPartitionResponse(
            partition_index=requested.partition_index, timestamp=timestamp, offset=offset, leader_epoch=epoch
        )


def _needs_settled(timestamp: int) -> bool:
    return timestamp >= 0 or timestamp in (LATEST, MAX_TIMESTAMP)


def _offset(partition: Partition, message: ListOffsetsRequest, timestamp: int) -> tuple[int, int]:
    """(offset, timestamp): the offset is -1 if there is none, the timestamp if it has no meaning."""
    upper = partition.log.log_end_offset
    if message.replica_id in (CONSUMER, DEBUG_CONSUMER):
        read_committed = message.isolation_level == READ_COMMITTED
        upper = partition.last_stable_offset if read_committed else partition.high_watermark
    if timestamp == LATEST:
        return upper, -1
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return partition.log.log_start_offset, -1
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return -1, -1  # nothing is tiered
    if timestamp == MAX_TIMESTAMP:
        found = partition.log.max_timestamp_offset()
        if found is not None and found.offset >= upper:
            found = None  # not committed yet
    else:
        found = partition.log.offset_for_timestamp(timestamp, upper)
    return (-1, -1) if found is None else (found.offset, found.timestamp)


def _error(requested: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=requested.partition_index, error_code=code)


def create(parts: ApiParts) -> Handler:
    return ListOffsets(parts.partitions).handle


API = ApiDeclaration(ApiKey.LIST_OFFSETS, create)
