"""Writes transaction markers to partitions that this broker leads (WriteTxnMarkers)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.replicas.pending_commits import PendingCommits
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest
from ottla.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from ottla.records.batch import RecordsError
from ottla.records.control import end_txn_marker
from ottla.storage.errors import StorageError
from ottla.transactions.partition import check_marker

if TYPE_CHECKING:
    from ottla.broker.coordinators.hosted_shards import HostedShards
    from ottla.broker.coordinators.replies import Reply
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.replicas.partition_table import PartitionTable
    from ottla.groups.shard import GroupShard

# Later requests on the connection wait for this response: the coordinator retries what takes longer.
COMMIT_TIMEOUT_MS = 5000

log = logging.getLogger("ottla.coordinators")


class MarkerWriter:
    """`group_shards` must know of the markers in their partitions."""

    def __init__(
        self, partitions: PartitionTable, group_shards: HostedShards[GroupShard], clock: Callable[[], int]
    ) -> None:
        self._partitions = partitions
        self._group_shards = group_shards
        self._clock = clock

    def write(self, message: WriteTxnMarkersRequest) -> Reply[WriteTxnMarkersResponse]:
        """Return the response; a future of it if a marker is not committed yet."""
        response = WriteTxnMarkersResponse()
        pending = PendingCommits(response)
        for marker in message.markers:
            result = WritableTxnMarkerResult(producer_id=marker.producer_id)
            response.markers.append(result)
            for topic in marker.topics:
                partitions = [
                    self._write(marker, topic.name, index, pending) for index in topic.partition_indexes
                ]
                result.topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions))
        return pending.future(COMMIT_TIMEOUT_MS) if pending else response

    def _write(
        self,
        marker: WritableTxnMarker,
        topic: str,
        index: int,
        pending: PendingCommits[WriteTxnMarkersResponse],
    ) -> WritableTxnMarkerPartitionResult:
        result = WritableTxnMarkerPartitionResult(partition_index=index)
        partition = self._partitions.by_name(topic, index)
        if partition is None:
            result.error_code = self._partitions.missing_error(topic, index)
            return result
        try:
            partition.check_append(acks_all=True)
            result.error_code = self._append(partition, marker)
        except RecordsError as error:
            result.error_code = error.code
        except StorageError as error:
            log.error("marker not written: partition=%s-%d error=%s", topic, index, error)
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        if not result.error_code:
            pending.add(partition, partition.log.log_end_offset, result)
        return result

    def _append(self, partition: Partition, marker: WritableTxnMarker) -> ErrorCode:
        producer_id, producer_epoch = marker.producer_id, marker.producer_epoch
        entry = partition.log.producer_state.entries.get(producer_id)
        code = check_marker(entry, producer_epoch, marker.coordinator_epoch, marker.transaction_version)
        if code:
            return code
        now_ms = self._clock()
        batch = end_txn_marker(
            producer_id,
            producer_epoch,
            commit=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp_ms=now_ms,
        )
        is_group_partition = partition.topic == self._group_shards.topic
        shard = self._group_shards.by_index(partition.index) if is_group_partition else None
        if shard is not None and shard.partition is partition:
            shard.append_marker(batch, producer_id, marker.transaction_result)
        else:
            partition.append_internal(batch, now_ms)
        if partition.verification_guards is not None:
            partition.verification_guards.ended(producer_id, producer_epoch)
        return ErrorCode.NONE
