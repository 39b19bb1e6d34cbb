"""The writers of the sink, batch and streaming, with at-least-once or exactly-once delivery."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from ottla.client import ArrowWriter, shared_cluster
from pyspark_ottla.sink.exactly_once.batch_commit import BatchAttempt, BatchCommitter, end_job
from pyspark_ottla.sink.exactly_once.marker import transaction_prefix
from pyspark_ottla.sink.exactly_once.task_id import TaskId
from pyspark_ottla.sink.exactly_once.task_writer import PreparedTransaction, write_in_transaction
from pyspark_ottla.sink.options import EXACTLY_ONCE, SinkOptions
from pyspark_ottla.task_context import current_task, freeze_imports

Messages = Sequence[WriterCommitMessage | None]


class Delivered(WriterCommitMessage):
    """The commit message of an at-least-once task."""

    def __init__(self, records: int, dead_letters: int = 0) -> None:
        self.records = records
        self.dead_letters = dead_letters


def write_at_least_once(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Delivered:
    """Write the rows of a task. They stay in the topic even if the attempt fails later."""
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
    """Combine the commit messages of an exactly-once batch; None if there are none."""
    prepared = [message for message in messages if isinstance(message, PreparedTransaction)]
    if not prepared:
        return None
    task = prepared[0].task
    assert all(message.task.key == task.key for message in prepared), "tasks of several queries in one batch"
    assert batch is None or batch == task.batch, f"tasks of batch {task.batch} in batch {batch}"
    handles = [message.handle for message in prepared if message.handle is not None]
    return BatchAttempt(task.key, task.run, task.batch, handles)


def stream_task_id() -> TaskId:
    """Return the id of the current task. Only tasks know which query and batch they belong to."""
    task = current_task()
    if task.query_id is None or task.batch_id is None or task.run_id is None:
        raise RuntimeError(
            "mode=exactly-once: Spark does not provide the query and batch of this task "
            f"(sql.streaming.queryId={task.query_id}, streaming.sql.batchId={task.batch_id}, "
            f"run={task.run_id})"
        )
    return TaskId(task.query_id, task.run_id, task.batch_id, task.partition, task.attempt)


class OttlaStreamWriter(DataSourceStreamArrowWriter):
    """The sink of a streaming query. Spark creates a new one per commit: all state is in the messages."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = SinkOptions(options, schema)
        if self._options.application is not None:
            raise ValueError("options 'txnAppId' and 'txnVersion' are for batch writes, not for streams")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self._options.mode == EXACTLY_ONCE:
            return write_in_transaction(self._options, stream_task_id(), iterator)
        return write_at_least_once(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit the transactions; with at-least-once delivery there is nothing to do."""
        attempt = batch_attempt(messages, batchId)
        if attempt is not None:
            BatchCommitter(self._options).commit(attempt)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Abort the transactions; with at-least-once delivery written records stay."""
        attempt = batch_attempt(messages, batchId)
        if attempt is not None:
            BatchCommitter(self._options).abort(attempt)


class OttlaWriter(DataSourceArrowWriter):
    """The sink of a batch job. Tasks and driver use pickled copies of one writer."""

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
        task = current_task()
        task_id = TaskId(self._key, self._job, self._options.version, task.partition, task.attempt)
        return write_in_transaction(
            self._options, task_id, iterator, with_marker=self._options.application is not None
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
