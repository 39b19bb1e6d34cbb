"""The commit topic: the last marker of each query, and the right to write the next."""

from __future__ import annotations

import contextlib
import os
import time

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

# Always this one, however many there are: a marker that is looked for in another place would not be found.
PARTITION = 0
REPLICAS_MAX = 3
CREATE_TIMEOUT_MS = 30_000
CONFIGS = {
    "cleanup.policy": "compact",
    "unclean.leader.election.enable": "false",
    # What a query reads when it starts, so it is kept short.
    "segment.bytes": str(16 * 1024 * 1024),
    "segment.ms": str(24 * 3600 * 1000),
}
# Before compression: transactional ids are alike, and shrink to a tenth of it.
MARKER_BYTES_MAX = 8_000_000
# Backwards from the end: a query that ran lately has its marker there.
FIRST_LOOK_RECORDS = 256
NEXT_LOOK_FACTOR = 16
# Coordinators forget an id that was not used for a week, and with it the epochs by which others are refused.
FENCE_AGE_MAX_S = 12 * 3600.0
REFUSED = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
)


class FencedError(Exception):
    """Somebody else has taken over the right to decide, and may have decided."""


class CommitLog:
    def __init__(self, cluster: SyncCluster, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic

    def create(self) -> None:
        """Create the topic if it is not there."""
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

        with contextlib.suppress(TopicExistsError):  # another query was faster
            self.cluster.retrying(attempt)
        self.cluster.topic(self.topic, create=True, fresh=True)

    def last(self, key: str, end: int | None = None) -> Marker | None:
        """The newest marker of a query before `end` (None: up to now); None if it has none."""
        if self.topic not in self.cluster.existing_topics([self.topic]):
            return None
        place = (self.topic, PARTITION)
        start = self.cluster.list_offsets({place: EARLIEST})[place].offset
        if end is None:
            end = self.cluster.list_offsets({place: LATEST})[place].offset
        size = FIRST_LOOK_RECORDS
        while end > start:
            begin = max(start, end - size)
            found = self._last_between(key.encode(), begin, end)
            if found is not None:
                return Marker.decode(found) if found else None
            end, size = begin, size * NEXT_LOOK_FACTOR
        return None

    def _last_between(self, key: bytes, start: int, end: int) -> bytes | None:
        """The newest value under a key; empty if it was deleted by a null."""
        found = None
        span = OffsetRange(self.topic, PARTITION, start, end)
        fetch = FetchOptions(read_committed=False)
        for rows in read_range(self.cluster, span, fetch, columns=["key", "value"]):
            matches = rows.filter(pc.equal(rows.column("key"), pa.scalar(key, pa.binary())))
            if matches.num_rows:
                found = matches.column("value")[matches.num_rows - 1].as_py() or b""
        return found


class MarkerWriter:
    """The right to decide on the batches of one query, held until somebody else takes it.

    It is an epoch of a producer: the first record under a new one makes the leader refuse all older ones, and
    whatever is before that record in the log is all that others have decided.
    """

    def __init__(self, log: CommitLog, key: str) -> None:
        self.log = log
        self.key = key
        self.pid = os.getpid()
        # Runs of the query whose leftovers were looked for, and when that was last done.
        self.swept_run: str | None = None
        self.swept_at_s = float("-inf")
        self._writer: ArrowWriter | None = None
        self._marker: Marker | None = None
        self._taken_at_s = 0.0

    def marker(self, *, fence: bool = False) -> Marker | None:
        """What was decided last; nobody else decides from here on without us noticing."""
        if fence or self._writer is None or time.monotonic() - self._taken_at_s > FENCE_AGE_MAX_S:
            self._fence_others()
        return self._marker

    def _fence_others(self) -> None:
        self._writer = None
        self.log.create()
        cluster = self.log.cluster
        handle = SyncTransactions(cluster).init(f"ottla-spark-commit/{self.key}")
        identity = ProducerId(handle.producer_id, handle.producer_epoch)
        writer = ArrowWriter(
            cluster,
            self.log.topic,
            identity=identity,
            compression="gzip",
            record_bytes_max=MARKER_BYTES_MAX,
        )
        self._append(writer, f"{self.key}#taken", b"%d" % time.time())
        end = writer.written.end_offsets[self.log.topic, PARTITION]
        self._marker = self.log.last(self.key, end)
        self._writer, self._taken_at_s = writer, time.monotonic()

    def append(self, marker: Marker) -> None:
        """Returns when it is on all replicas. Raises FencedError if it is not, and never will be."""
        assert self._writer is not None, "look at the marker first"
        self._append(self._writer, self.key, marker.encode())
        self._marker = marker

    def _append(self, writer: ArrowWriter, key: str, value: bytes) -> None:
        rows = {"key": [key.encode()], "value": [value], "partition": pa.array([PARTITION], pa.int32())}
        try:
            writer.write(pa.record_batch(rows))
            writer.flush()
        except BaseException as error:
            # Whether the record is there is not known: who asks next takes over first.
            self._writer = None
            writer.close()
            if isinstance(error, BrokerError) and error.code in REFUSED:
                raise FencedError(f"query {self.key}: {error}") from error
            raise


_marker_writers: dict[tuple[ClusterOptions, str, str], MarkerWriter] = {}


def marker_writer(options: ClusterOptions, topic: str, key: str) -> MarkerWriter:
    """The one of this process: to take over takes a few requests, to go on none."""
    place = (options, topic, key)
    found = _marker_writers.get(place)
    if found is None or found.pid != os.getpid():
        found = _marker_writers[place] = MarkerWriter(CommitLog(shared_cluster(options), topic), key)
    return found
