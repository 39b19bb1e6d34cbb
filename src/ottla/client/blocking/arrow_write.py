"""`write_arrow`: Arrow tables to topics, with the Java client's choice of partitions."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.blocking.arrow_batch import shown_key
from ottla.client.blocking.arrow_delivery import ArrowDelivery
from ottla.client.blocking.arrow_rows import dead_letters, fault_error, faults_of
from ottla.client.blocking.cluster import SyncCluster, shared_cluster
from ottla.client.core.batches import ProducerId
from ottla.client.core.cluster import no_such_partition
from ottla.client.core.partitioner import custom_partition
from ottla.client.core.transaction_api import TransactionApi, TransactionHandle
from ottla.client.core.transactions import COMMITTING, Transactions
from ottla.client.errors import ClientError, TransactionFailedError
from ottla.client.options import ClientOptions, Partitioner
from ottla.records.arrow import RecordColumns
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
    acks: int | str | None = None,
    compression: str | None = None,
    partitioner: Partitioner | None = None,
    options: ClientOptions | None = None,
) -> Written:
    """Write every row as a record and return when the brokers have them.

        write_arrow(pa.table({"key": keys, "value": values}), "orders", compression="zstd")

    `table` is a Table, RecordBatch, RecordBatchReader, an iterable of record batches, or anything that
    exports an Arrow stream (polars, pandas and DuckDB do). Columns: `value` (binary or string; null deletes
    in a compacted topic), and where they exist `key`, `headers` (list of key, value structs), `timestamp`,
    `partition`, and `topic`, which the argument overrides; others are ignored. Rows with a key go where the
    Java client would send them, or where `partitioner(topic, key, partition_count)` says. With acks="all"
    (the default) the writer is idempotent: a retried batch is written once. `options`, if given, also has the
    address.
    """
    if options is None:
        servers = bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
        options = ClientOptions(servers)
    with ArrowWriter(
        shared_cluster(options),
        topic,
        options=options,
        acks=acks,
        compression=compression,
        partitioner=partitioner,
    ) as writer:
        for batch in record_batches(table):
            writer.write(batch)
    return writer.written


def record_batches(table: Any) -> Iterator[pa.RecordBatch]:
    """The record batches of a table, a stream or an iterable."""
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
        raise TypeError(f"expected an Arrow table or stream, not {type(table).__name__}")


class ArrowWriter:
    """Writes record batches as they come; leaving the context delivers the rest, or drops it on an error.

    With a `transactional_id` everything between `begin` and `commit` is seen by readers of committed records
    together or not at all. `prepare` instead of `commit` leaves the end to the process that gets the handle
    which it returns (see `end_transactions`). What is still open when the context is left is aborted.

    Rows that no broker would take (too large, for a partition that does not exist, with a null topic) raise
    an error that names the key of the first; with a `dead_letter_topic` they go there instead, with the
    headers `topic`, `partition` and `reason`.

    An `identity` is a producer id that only this writer has. Other keyword arguments are fields of
    `ClientOptions`; a `partitioner` is called for each row that has no partition.
    """

    def __init__(
        self,
        cluster: SyncCluster,
        topic: str | None = None,
        *,
        options: ClientOptions | None = None,
        acks: int | str | None = None,
        idempotent: bool | None = None,
        compression: str | None = None,
        level: int | None = None,
        batch_bytes: int | None = None,
        record_bytes_max: int = RECORD_BYTES_MAX,
        delivery_timeout_ms: float | None = None,
        partitioner: Partitioner | None = None,
        identity: ProducerId | None = None,
        transactional_id: str | None = None,
        transaction_timeout_ms: int | None = None,
        dead_letter_topic: str | None = None,
    ) -> None:
        options = (cluster.options if options is None else options).changed(
            acks=acks,
            idempotent=idempotent,
            compression=compression,
            compression_level=level,
            batch_bytes=batch_bytes,
            delivery_timeout_ms=delivery_timeout_ms,
            partitioner=partitioner,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
        )
        if identity is not None and options.acks_code != -1:
            raise ValueError(f"acks={options.acks!r}: an idempotent writer needs acks='all'")
        if identity is not None and options.transactional_id is not None:
            raise ValueError("identity: a transactional writer gets its identity from the coordinator")
        self.cluster = cluster
        self.topic = topic
        self.options = options
        self.batch_bytes = BATCH_BYTES if options.batch_bytes is None else options.batch_bytes
        self.record_bytes_max = record_bytes_max
        self.dead_letter_topic = dead_letter_topic
        self.dead_letters = 0
        self._transactions: Transactions | None = None
        if options.transactional_id is not None:
            self._transactions = Transactions(
                TransactionApi(cluster.core), options.transactional_id, options.transaction_timeout_ms
            )
        self._sticky: dict[str, int] = {}
        self._delivery = ArrowDelivery(
            cluster,
            options,
            self.batch_bytes,
            producer=identity,
            transactions=self._transactions,
            reject=self._reject if dead_letter_topic is not None else None,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._transactions is not None and self._transactions.has_open:
                self._abort_at_the_end(error)
            elif error is None:
                self.flush()
        finally:
            self._delivery.close()

    @property
    def written(self) -> Written:
        done = self._delivery
        return Written(
            done.delivered_records, done.delivered_batches, done.delivered_bytes, dict(done.end_offsets)
        )

    def close(self) -> None:
        """Drop what is not delivered, without waiting for responses."""
        self._delivery.close()
        self._delivery.drop_all(ClientError("the writer was closed"))

    def flush(self) -> None:
        """Return when the brokers have everything."""
        self._delivery.flush()

    # Transactions.

    def _transactional(self) -> Transactions:
        if self._transactions is None:
            raise ValueError("transactions need an id: create the writer with transactional_id=...")
        return self._transactions

    def begin(self) -> None:
        """Write all rows in a transaction from here on."""
        self.cluster.run(self._transactional().begin())

    def prepare(self, *, waits: bool = True) -> TransactionHandle:
        """Deliver everything and leave the transaction open: any process that has the handle may end it.

        Where brokers have two-phase commit (KIP-939) it has no time-out from here on, if it `waits`.
        """
        self._transactional().check_begun()
        self.flush()
        return self.cluster.run(self._transactional().hand_over(waits=waits))

    def commit(self) -> None:
        """Deliver everything and show it to readers of committed records."""
        transactions = self._transactional()
        if transactions.state != COMMITTING:
            transactions.check_begun()
            self.flush()
            transactions.check_open()
        self.cluster.run(transactions.end(commit=True))

    def abort(self) -> None:
        """Drop or abort everything that was written since `begin`."""
        transactions = self._transactional()
        transactions.check_abortable()
        error = TransactionFailedError("the transaction was aborted")
        transactions.fail(error, sequence_is_lost=False)
        self._delivery.drop_all(error)
        self.cluster.run(transactions.end(commit=False))

    def _abort_at_the_end(self, error: BaseException | None) -> None:
        try:
            self.abort()
        except ClientError:
            # It will time out; the first error says more.
            if error is None:
                raise

    # Rows.

    def write(self, rows: pa.RecordBatch) -> None:
        """Encode and send; waits for responses only when enough is in flight."""
        if rows.num_rows == 0:
            return
        if self._transactions is not None:
            self._transactions.check_open()
        rows = _checked(rows)
        # In small parts, so that all partitions get rows early and brokers work while we encode.
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
            self._dead_letter(
                topic, rows.take(places), [f"{faults[row][0].name}: {faults[row][1]}" for row in places]
            )
            rows = rows.filter(pa.array([row not in faults for row in range(rows.num_rows)]))
        if rows.num_rows:
            self._send(topic, rows, count)

    def _reject(self, topic: str, partition: int, rows: pa.RecordBatch, reason: str) -> None:
        rows = rows.append_column("partition", pa.array([partition] * rows.num_rows, pa.int32()))
        self._dead_letter(topic, rows, [reason] * rows.num_rows)

    def _dead_letter(self, topic: str | None, rows: pa.RecordBatch, reasons: Sequence[str]) -> None:
        assert self.dead_letter_topic is not None
        if topic == self.dead_letter_topic:
            raise ValueError(f"topic {topic!r}: a dead letter cannot be written: {reasons[0]}")
        letters = dead_letters(topic, rows, reasons)
        self.dead_letters += letters.num_rows
        count = self._partition_count(self.dead_letter_topic, letters)
        self._send(self.dead_letter_topic, letters, count)

    def _send(self, topic: str, rows: pa.RecordBatch, count: int) -> None:
        delivery, now_ms = self._delivery, time.time_ns() // 1_000_000
        chosen = self._chosen(topic, rows, count)
        if chosen is None:
            # Rows without partition and key: a full batch to one partition, the next batch to the next.
            runs = [(-1, 0, rows.num_rows)]
        else:
            rows, runs = _by_partition(rows, chosen, count)
        columns = RecordColumns(rows, now_ms)
        for partition, start, stop in runs:
            for part in columns.lay_out(start, stop, self.batch_bytes):
                delivery.add(topic, self._next_sticky(topic, count) if partition < 0 else partition, part)
                if delivery.unsent_bytes >= SEND_BYTES:
                    delivery.advance(waits=False)
                while delivery.queued_bytes > BUFFER_BYTES_MAX:
                    delivery.advance()

    # Partitions.

    def _by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self.topic is not None:
            yield self.topic, rows
            return
        if "topic" not in rows.schema.names:
            raise ValueError("no topic: pass one, or have a column 'topic'")
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
                "pass a topic for all rows, or fill the column"
            )
        self._dead_letter(None, nameless, ["the topic is null"] * nameless.num_rows)
        return rows.filter(column.is_valid())

    def _partition_count(self, topic: str, rows: pa.RecordBatch) -> int:
        count = len(self.cluster.topic(topic, create=True).partitions)
        if "partition" in rows.schema.names and (pc.max(rows.column("partition")).as_py() or 0) >= count:
            # Partitions may have been added.
            count = len(self.cluster.topic(topic, fresh=True).partitions)
        return count

    def _chosen(self, topic: str, rows: pa.RecordBatch, count: int) -> pa.Array | None:
        """The partition of each row, or None where no row has a partition or a key."""
        chosen = None
        if self.options.partitioner is not None:
            chosen = self._custom(self.options.partitioner, topic, rows, count)
        if "key" in rows.schema.names and rows.column("key").null_count < rows.num_rows:
            by_key = partitions_of(rows.column("key"), count)
            chosen = by_key if chosen is None else pc.coalesce(chosen, by_key)
        if "partition" in rows.schema.names and rows.column("partition").null_count < rows.num_rows:
            given = rows.column("partition").cast(pa.int32())
            chosen = given if chosen is None else pc.coalesce(given, chosen)
        if chosen is not None and chosen.null_count:
            chosen = chosen.fill_null(self._next_sticky(topic, count))
        return chosen

    def _custom(
        self, partitioner: Partitioner, topic: str, rows: pa.RecordBatch, count: int
    ) -> pa.Array | None:
        """The choice of the user's partitioner; None where it leaves all rows to the default."""
        has_keys = "key" in rows.schema.names
        keys = rows.column("key").to_pylist() if has_keys else [None] * rows.num_rows
        numbers = [custom_partition(partitioner, topic, key, count) for key in keys]
        for number in numbers:
            if number is not None and not 0 <= number < count:
                raise no_such_partition(self.cluster.topic(topic), number)
        chosen = pa.array(numbers, pa.int32())
        return None if chosen.null_count == len(chosen) else chosen

    def _next_sticky(self, topic: str, count: int) -> int:
        last = self._sticky.get(topic)
        chosen = random.randrange(count) if last is None else (last + 1) % count
        self._sticky[topic] = chosen
        return chosen


def _by_partition(
    rows: pa.RecordBatch, chosen: pa.Array, count: int
) -> tuple[pa.RecordBatch, list[tuple[int, int, int]]]:
    """The rows ordered by partition, and (partition, start, stop) of each partition."""
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
    """The columns of a record; key and value as binary. Raises TypeError or ValueError."""
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
