"""Writing: `df.write.format("ottla")` and `df.writeStream.format("ottla")`, at least or exactly once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from ottla.client import ArrowWriter, shared_cluster
from pyspark_ottla.exactly_once.deciding import Attempt, Decider, end_job
from pyspark_ottla.exactly_once.marker import transaction_prefix
from pyspark_ottla.exactly_once.tasks import Prepared, Who, write_prepared
from pyspark_ottla.sink_options import EXACTLY_ONCE, SinkOptions
from pyspark_ottla.worker import settle

Messages = Sequence[WriterCommitMessage | None]


class Delivered(WriterCommitMessage):
    """What one task has written."""

    def __init__(self, records: int, dead_letters: int = 0) -> None:
        self.records = records
        self.dead_letters = dead_letters


def write_delivered(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Delivered:
    """Write the rows of a task for good: what an attempt has sent stays, whatever becomes of it."""
    settle()
    with ArrowWriter(
        shared_cluster(options.cluster),
        options.topic,
        dead_letter_topic=options.dead_letter_topic,
        **options.writer._asdict(),
    ) as writer:
        for rows in batches:
            writer.write(options.records(rows))
    return Delivered(writer.written.records, writer.dead_letters)


def attempt_of(messages: Messages, batch: int | None = None) -> Attempt | None:
    """What tasks have told together; None if none of them has told anything."""
    told = [message for message in messages if isinstance(message, Prepared)]
    if not told:
        return None
    who = told[0].who
    assert all(message.who.key == who.key for message in told), "tasks of several queries in one batch"
    assert batch is None or batch == who.batch, f"tasks of batch {who.batch} in batch {batch}"
    handles = [message.handle for message in told if message.handle is not None]
    return Attempt(who.key, who.run, who.batch, handles, any(message.who.attempt for message in told))


def task_of_stream() -> Who:
    """Only tasks are told which query they belong to."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("mode=exactly-once: this is not a task of Spark")
    query = context.getLocalProperty("sql.streaming.queryId")
    batch = context.getLocalProperty("streaming.sql.batchId")
    run = context.getLocalProperty("sql.streaming.runId") or context.getLocalProperty("spark.jobGroup.id")
    if query is None or batch is None or run is None:
        raise RuntimeError(
            "mode=exactly-once: Spark does not tell the task its query and batch "
            f"(sql.streaming.queryId={query}, streaming.sql.batchId={batch}, run={run})"
        )
    return Who(query, run, int(batch), context.partitionId(), context.attemptNumber())


class OttlaStreamWriter(DataSourceStreamArrowWriter):
    """A streaming query's sink. Every commit is on a fresh one: all that it knows are the messages."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = SinkOptions(options, schema)
        if self._options.application is not None:
            raise ValueError("options 'txnAppId' and 'txnVersion' are for batch writes: a stream has its own")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self._options.mode == EXACTLY_ONCE:
            return write_prepared(self._options, task_of_stream(), iterator)
        return write_delivered(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """At least once, everything is in the topics already."""
        attempt = attempt_of(messages, batchId)
        if attempt is not None:
            Decider(self._options).commit(attempt)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """At least once, what was written cannot be taken back."""
        attempt = attempt_of(messages, batchId)
        if attempt is not None:
            Decider(self._options).abort(attempt)


class OttlaWriter(DataSourceArrowWriter):
    """A batch job's sink; the object that tasks and the driver use is one and the same, pickled."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ValueError("a topic cannot be overwritten: use mode('append')")
        self._options = SinkOptions(options, schema)
        self._job = uuid.uuid4().hex
        application = self._options.application
        self._key = f"job-{self._job}" if application is None else f"app-{application}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self._options.mode != EXACTLY_ONCE:
            return write_delivered(self._options, iterator)
        context = TaskContext.get()
        partition, attempt = (0, 0) if context is None else (context.partitionId(), context.attemptNumber())
        who = Who(self._key, self._job, self._options.version, partition, attempt)
        return write_prepared(self._options, who, iterator, decided=self._options.application is not None)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        attempt = attempt_of(messages)
        if attempt is None:
            return
        if self._options.application is not None:
            Decider(self._options).commit(attempt)
        else:
            end_job(self._options, attempt.handles, transaction_prefix(self._key), commit=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._options.mode != EXACTLY_ONCE:
            return
        attempt = attempt_of(messages)
        if self._options.application is None:
            handles = () if attempt is None else attempt.handles
            end_job(self._options, handles, transaction_prefix(self._key), commit=False)
        elif attempt is not None:
            Decider(self._options).abort(attempt)
