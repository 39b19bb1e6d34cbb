"""`write_arrow`: Arrow tables to topics, with the Java client's choice of partitions."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.aio.producer import ACKS
from ottla.client.blocking.arrow_rows import dead_letters, fault_error, faults_of
from ottla.client.blocking.cluster import ClusterOptions, SyncCluster, shared_cluster
from ottla.client.blocking.deliverer import Deliverer, Identity, shown_key
from ottla.client.blocking.transactions import (
    TIMEOUT_MS,
    SyncTransactions,
    TransactionHandle,
)
from ottla.client.core.transaction_versions import PRODUCE_THAT_ADDS
from ottla.client.errors import BrokerError, ClientError
from ottla.records.arrow import RecordColumns
from ottla.records.compression import CODEC_BY_NAME
from ottla.records.partitions import partitions_of_keys

# Below the 1048588 bytes that topics take by default.
BATCH_BYTES = 1_000_000
RECORD_BYTES_MAX = 1_048_576
SEND_BYTES = 1_000_000
BUFFER_BYTES_MAX = 32_000_000
ROWS_PER_PART = 50_000


class Written(NamedTuple):
    """What was delivered; `end_offsets` has the offset after the last record for each (topic, partition)."""

    records: int
    batches: int
    size_bytes: int
    end_offsets: dict[tuple[str, int], int]


def write_arrow(
    table: Any,
    topic: str | None = None,
    *,
    bootstrap_servers: str | Sequence[str] = "localhost:9092",
    acks: int | str = "all",
    compression: str = "none",
    options: ClusterOptions | None = None,
) -> Written:
    """Write every row as a record and return when the brokers have them.

        write_arrow(pa.table({"key": keys, "value": values}), "orders", compression="zstd")

    `table` is a Table, RecordBatch, RecordBatchReader, an iterable of record batches, or anything that
    gives an Arrow stream (polars, pandas and DuckDB do). Columns: `value` (binary or string; null deletes in
    a compacted topic), and where they exist `key`, `headers` (list of key, value structs), `timestamp`,
    `partition`, and `topic`, which the argument overrides; others are ignored. Rows with a key go where the
    Java client would send them. With acks="all" the writer is idempotent: a retried batch is written once.
    """
    if options is None:
        servers = bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
        options = ClusterOptions(servers)
    with ArrowWriter(shared_cluster(options), topic, acks=acks, compression=compression) as writer:
        for batch in record_batches(table):
            writer.write(batch)
    return writer.written


def record_batches(table: Any) -> Iterator[pa.RecordBatch]:
    """The record batches of whatever holds some."""
    if isinstance(table, pa.RecordBatch):
        yield table
    elif isinstance(table, pa.Table):
        yield from table.to_batches()
    elif isinstance(table, pa.RecordBatchReader):
        yield from table
    elif hasattr(table, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(table)
    elif isinstance(table, Iterable):
        for part in table:
            if not isinstance(part, pa.RecordBatch):
                raise TypeError(f"expected Arrow record batches, found a {type(part).__name__}")
            yield part
    else:
        raise TypeError(f"expected an Arrow table or something that gives one, not {type(table).__name__}")


class ArrowWriter:
    """Writes record batches as they come; leaving the context delivers the rest, or gives it up on an error.

    With a `transactional_id` everything between `begin` and `commit` is seen by readers of committed data
    together or not at all. `prepare` instead of `commit` leaves the end to whoever has the handle that it
    returns (see `end_transactions`). What is still open when the context is left is aborted.

    Rows that no broker would take (too large, for a partition that is not there, with a null topic) raise an
    error that names the key of the first; with a `dead_letter_topic` they go there instead, with the headers
    `topic`, `partition` and `reason`.

    An `identity` is that of a producer whom the caller knows to be the only one with it.
    """

    def __init__(
        self,
        cluster: SyncCluster,
        topic: str | None = None,
        *,
        acks: int | str = "all",
        idempotent: bool | None = None,
        compression: str = "none",
        level: int | None = None,
        batch_bytes: int = BATCH_BYTES,
        record_bytes_max: int = RECORD_BYTES_MAX,
        delivery_timeout_ms: float = 120_000,
        identity: Identity | None = None,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = TIMEOUT_MS,
        dead_letter_topic: str | None = None,
    ) -> None:
        if str(acks) not in ACKS:
            raise ValueError(f"acks={acks!r}: expected 0, 1 or 'all'")
        if compression not in CODEC_BY_NAME:
            raise ValueError(f"compression={compression!r}: expected one of {', '.join(CODEC_BY_NAME)}")
        acks_code = ACKS[str(acks)]
        if (idempotent or identity is not None or transactional_id is not None) and acks_code != -1:
            raise ValueError(f"acks={acks!r}: an idempotent writer needs acks='all'")
        if transactional_id is not None and (idempotent is False or identity is not None):
            raise ValueError("a transactional writer is idempotent, and has an identity of its own")
        self.cluster = cluster
        self.topic = topic
        self.batch_bytes = batch_bytes
        self.record_bytes_max = record_bytes_max
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.dead_letter_topic = dead_letter_topic
        self.dead_letters = 0
        self._transactions = SyncTransactions(cluster)
        self._next: TransactionHandle | None = None
        self._open: TransactionHandle | None = None
        self._sticky: dict[str, int] = {}
        self._deliverer = Deliverer(
            cluster,
            acks=acks_code,
            idempotent=acks_code == -1 if idempotent is None else idempotent,
            delivery_timeout_ms=delivery_timeout_ms,
            codec=CODEC_BY_NAME[compression],
            level=level,
            identity=identity,
            reject=self._reject if dead_letter_topic is not None else None,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._open is not None:
                self._abort_at_the_end(error)
            elif error is None:
                self.flush()
        finally:
            self._deliverer.close()

    @property
    def written(self) -> Written:
        done = self._deliverer
        return Written(
            done.delivered_records, done.delivered_batches, done.delivered_bytes, dict(done.end_offsets)
        )

    def close(self) -> None:
        """Give up what is not delivered."""
        self._deliverer.give_up()

    def flush(self) -> None:
        """Return when the brokers have everything."""
        self._deliverer.flush()

    # Transactions.

    def begin(self) -> None:
        """From here on rows belong to a transaction."""
        if self.transactional_id is None:
            raise ValueError("only a writer with a transactional_id has transactions")
        if self._open is not None:
            raise ClientError(f"transactional id {self.transactional_id!r}: a transaction is open already")
        handle = self._next
        if handle is None:
            handle = self._transactions.init(self.transactional_id, self.transaction_timeout_ms)
        self._next, self._open = None, handle
        identity = Identity(handle.producer_id, handle.producer_epoch, handle.transactional_id)
        if handle.is_second_version:
            self._deliverer.begin(identity)
        else:
            self._deliverer.begin(
                identity,
                admit=lambda partitions: self._transactions.add_partitions(handle, partitions),
                version_max=PRODUCE_THAT_ADDS - 1,
            )

    def prepare(self, *, waits: bool = True) -> TransactionHandle:
        """Deliver everything and leave the transaction open: whoever has the handle may end it, anywhere.

        Where brokers have two-phase commit (KIP-939) it waits for that without a time-out, if it `waits`.
        """
        handle = self._open_handle()
        self.flush()
        if not self._deliverer.has_sent:
            raise ClientError(f"transactional id {self.transactional_id!r}: nothing was written to prepare")
        if waits:
            handle = self._transactions.keep(handle)
        self._open = None
        return handle

    def commit(self) -> None:
        """Deliver everything and show it to readers of committed data."""
        handle = self._open_handle()
        self.flush()
        self._end(handle, commit=True)

    def abort(self) -> None:
        """Nobody will read what was written since `begin`."""
        handle = self._open_handle()
        self._deliverer.give_up()
        self._end(handle, commit=False)
        self._next = None  # what was under way may have used up sequence numbers: begin anew

    def _open_handle(self) -> TransactionHandle:
        if self._open is None:
            raise ClientError(f"transactional id {self.transactional_id!r}: no transaction is open")
        return self._open

    def _end(self, handle: TransactionHandle, *, commit: bool) -> None:
        if not self._deliverer.has_sent:
            # The coordinator of the first version of the protocol has heard nothing of it.
            self._open, self._next = None, handle
            return
        result = self._transactions.end([handle], commit=commit)[handle]
        self._open = None
        if isinstance(result, BrokerError):
            raise result
        self._next = result

    def _abort_at_the_end(self, error: BaseException | None) -> None:
        try:
            self.abort()
        except ClientError:
            # It will time out; what went wrong first says more.
            if error is None:
                raise

    # Rows.

    def write(self, rows: pa.RecordBatch) -> None:
        """Encode and send; waits for answers only when enough is on its way."""
        if rows.num_rows == 0:
            return
        if self.transactional_id is not None:
            self._open_handle()
        rows = _checked(rows)
        # In small parts, so that all partitions get something early and brokers work while we encode.
        for at in range(0, rows.num_rows, ROWS_PER_PART):
            for topic, part in self._by_topic(rows.slice(at, ROWS_PER_PART)):
                self._write_to(topic, part)

    def _write_to(self, topic: str, rows: pa.RecordBatch) -> None:
        count = self._partition_count(topic, rows)
        faults = faults_of(rows, count, self.record_bytes_max)
        if faults:
            if self.dead_letter_topic is None:
                raise fault_error(topic, rows, faults)
            places = sorted(faults)
            self._bury(
                topic, rows.take(places), [f"{faults[row][0].name}: {faults[row][1]}" for row in places]
            )
            rows = rows.filter(pa.array([row not in faults for row in range(rows.num_rows)]))
        if rows.num_rows:
            self._send(topic, rows, count)

    def _reject(self, topic: str, partition: int, rows: pa.RecordBatch, reason: str) -> None:
        rows = rows.append_column("partition", pa.array([partition] * rows.num_rows, pa.int32()))
        self._bury(topic, rows, [reason] * rows.num_rows)

    def _bury(self, topic: str | None, rows: pa.RecordBatch, reasons: Sequence[str]) -> None:
        assert self.dead_letter_topic is not None
        if topic == self.dead_letter_topic:
            raise ValueError(f"topic {topic!r}: a dead letter cannot be written either: {reasons[0]}")
        letters = dead_letters(topic, rows, reasons)
        self.dead_letters += letters.num_rows
        count = self._partition_count(self.dead_letter_topic, letters)
        self._send(self.dead_letter_topic, letters, count)

    def _send(self, topic: str, rows: pa.RecordBatch, count: int) -> None:
        deliverer, now_ms = self._deliverer, time.time_ns() // 1_000_000
        chosen = self._chosen(topic, rows, count)
        if chosen is None:
            # Nothing binds the rows: a full batch to one partition, the next batch to the next.
            runs = [(-1, 0, rows.num_rows)]
        else:
            rows, runs = _by_partition(rows, chosen, count)
        columns = RecordColumns(rows, now_ms)
        for partition, start, stop in runs:
            for part in columns.lay_out(start, stop, self.batch_bytes):
                deliverer.add(topic, self._next_sticky(topic, count) if partition < 0 else partition, part)
                if deliverer.unsent_bytes >= SEND_BYTES:
                    deliverer.turn(waits=False)
                while deliverer.queued_bytes > BUFFER_BYTES_MAX:
                    deliverer.turn()

    # Where rows go.

    def _by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self.topic is not None:
            yield self.topic, rows
            return
        if "topic" not in rows.schema.names:
            raise ValueError("no topic: name one, or have a column 'topic'")
        column = rows.column("topic").cast(pa.string())
        if column.null_count:
            rows = self._without_null_topics(rows, column)
            column = column.drop_null()
        names = pc.unique(column)
        for name in names.to_pylist():
            yield name, rows if len(names) == 1 else rows.filter(pc.equal(column, name))

    def _without_null_topics(self, rows: pa.RecordBatch, column: pa.Array) -> pa.RecordBatch:
        nameless = rows.filter(column.is_null())
        if self.dead_letter_topic is None:
            key = nameless.column("key")[0].as_py() if "key" in rows.schema.names else None
            raise ValueError(
                f"the row with key {shown_key(key)} has a null topic: "
                "name a topic for all, or fill the column"
            )
        self._bury(None, nameless, ["the topic is null"] * nameless.num_rows)
        return rows.filter(column.is_valid())

    def _partition_count(self, topic: str, rows: pa.RecordBatch) -> int:
        count = len(self.cluster.topic(topic, create=True).partitions)
        if "partition" in rows.schema.names and (pc.max(rows.column("partition")).as_py() or 0) >= count:
            # The topic may have grown since we last asked.
            count = len(self.cluster.topic(topic, fresh=True).partitions)
        return count

    def _chosen(self, topic: str, rows: pa.RecordBatch, count: int) -> pa.Array | None:
        """The partition of each row, or None where no row has a partition or a key."""
        chosen = None
        if "key" in rows.schema.names and rows.column("key").null_count < rows.num_rows:
            chosen = partitions_of(rows.column("key"), count)
        if "partition" in rows.schema.names and rows.column("partition").null_count < rows.num_rows:
            given = rows.column("partition").cast(pa.int32())
            chosen = given if chosen is None else pc.coalesce(given, chosen)
        if chosen is not None and chosen.null_count:
            chosen = chosen.fill_null(self._next_sticky(topic, count))
        return chosen

    def _next_sticky(self, topic: str, count: int) -> int:
        last = self._sticky.get(topic)
        chosen = random.randrange(count) if last is None else (last + 1) % count
        self._sticky[topic] = chosen
        return chosen


def _by_partition(
    rows: pa.RecordBatch, chosen: pa.Array, count: int
) -> tuple[pa.RecordBatch, list[tuple[int, int, int]]]:
    """The rows, those of a partition side by side, and (partition, start, stop) of each."""
    if count == 1:
        return rows, [(0, 0, rows.num_rows)]
    order = pc.sort_indices(chosen)  # a stable sort: rows of a partition keep their order
    runs = pc.run_end_encode(chosen.take(order))
    ends = runs.run_ends.to_pylist()
    return rows.take(order), list(zip(runs.values.to_pylist(), [0, *ends[:-1]], ends, strict=True))


def partitions_of(keys: pa.Array, partition_count: int) -> pa.Array:
    """The partition of each key as the Java client chooses it; null where the key is null."""
    if keys.type != pa.binary():
        keys = keys.cast(pa.binary())
    out: Any = pa.allocate_buffer(4 * len(keys))
    validity, offsets, data = keys.buffers()
    column = (validity, offsets, data if data is not None else b"", keys.offset, len(keys))
    partitions_of_keys(column, partition_count, memoryview(out))
    found = pa.Array.from_buffers(pa.int32(), len(keys), [None, out], 0)
    return pc.if_else(pc.is_valid(keys), found, None) if keys.null_count else found


def _checked(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Only the columns that make a record; key and value as binary. Raises TypeError or ValueError."""
    if "value" not in rows.schema.names:
        raise ValueError(f"there is no column 'value' among {rows.schema.names}")
    arrays: dict[str, pa.Array] = {}
    for name in ("key", "value", "headers", "timestamp", "partition", "topic"):
        if name not in rows.schema.names:
            continue
        array = rows.column(name)
        if name in ("key", "value"):
            array = _binary(name, array)
        arrays[name] = array
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _binary(name: str, array: pa.Array) -> pa.Array:
    kind = array.type
    if kind == pa.binary():
        return array
    types = pa.types
    if (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_large_binary(kind)
        or types.is_null(kind)
    ):
        return array.cast(pa.binary())
    if types.is_string_view(kind) or types.is_binary_view(kind) or types.is_fixed_size_binary(kind):
        return array.cast(pa.binary())
    raise TypeError(f"column {name!r} is {kind}: encode it as binary or string first")
