"""The commit topic: reading the latest marker of a query, and appending markers with fencing."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ottla.client import (
    EARLIEST,
    LATEST,
    ArrowWriter,
    ClusterOptions,
    ProducerId,
    SyncCluster,
    SyncTransactions,
    shared_cluster,
)
from ottla.client.blocking.arrow_read import OffsetRange, read_range
from ottla.client.blocking.fetch_range import FetchOptions
from ottla.client.errors import BrokerError, TopicExistsError, raise_for
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.create_topics_response import CreateTopicsResponse
from pyspark_ottla.sink.exactly_once.marker import Marker

# Always partition 0, even if the topic has more: readers look nowhere else.
PARTITION = 0
REPLICAS_MAX = 3
CREATE_TIMEOUT_MS = 30_000
CONFIGS = {
    "cleanup.policy": "compact",
    "unclean.leader.election.enable": "false",
    # Small segments compact soon: a query reads the topic when it starts.
    "segment.bytes": str(16 * 1024 * 1024),
    "segment.ms": str(24 * 3600 * 1000),
}
# Before compression: transactional ids compress to about a tenth.
MARKER_BYTES_MAX = 8_000_000
# The topic is searched backwards: a query that ran recently has its marker near the end.
FIRST_SEARCH_RECORDS = 256
SEARCH_GROWTH = 16
# Coordinators expire an unused transactional id after a week, and with it the epoch that fences other
# drivers.
FENCE_AGE_MAX_S = 12 * 3600.0
REFUSED = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
)


# No driver has this epoch: coordinators change the producer id before.
EPOCH_MAX = 2**15 - 1


class FencedError(Exception):
    """Another driver of the query has fenced this one and may have appended markers."""


class CommitLog:
    """The commit topic of a cluster."""

    def __init__(self, cluster: SyncCluster, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic

    def create(self) -> None:
        """Create the topic if it does not exist."""
        if self.topic in self.cluster.existing_topics([self.topic]):
            return
        replicas = max(1, min(REPLICAS_MAX, len(self.cluster.view.nodes)))
        configs = dict(CONFIGS)
        if replicas == REPLICAS_MAX:
            configs["min.insync.replicas"] = "2"
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=self.topic,
                    num_partitions=1,
                    replication_factor=replicas,
                    configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
                )
            ],
            timeout_ms=CREATE_TIMEOUT_MS,
        )

        def attempt() -> None:
            (row,) = self.cluster.ask_any(request, CreateTopicsResponse).topics
            raise_for(row.error_code, topic=self.topic, detail=row.error_message or None)

        with contextlib.suppress(TopicExistsError):  # another query created it
            self.cluster.retrying(attempt)
        self.cluster.topic(self.topic, create=True, fresh=True)

    def last(self, key: str) -> Marker | None:
        """Return the latest marker of a query, or None."""
        return decoded(self.last_values([key]).get(key))

    def end(self) -> int:
        partition = (self.topic, PARTITION)
        return self.cluster.list_offsets({partition: LATEST})[partition].offset

    def last_values(
        self, keys: Sequence[str], start: int | None = None, end: int | None = None
    ) -> dict[str, bytes]:
        """Return the latest value of each key in a range of offsets, by default in the whole log.

        The value is empty if a tombstone deleted the key.
        """
        if self.topic not in self.cluster.existing_topics([self.topic]):
            return {}
        partition = (self.topic, PARTITION)
        if start is None:
            start = self.cluster.list_offsets({partition: EARLIEST})[partition].offset
        if end is None:
            end = self.end()
        found: dict[str, bytes] = {}
        size = FIRST_SEARCH_RECORDS
        while end > start and len(found) < len(keys):
            begin = max(start, end - size)
            found = self._last_between([key for key in keys if key not in found], begin, end) | found
            end, size = begin, size * SEARCH_GROWTH
        return found

    def _last_between(self, keys: Sequence[str], start: int, end: int) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        wanted = pa.array([key.encode() for key in keys], pa.binary())
        span = OffsetRange(self.topic, PARTITION, start, end)
        fetch = FetchOptions(read_committed=False)
        for rows in read_range(self.cluster, span, fetch, columns=["key", "value"]):
            matches = rows.filter(pc.is_in(rows.column("key"), value_set=wanted))
            for key, value in zip(
                matches.column("key").to_pylist(), matches.column("value").to_pylist(), strict=True
            ):
                found[key.decode()] = value or b""
        return found


def decoded(value: bytes | None) -> Marker | None:
    return Marker.decode(value) if value else None


class MarkerWriter:
    """Appends the markers of one query, until another driver of the query fences it.

    Fencing uses a producer epoch: the first record with a new epoch makes the partition leader refuse all
    older epochs, so every marker of other drivers is before that record in the log. Epochs are those of one
    producer id, and a coordinator changes the id when its epochs are used up, or after a week without use.
    Therefore each driver records its producer id when it takes over, and the next driver, if it has another
    id, first writes under the old one with the highest epoch.
    """

    def __init__(self, log: CommitLog, key: str) -> None:
        self.log = log
        self.key = key
        self.pid = os.getpid()
        # The run of the query whose leftover transactions were listed last, and when.
        self.swept_run: str | None = None
        self.swept_at_s = float("-inf")
        self._taken = f"{key}#taken"
        self._producer = ProducerId(-1, -1)
        self._writer: ArrowWriter | None = None
        self._marker: Marker | None = None
        self._fenced_at_s = 0.0

    def marker(self, *, fence: bool = False) -> Marker | None:
        """Return the latest marker; if another driver appends one later, `append` raises FencedError."""
        if fence or self._writer is None or time.monotonic() - self._fenced_at_s > FENCE_AGE_MAX_S:
            self._fence_others()
        return self._marker

    def _fence_others(self) -> None:
        self._writer = None
        self.log.create()
        cluster = self.log.cluster
        handle = SyncTransactions(cluster).init(f"ottla-spark-commit/{self.key}")
        before_end = self.log.end()
        before = self.log.last_values([self.key, self._taken], end=before_end)
        self._producer = ProducerId(handle.producer_id, handle.producer_epoch)
        previous = taken_by(before.get(self._taken))
        if previous is not None and previous.id != self._producer.id:
            with self._new_writer(ProducerId(previous.id, EPOCH_MAX)) as old:
                self._append(old, self._taken, self._taken_value())
        writer = self._new_writer(self._producer)
        self._append(writer, self._taken, self._taken_value())
        end = writer.written.end_offsets[self.log.topic, PARTITION]
        since = self.log.last_values([self.key], before_end, end)
        self._marker = decoded((before | since).get(self.key))
        self._writer, self._fenced_at_s = writer, time.monotonic()

    def _new_writer(self, producer: ProducerId) -> ArrowWriter:
        return ArrowWriter(
            self.log.cluster,
            self.log.topic,
            identity=producer,
            compression="gzip",
            record_bytes_max=MARKER_BYTES_MAX,
        )

    def _taken_value(self) -> bytes:
        return b"%d %d %d" % (time.time(), *self._producer)

    def append(self, marker: Marker) -> None:
        """Append a marker and wait for all in-sync replicas. Raises FencedError if it was refused."""
        assert self._writer is not None, "marker() is called before append()"
        self._append(self._writer, self.key, marker.encode())
        self._marker = marker

    def check_not_fenced(self) -> None:
        """Raise FencedError if another driver has fenced this one."""
        assert self._writer is not None, "marker() is called before check_not_fenced()"
        self._append(self._writer, self._taken, self._taken_value())

    def _append(self, writer: ArrowWriter, key: str, value: bytes) -> None:
        rows = {"key": [key.encode()], "value": [value], "partition": pa.array([PARTITION], pa.int32())}
        try:
            writer.write(pa.record_batch(rows))
            writer.flush()
        except BaseException as error:
            # The record may or may not be in the log: the next call of marker() fences first and reads it.
            self._writer = None
            writer.close()
            if isinstance(error, BrokerError) and error.code in REFUSED:
                raise FencedError(f"query {self.key}: {error}") from error
            raise


def taken_by(value: bytes | None) -> ProducerId | None:
    """Return the producer id in a record of a takeover; None before there was one, and in old records."""
    fields = (value or b"").split()
    return ProducerId(int(fields[1]), int(fields[2])) if len(fields) == 3 else None


_marker_writers: dict[tuple[ClusterOptions, str, str], MarkerWriter] = {}


def marker_writer(options: ClusterOptions, topic: str, key: str) -> MarkerWriter:
    """Return the writer of this process; it is reused, because fencing takes several requests."""
    cached = (options, topic, key)
    found = _marker_writers.get(cached)
    if found is None or found.pid != os.getpid():
        found = _marker_writers[cached] = MarkerWriter(CommitLog(shared_cluster(options), topic), key)
    return found
