"""The task side: skip a committed batch, else write it in a transaction and leave that open."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from ottla.client import ArrowWriter, ClusterOptions, TransactionHandle, shared_cluster
from pyspark_ottla.sink.exactly_once.batch_commit import BatchCommitter, check_order, last_marker
from pyspark_ottla.sink.exactly_once.marker import transaction_prefix
from pyspark_ottla.sink.options import SinkOptions
from pyspark_ottla.task_context import freeze_imports

LAST_BATCHES_MAX = 1000


class TaskId(NamedTuple):
    """An attempt of a task of a batch. `key` identifies the query, `run` one start of it."""

    key: str
    run: str
    batch: int
    partition: int = 0
    attempt: int = 0


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
    handle = None
    with ArrowWriter(
        shared_cluster(options.cluster),
        options.topic,
        transactional_id=next_transactional_id(task),
        transaction_timeout_ms=options.transaction_timeout_ms,
        dead_letter_topic=options.dead_letter_topic,
        **options.writer._asdict(),
    ) as writer:
        has_begun = False
        for rows in batches:
            if not has_begun and rows.num_rows:
                writer.begin()
                has_begun = True
            writer.write(options.records(rows))
        if has_begun:
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


# Transactional ids.

_lock = threading.Lock()
_worker = ""
_worker_pid = -1
# By query: its current run and batch, the first batch that this worker saw in the run, the ids in use.
_slots: dict[str, tuple[str, int, int, int]] = {}


def next_transactional_id(task: TaskId) -> str:
    """Return an id that no other attempt of the batch uses; see the package docstring about reuse."""
    global _worker, _worker_pid
    with _lock:
        if _worker_pid != os.getpid():
            _worker, _worker_pid = uuid.uuid4().hex[:12], os.getpid()
            _slots.clear()
        run, batch, first, used = _slots.get(task.key, ("", -1, -1, 0))
        if run != task.run:
            run, batch, first, used = task.run, task.batch, task.batch, 0
        elif batch != task.batch:
            batch, used = task.batch, 0
        _slots[task.key] = (run, batch, first, used + 1)
        when = "first" if batch == first else "later"
        return f"{transaction_prefix(task.key, task.run)}{_worker}/{when}-{used}"
