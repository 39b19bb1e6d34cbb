"""`read_arrow`: topics as Arrow record batches, straight from the wire into columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.blocking.cluster import SyncCluster, shared_cluster
from ottla.client.blocking.fetch_range import FetchedBatch, FetchOptions, FetchRange
from ottla.client.core.consumer_state import CorruptRecordsError
from ottla.client.core.offsets import EARLIEST, LATEST, OffsetAt
from ottla.client.errors import broker_error
from ottla.client.options import ClientOptions
from ottla.protocol.errors import ErrorCode
from ottla.records import arrow as columns_of
from ottla.records.batch import CorruptBatch, RecordsError
from ottla.records.compression import Scratch

ROWS_PER_BATCH = 10_000
# An Arrow column ends at 2 GB, and consumers want rows before that.
BYTES_PER_BATCH = 32 * 1024 * 1024

READ_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("timestamp_type", pa.int32(), nullable=False),
        pa.field("headers", columns_of.SCHEMA.field("headers").type, nullable=False),
    ]
)

# "earliest" or "beginning", "latest" or "end", an offset, or the first record at or after a point in time.
Position = str | int | datetime
Positions = Position | Mapping[int, Position]


class OffsetRange(NamedTuple):
    """Offsets from `start` up to, but not including, `end` of one partition."""

    topic: str
    partition: int
    start: int
    end: int


def read_arrow(
    topic: str,
    start: Positions = "earliest",
    end: Positions = "latest",
    *,
    bootstrap_servers: str | Sequence[str] = "localhost:9092",
    partitions: Iterable[int] | None = None,
    columns: Sequence[str] | None = None,
    read_committed: bool = True,
    rows_per_batch: int = ROWS_PER_BATCH,
    options: ClientOptions | None = None,
) -> pa.RecordBatchReader:
    """The records of a topic between two positions as a stream of Arrow record batches.

        table = read_arrow("orders", bootstrap_servers="localhost:9092").read_all()
        for batch in read_arrow("orders", start=datetime(2026, 1, 1, tzinfo=UTC), columns=["key", "offset"]):
            ...

    `start` and `end` are for all partitions, or a mapping from partition to position; `end` is exclusive and
    is looked up once, at the call. Partitions come one after the other, each in the order of its offsets.
    Columns: key, value, topic, partition, offset, timestamp (ms, UTC), timestamp_type (0 set by the producer,
    1 by the broker), headers. Offsets may have gaps, from compaction and transactions. Options beyond the
    address are given by `options`, which then has the address too.
    """
    cluster = shared_cluster(options if options is not None else ClientOptions(_joined(bootstrap_servers)))
    schema = _narrowed(columns)
    ranges = resolve_ranges(cluster, topic, start, end, partitions=partitions, read_committed=read_committed)
    fetch = FetchOptions(read_committed=read_committed)
    batches = (
        batch
        for span in ranges
        for batch in read_range(cluster, span, fetch, columns=schema.names, rows_per_batch=rows_per_batch)
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


def read_range(
    cluster: SyncCluster,
    span: OffsetRange,
    fetch: FetchOptions | None = None,
    *,
    columns: Sequence[str] | None = None,
    rows_per_batch: int = ROWS_PER_BATCH,
) -> Iterator[pa.RecordBatch]:
    """One range as record batches with `READ_SCHEMA`, or with these columns of it."""
    shape = _Shape(span.topic, span.partition, _narrowed(columns))
    source = FetchRange(cluster, span.topic, span.partition, span.start, span.end, fetch)
    scratch = Scratch()
    for batches in source:
        for group in _groups(batches, rows_per_batch):
            rows = _decoded(group, span, scratch)
            # Slices of equal size: a small remainder would cost a batch of its own.
            pieces = max(1, round(rows.num_rows / rows_per_batch))
            step = -(-rows.num_rows // pieces) or 1
            for at in range(0, rows.num_rows, step):
                yield shape.apply(rows.slice(at, step))


def _groups(batches: list[FetchedBatch], rows_per_batch: int) -> Iterator[list[FetchedBatch]]:
    """Batches in groups of about `rows_per_batch` rows."""
    group: list[FetchedBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        group.append(batch)
        rows += batch.header.records_count
        size_bytes += batch.header.size_bytes
        if rows >= rows_per_batch or size_bytes >= BYTES_PER_BATCH:
            yield group
            group, rows, size_bytes = [], 0, 0
    if group:
        yield group


def _decoded(group: list[FetchedBatch], span: OffsetRange, scratch: Scratch) -> pa.RecordBatch:
    first, last = group[0], group[-1]
    from_offset = span.start if first.header.base_offset < span.start else None
    try:
        rows = columns_of.headed_to_arrow(group, from_offset=from_offset, scratch=scratch)
    except (CorruptBatch, RecordsError) as error:
        raise CorruptRecordsError(
            f"topic {span.topic!r} partition {span.partition} from offset {first.header.base_offset}: {error}"
        ) from error
    if last.header.last_offset >= span.end:
        # Offsets increase, so rows after the range are at the end.
        rows = rows.slice(0, pc.sum(pc.less(rows.column("offset"), span.end)).as_py() or 0)
    return rows


class _Shape:
    """Adds topic and partition to decoded rows and picks columns; constant columns are built once."""

    def __init__(self, topic: str, partition: int, schema: pa.Schema) -> None:
        self._schema = schema
        self._values = {
            "topic": pa.scalar(topic, pa.string()),
            "partition": pa.scalar(partition, pa.int32()),
        }
        self._constants: dict[str, pa.Array] = {}

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            self._constant(name, rows.num_rows) if name in self._values else rows.column(name)
            for name in self._schema.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _constant(self, name: str, rows: int) -> pa.Array:
        array = self._constants.get(name)
        if array is None or len(array) < rows:
            array = self._constants[name] = pa.repeat(self._values[name], max(rows, ROWS_PER_BATCH))
        return array.slice(0, rows)


def _narrowed(columns: Sequence[str] | None) -> pa.Schema:
    if columns is None:
        return READ_SCHEMA
    unknown = [name for name in columns if name not in READ_SCHEMA.names]
    if unknown or not columns:
        raise ValueError(f"columns={list(columns)!r}: choose some of {', '.join(READ_SCHEMA.names)}")
    return pa.schema([READ_SCHEMA.field(name) for name in columns])


def _joined(servers: str | Sequence[str]) -> str:
    return servers if isinstance(servers, str) else ",".join(servers)


# Where ranges begin and end.


def resolve_ranges(
    cluster: SyncCluster,
    topic: str,
    start: Positions,
    end: Positions,
    *,
    partitions: Iterable[int] | None = None,
    read_committed: bool = True,
) -> list[OffsetRange]:
    """Offsets for both positions in each partition; empty ranges are left out."""
    info = cluster.topic(topic, fresh=True)
    chosen = sorted(info.partitions) if partitions is None else list(dict.fromkeys(partitions))
    for partition in chosen:
        if partition not in info.partitions:
            raise broker_error(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                topic=topic,
                partition=partition,
                detail=f"the topic has partitions 0 to {len(info.partitions) - 1}",
            )
    first = _offsets(cluster, topic, chosen, start, "start", "earliest", read_committed)
    last = _offsets(cluster, topic, chosen, end, "end", "latest", read_committed)
    return [OffsetRange(topic, p, first[p], last[p]) for p in chosen if first[p] < last[p]]


def _offsets(
    cluster: SyncCluster,
    topic: str,
    partitions: Sequence[int],
    positions: Positions,
    what: str,
    otherwise: Position,
    read_committed: bool,
) -> dict[int, int]:
    wanted_ms: dict[tuple[str, int], int] = {}
    found: dict[int, int] = {}
    for partition in partitions:
        position = positions.get(partition, otherwise) if isinstance(positions, Mapping) else positions
        wanted = _wanted(position, what)
        if wanted[0] == "offset":
            found[partition] = wanted[1]
        else:
            wanted_ms[topic, partition] = wanted[1]
    answers: dict[tuple[str, int], OffsetAt] = {}
    if wanted_ms:
        answers = cluster.list_offsets(wanted_ms, read_committed=read_committed)
    # There is no later record: the position is the end.
    too_late = [key for key, at in answers.items() if at.offset < 0]
    if too_late:
        answers.update(cluster.list_offsets(dict.fromkeys(too_late, LATEST), read_committed=read_committed))
    found.update({partition: at.offset for (_, partition), at in answers.items()})
    return found


def _wanted(position: Position, what: str) -> tuple[str, int]:
    if position in ("earliest", "beginning"):
        return "time", EARLIEST
    if position in ("latest", "end"):
        return "time", LATEST
    if isinstance(position, datetime):
        return "time", round(position.timestamp() * 1000)  # without a zone it is local time, as in Python
    if isinstance(position, int) and not isinstance(position, bool) and position >= 0:
        return "offset", position
    raise ValueError(f"{what}={position!r}: expected 'earliest', 'latest', an offset or a datetime")
