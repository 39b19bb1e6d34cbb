"""ListOffsets (2): the offset at a time, or at one of the named places of a log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from ottla.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node
    from ottla.broker.replicas.partition import Partition

API_KEY = 2
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = (
    -1,
    -2,
    -3,
    -4,
    -5,
    -6,
)
# A version that does not know a special timestamp yet must not get an answer to it.
FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
FIRST_VERSION_WITH_LEADER_EPOCH = 4
FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5
READ_COMMITTED = 1
CONSUMER = -1
DEBUG_CONSUMER = -2

log = logging.getLogger("ottla.list_offsets")


def handle(broker: Node, request: Request, message: ListOffsetsRequest) -> ListOffsetsResponse:
    seen: set[tuple[str, int]] = set()
    twice: set[tuple[str, int]] = set()
    for topic in message.topics:
        for asked in topic.partitions:
            key = (topic.name, asked.partition_index)
            (twice if key in seen else seen).add(key)
    answer = ListOffsetsResponse()
    for topic in message.topics:
        results = []
        for asked in topic.partitions:
            if (topic.name, asked.partition_index) in twice:
                results.append(_error(asked, ErrorCode.INVALID_REQUEST))
            else:
                results.append(_find(broker, request.version, message, topic.name, asked))
        answer.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=results))
    return answer


def _find(
    broker: Node, version: int, message: ListOffsetsRequest, topic: str, asked: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    if asked.timestamp < 0 and version < FIRST_VERSION.get(asked.timestamp, 0):
        return _error(asked, ErrorCode.UNSUPPORTED_VERSION)
    if asked.timestamp < EARLIEST_PENDING_UPLOAD:
        return _error(asked, ErrorCode.INVALID_REQUEST)
    partition = broker.partitions.by_name(topic, asked.partition_index)
    if partition is None:
        return _error(asked, broker.why_not_hosted(topic, asked.partition_index))
    is_client = message.replica_id < 0
    if not partition.is_leader and message.replica_id != DEBUG_CONSUMER:
        return _error(asked, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    wrong_epoch = partition.check_leader_epoch(asked.current_leader_epoch)
    if wrong_epoch:
        return _error(asked, wrong_epoch)
    leader = partition.leader
    if (
        is_client
        and leader is not None
        and not leader.offsets_are_settled
        and _needs_settled(asked.timestamp)
    ):
        # A former leader may have told more than this one knows to be committed: wait for it.
        new_error = version >= FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE
        return _error(asked, ErrorCode.OFFSET_NOT_AVAILABLE if new_error else ErrorCode.LEADER_NOT_AVAILABLE)
    try:
        offset, timestamp = _offset(partition, message, asked.timestamp)
    except StorageError as error:
        log.error("lookup failed: partition=%s-%d error=%s", topic, asked.partition_index, error)
        return _error(asked, ErrorCode.KAFKA_STORAGE_ERROR)
    if offset < 0:
        return ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    epoch = partition.log.leader_epochs.epoch_for_offset(offset)
    if asked.timestamp == LATEST:
        epoch = partition.leader_epoch
    if version < FIRST_VERSION_WITH_LEADER_EPOCH:
        epoch = -1
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


def _needs_settled(timestamp: int) -> bool:
    return timestamp >= 0 or timestamp in (LATEST, MAX_TIMESTAMP)


def _offset(partition: Partition, message: ListOffsetsRequest, timestamp: int) -> tuple[int, int]:
    """(offset, timestamp); the offset is -1 where there is none, the timestamp where it has no meaning."""
    upper = partition.log.log_end_offset
    if message.replica_id in (CONSUMER, DEBUG_CONSUMER):
        read_committed = message.isolation_level == READ_COMMITTED
        upper = partition.last_stable_offset if read_committed else partition.high_watermark
    if timestamp == LATEST:
        return upper, -1
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return partition.log.log_start_offset, -1
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return -1, -1  # nothing is tiered, nothing will be
    if timestamp == MAX_TIMESTAMP:
        found = partition.log.max_timestamp_offset()
        if found is not None and found.offset >= upper:
            found = None  # not committed yet
    else:
        found = partition.log.offset_for_timestamp(timestamp, upper)
    return (-1, -1) if found is None else (found.offset, found.timestamp)


def _error(asked: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code)
