"""The task side: skip a committed batch, else write it in a transaction and leave that open."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from ottla.client import ArrowWriter, ClusterOptions, SyncTransactions, TransactionHandle, shared_cluster
from pyspark_ottla.sink.exactly_once.batch_commit import BatchCommitter, check_order, last_marker
from pyspark_ottla.sink.exactly_once.task_id import TaskId
from pyspark_ottla.sink.exactly_once.transactional_ids import worker_ids
from pyspark_ottla.sink.options import SinkOptions
from pyspark_ottla.task_context import freeze_imports

LAST_BATCHES_MAX = 1000


class PreparedTransaction(WriterCommitMessage):
    """The commit message of a task. It has the task's id, because the driver does not know the query."""

    def __init__(
        self, task: TaskId, handle: TransactionHandle | None, records: int, dead_letters: int
    ) -> None:
        self.task = task
        self.handle = handle
        self.records = records
        self.dead_letters = dead_letters


def write_in_transaction(
    options: SinkOptions, task: TaskId, batches: Iterable[pa.RecordBatch], *, with_marker: bool = True
) -> PreparedTransaction:
    """Write the rows of a task and prepare the transaction; `with_marker`: a marker will commit it."""
    freeze_imports()
    if with_marker and _is_committed(options, task):
        for _ in batches:
            pass  # Spark requires that all rows are consumed
        return PreparedTransaction(task, None, 0, 0)
    batches = iter(batches)
    first = next((rows for rows in batches if rows.num_rows), None)
    if first is None:
        return PreparedTransaction(task, None, 0, 0)
    cluster = shared_cluster(options.cluster)
    with ArrowWriter(
        cluster,
        options.topic,
        transactional_id=worker_ids().next_id(SyncTransactions(cluster), task),
        transaction_timeout_ms=options.transaction_timeout_ms,
        dead_letter_topic=options.dead_letter_topic,
        **options.writer._asdict(),
    ) as writer:
        writer.begin()
        for rows in itertools.chain([first], batches):
            writer.write(options.records(rows))
        # Without a marker no restarted driver would end the transaction after a crash: it must time out.
        handle = writer.prepare(waits=with_marker)
    return PreparedTransaction(task, handle, writer.written.records, writer.dead_letters)


# The last committed batch of each query, as of the start of its run.
_last_batches: dict[tuple[ClusterOptions, str, str, str], int] = {}


def _is_committed(options: SinkOptions, task: TaskId) -> bool:
    """Read the marker once per run: markers appended later in the run are for batches written in it."""
    key = (options.cluster, options.commit_topic, task.key, task.run)
    last = _last_batches.get(key)
    if last is None:
        marker = last_marker(options, task.key)
        last = -1 if marker is None else marker.batch
        check_order(options, task.key, marker, task.batch)
        if marker is not None and not marker.done and task.partition == 0:
            # The last driver died after it appended the marker. Its transactions may time out, so commit them
            # now instead of waiting for the driver's commit.
            BatchCommitter(options).roll_forward(task.key, marker)
        if len(_last_batches) >= LAST_BATCHES_MAX:
            _last_batches.clear()
        _last_batches[key] = last
    return last >= task.batch
