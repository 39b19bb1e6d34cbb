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
from pyspark_ottla.sink.exactly_once.batch_commit import BatchAttempt, BatchCommitter, end_job
from pyspark_ottla.sink.exactly_once.marker import transaction_prefix
from pyspark_ottla.sink.exactly_once.task_writer import PreparedTransaction, TaskId, write_in_transaction
from pyspark_ottla.sink.options import EXACTLY_ONCE, SinkOptions
from pyspark_ottla.task_context import freeze_imports

Messages = Sequence[WriterCommitMessage | None]


class Delivered(WriterCommitMessage):
    """What one task has written."""

    def __init__(self, records: int, dead_letters: int = 0) -> None:
        self.records = records
        self.dead_letters = dead_letters


def write_at_least_once(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Delivered:
    """Write the rows of a task for good: what an attempt has sent stays, whatever becomes of it."""
    freeze_imports()
    with ArrowWriter(
        shared_cluster(options.cluster),
        options.topic,
        dead_letter_topic=options.dead_letter_topic,
        **options.writer._asdict(),
    ) as writer:
        for rows in batches:
            writer.write(options.records(rows))
    return Delivered(writer.written.records, writer.dead_letters)


def batch_attempt(messages: Messages, batch: int | None = None) -> BatchAttempt | None:
    """What tasks have told together; None if none of them has told anything."""
    told = [message for message in messages if isinstance(message, PreparedTransaction)]
    if not told:
        return None
    task = told[0].task
    assert all(message.task.key == task.key for message in told), "tasks of several queries in one batch"
    assert batch is None or batch == task.batch, f"tasks of batch {task.batch} in batch {batch}"
    handles = [message.handle for message in told if message.handle is not None]
    return BatchAttempt(
        task.key, task.run, task.batch, handles, any(message.task.attempt for message in told)
    )


def stream_task_id() -> TaskId:
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
    return TaskId(query, run, int(batch), context.partitionId(), context.attemptNumber())


class OttlaStreamWriter(DataSourceStreamArrowWriter):
    """A streaming query's sink. Every commit is on a fresh one: all that it knows are the messages."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = SinkOptions(options, schema)
        if self._options.application is not None:
            raise ValueError("options 'txnAppId' and 'txnVersion' are for batch writes: a stream has its own")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self._options.mode == EXACTLY_ONCE:
            return write_in_transaction(self._options, stream_task_id(), iterator)
        return write_at_least_once(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """At least once, everything is in the topics already."""
        attempt = batch_attempt(messages, batchId)
        if attempt is not None:
            BatchCommitter(self._options).commit(attempt)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """At least once, what was written cannot be taken back."""
        attempt = batch_attempt(messages, batchId)
        if attempt is not None:
            BatchCommitter(self._options).abort(attempt)


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
            return write_at_least_once(self._options, iterator)
        context = TaskContext.get()
        partition, attempt = (0, 0) if context is None else (context.partitionId(), context.attemptNumber())
        task = TaskId(self._key, self._job, self._options.version, partition, attempt)
        return write_in_transaction(
            self._options, task, iterator, decided=self._options.application is not None
        )

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        attempt = batch_attempt(messages)
        if attempt is None:
            return
        if self._options.application is not None:
            BatchCommitter(self._options).commit(attempt)
        else:
            end_job(self._options, attempt.handles, transaction_prefix(self._key), commit=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._options.mode != EXACTLY_ONCE:
            return
        attempt = batch_attempt(messages)
        if self._options.application is None:
            handles = () if attempt is None else attempt.handles
            end_job(self._options, handles, transaction_prefix(self._key), commit=False)
        elif attempt is not None:
            BatchCommitter(self._options).abort(attempt)
