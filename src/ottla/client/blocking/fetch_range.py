"""Fetches one range of offsets of one partition, one response ahead, and returns whole record batches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from ottla.client.blocking.cluster import SyncCluster
from ottla.client.blocking.connection import ReceiveMemory, SyncConnection
from ottla.client.core.aborted import AbortedTransactions
from ottla.client.core.consumer_state import CorruptRecordsError
from ottla.client.core.offsets import EARLIEST, LATEST
from ottla.client.core.retry import Backoff
from ottla.client.errors import (
    BrokerError,
    ClientError,
    OffsetOutOfRangeError,
    RequestTimeoutError,
    broker_error,
    raise_for,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.fetch_response import FetchResponse, PartitionData
from ottla.protocol.versions import FETCH_TOPIC_IDS_SINCE
from ottla.records.batch import BatchHeader, Buffer, CorruptBatch, RecordsError, crc_ok, iter_headers

READ_COMMITTED = 1
# Brokers may not know a new topic yet; one that is missing for longer than this was deleted.
MISSING_TOPIC_MAX_S = 5.0
MISSING = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class FetchOptions(NamedTuple):
    """Fetch options; the defaults suit bulk reads."""

    read_committed: bool = True
    # One megabyte is cut off after few large batches; measured, 4 MB costs the least CPU per byte.
    partition_max_bytes: int = 4 * 1024 * 1024
    fetch_max_bytes: int = 50 * 1024 * 1024
    max_wait_ms: int = 500
    min_bytes: int = 1
    check_crcs: bool = True
    # How long a range may make no progress before its reader fails.
    poll_timeout_ms: float = 120_000


class FetchedBatch(NamedTuple):
    """One record batch in the memory of a response: valid until the next response but one."""

    data: Buffer
    position: int
    header: BatchHeader


class FetchRange:
    """The batches of a partition with offsets in [start, end), in order.

    `position` is the offset up to which everything was returned. Control batches and, under
    read_committed, aborted transactions are left out. A range whose beginning is no longer in the log raises
    OffsetOutOfRangeError; one without progress for `poll_timeout_ms` raises RequestTimeoutError.
    """

    def __init__(
        self,
        cluster: SyncCluster,
        topic: str,
        partition: int,
        start: int,
        end: int,
        options: FetchOptions | None = None,
    ) -> None:
        self.cluster = cluster
        self.topic = topic
        self.partition = partition
        self.position = start
        self.end = end
        self.options = options if options is not None else FetchOptions()
        self._backoff: Backoff = cluster.backoff()
        self._moved_at_s = time.monotonic()
        self._missing_since_s: float | None = None
        self._aborted = AbortedTransactions()
        # Two, so that the next response can arrive while this one is decoded.
        self._memories = (ReceiveMemory(), ReceiveMemory())
        self._memory_index = 0
        self._epoch = -1

    def __iter__(self) -> Iterator[list[FetchedBatch]]:
        """The visible batches of one response at a time."""
        while self.position < self.end:
            try:
                leader = self.cluster.partition(self.topic, self.partition)
                self._epoch = leader.leader_epoch
                with self.cluster.connection_to(leader.leader) as connection:
                    yield from self._from(connection)
            except ClientError as error:
                self._pause_or_raise(error)

    def _from(self, connection: SyncConnection) -> Iterator[list[FetchedBatch]]:
        self._send(connection)
        while True:
            row = self._receive(connection)
            batches = self._take(row)
            if self.position >= self.end:
                if batches:
                    yield batches
                return
            self._send(connection)
            if batches:
                yield from self._until_consumed(batches, connection)
            elif (time.monotonic() - self._moved_at_s) * 1000 > self.options.poll_timeout_ms:
                raise self._no_progress(row)

    def _until_consumed(
        self, batches: list[FetchedBatch], connection: SyncConnection
    ) -> Iterator[list[FetchedBatch]]:
        """The time that the consumer takes for the batches counts neither as time-out nor as standstill."""
        began_s = time.monotonic()
        yield batches
        busy_s = time.monotonic() - began_s
        self._moved_at_s += busy_s
        connection.extend_deadlines(busy_s)

    def _send(self, connection: SyncConnection) -> None:
        info = self.cluster.topic(self.topic)
        options = self.options
        partition = FetchPartition(
            partition=self.partition,
            current_leader_epoch=self._epoch,
            fetch_offset=self.position,
            partition_max_bytes=options.partition_max_bytes,
        )
        request = FetchRequest(
            max_wait_ms=options.max_wait_ms,
            min_bytes=options.min_bytes,
            max_bytes=options.fetch_max_bytes,
            isolation_level=READ_COMMITTED if options.read_committed else 0,
            topics=[FetchTopic(topic=self.topic, topic_id=info.id, partitions=[partition])],
        )
        at_most = FETCH_TOPIC_IDS_SINCE - 1 if info.id == ZERO_UUID else None
        timeout_ms = options.max_wait_ms + self.cluster.options.request_timeout_ms
        connection.send(request, timeout_ms=timeout_ms, at_most=at_most)

    def _receive(self, connection: SyncConnection) -> PartitionData:
        self._memory_index ^= 1
        response = connection.receive(FetchResponse, self._memories[self._memory_index])
        raise_for(response.error_code, detail=f"{connection.address} refused the fetch")
        if len(response.responses) != 1 or len(response.responses[0].partitions) != 1:
            raise broker_error(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                topic=self.topic,
                partition=self.partition,
                detail="no response",
            )
        row = response.responses[0].partitions[0]
        detail = None
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            detail = f"offset {self.position} is not in the log"
        raise_for(row.error_code, topic=self.topic, partition=self.partition, detail=detail)
        self._missing_since_s = None
        return row

    def _take(self, row: PartitionData) -> list[FetchedBatch]:
        """The visible batches of a response; advances the position after it."""
        batches: list[FetchedBatch] = []
        data = row.records
        if data is None or not len(data):
            return batches
        self._aborted.update(row)
        position = self.position
        try:
            for at, header in iter_headers(data):
                if header.last_offset < position:
                    continue
                if header.base_offset >= self.end:
                    position = self.end
                    break
                if self.options.check_crcs and not crc_ok(data, at, header):
                    raise CorruptBatch(f"the checksum of the batch at {header.base_offset} does not match")
                hidden = self._aborted.hides(data, at, header) if self._must_look(header) else False
                if not hidden:
                    batches.append(FetchedBatch(data, at, header))
                position = header.next_offset
        except (CorruptBatch, RecordsError) as error:
            raise CorruptRecordsError(
                f"topic {self.topic!r} partition {self.partition} from offset {position}: {error}"
            ) from error
        if position > self.position:
            self.position = position
            self._moved_at_s = time.monotonic()
            self._backoff.reset()
        return batches

    def _must_look(self, header: BatchHeader) -> bool:
        return header.is_control or (self.options.read_committed and header.is_transactional)

    def _pause_or_raise(self, error: ClientError) -> None:
        """Wait before the next attempt; raise errors that are not retriable or last too long."""
        stalled_ms = (time.monotonic() - self._moved_at_s) * 1000
        if not error.retriable or stalled_ms > self.options.poll_timeout_ms:
            raise error
        if isinstance(error, BrokerError) and error.code in MISSING:
            now_s = time.monotonic()
            since_s = self._missing_since_s = self._missing_since_s or now_s
            if now_s - since_s > MISSING_TOPIC_MAX_S:
                raise error
        if not isinstance(error, BrokerError) or error.stale_metadata:
            self.cluster.view.expire(self.topic)
        time.sleep(self._backoff.next_ms() / 1000)

    def _no_progress(self, row: PartitionData) -> ClientError:
        where = f"topic {self.topic!r} partition {self.partition}"
        limit = row.last_stable_offset if self.options.read_committed else row.high_watermark
        if limit < self.end:
            what = "last stable offset" if self.options.read_committed else "high watermark"
            if limit <= row.log_start_offset or limit < self.position:
                return OffsetOutOfRangeError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    topic=self.topic,
                    partition=self.partition,
                    detail=f"offsets {self.position} to {self.end} are not in the log, which ends at {limit}",
                )
            return RequestTimeoutError(
                f"{where}: offset {self.position} could not be read within "
                f"{self.options.poll_timeout_ms:g} ms: the {what} is {limit}, the range ends at {self.end}"
            )
        return RequestTimeoutError(
            f"{where}: no records for offset {self.position} within {self.options.poll_timeout_ms:g} ms"
        )


def log_bounds(
    cluster: SyncCluster, topic: str, partition: int, *, read_committed: bool = True
) -> tuple[int, int]:
    """The first offset of a partition and the end of what can be read."""
    key = (topic, partition)
    first = cluster.list_offsets({key: EARLIEST})[key].offset
    return first, cluster.list_offsets({key: LATEST}, read_committed=read_committed)[key].offset
