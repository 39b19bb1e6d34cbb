"""The Spark task that a Python worker runs: its identity, and a saving in garbage collection."""

from __future__ import annotations

import functools
import gc
from typing import NamedTuple

from pyspark import TaskContext


class SparkTask(NamedTuple):
    """One attempt of a task. Query, batch and run are None outside of streaming queries."""

    query_id: str | None = None
    batch_id: int | None = None
    run_id: str | None = None
    partition: int = 0
    attempt: int = 0


def current_task() -> SparkTask:
    """Return the task of this thread. Spark passes the query and batch to tasks only, not to writers."""
    context = TaskContext.get()
    if context is None:
        return SparkTask()
    batch = context.getLocalProperty("streaming.sql.batchId")
    run = context.getLocalProperty("sql.streaming.runId") or context.getLocalProperty("spark.jobGroup.id")
    return SparkTask(
        query_id=context.getLocalProperty("sql.streaming.queryId"),
        batch_id=None if batch is None else int(batch),
        run_id=run,
        partition=context.partitionId(),
        attempt=context.attemptNumber(),
    )


def freeze_imports() -> None:
    """Exclude all objects loaded so far from the garbage collection that Spark runs after each task.

    Measured: a full collection takes 26 ms, as long as 40,000 rows of 100 bytes take from topic to Spark.
    """
    if TaskContext.get() is not None:
        _freeze()


@functools.cache
def _freeze() -> None:
    gc.freeze()
