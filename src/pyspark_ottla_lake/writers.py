"""The writers as Spark calls them: tasks write files, the driver commits them.

A writer is built anew for every call of the driver and goes to the tasks by pickle; what they have to tell
each other goes with the commit messages alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from pyspark_ottla_lake.files import DataFile, FileLayout, TaskFiles
from pyspark_ottla_lake.options import LakeOptions
from pyspark_ottla_lake.schemas import (
    arrow_schema,
    check_columns,
    check_partitioning,
    new_columns,
    schema_of_json,
    spelled_as,
)
from pyspark_ottla_lake.storage import storage_of


class TaskIdentity(NamedTuple):
    """Who a task is. Query and batch are None outside of streams."""

    query_id: str | None
    batch_id: int | None
    run_id: str | None
    partition: int


def task_identity() -> TaskIdentity:
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return TaskIdentity(None, None, None, 0)
    batch = context.getLocalProperty("streaming.sql.batchId")
    return TaskIdentity(
        context.getLocalProperty("sql.streaming.queryId"),
        None if batch is None else int(batch),
        context.getLocalProperty("spark.jobGroup.id"),
        context.partitionId(),
    )


class WrittenFiles(WriterCommitMessage):
    """What one task has written, and for which query; `skipped` if the table had the batch already."""

    def __init__(
        self,
        query_id: str | None,
        schema: str,
        shape: FileLayout,
        files: list[DataFile],
        skipped: bool = False,
    ) -> None:
        self.query_id = query_id
        self.schema = schema
        self.partition_by = shape.partition_by
        self.files = files
        self.skipped = skipped


class TaskWriter:
    """What a task does; values only, for it is pickled. Made on the driver, where the table is looked at.

    Raises ValueError for everything that can be known before the first row: types, names, partitions.
    """

    def __init__(self, options: LakeOptions, schema: StructType, overwrite: bool) -> None:
        from pyspark_ottla_lake.table import check_writable, open_table, partitioning_of, schema_of

        check_columns(schema)
        arrow_schema(schema)
        partition_by = options.partition_by
        table = open_table(options)
        if table is not None:
            there = schema_of(table)
            check_writable(table, there, overwrite)
            schema = spelled_as(there, schema)
            new_columns(there, schema, options.merge_schema)
            found = partitioning_of(table)
            if partition_by is not None and tuple(map(str.lower, partition_by)) != tuple(
                map(str.lower, found)
            ):
                raise ValueError(
                    f"option 'partitionBy' is ({', '.join(partition_by)}), but the table {options.path} "
                    f"is partitioned by ({', '.join(found)})"
                )
            partition_by = found
        partition_by = _spelled(partition_by or (), schema)
        check_partitioning(schema, partition_by)
        self.options = options
        self.schema = schema.json()
        self.shape = FileLayout(
            arrow_schema(schema), partition_by, options.target_file_bytes, options.compression
        )

    def write(self, batches: Iterator[pa.RecordBatch], task: TaskIdentity) -> WrittenFiles:
        with TaskFiles(storage_of(self.options), self.shape, task.partition) as files:
            for batch in batches:
                files.add(batch)
            return WrittenFiles(task.query_id, self.schema, self.shape, files.finish())

    def remove(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Files that nobody committed and nobody will: best effort, a vacuum finds the rest."""
        storage = storage_of(self.options)
        for message in messages:
            for file in message.files if isinstance(message, WrittenFiles) else ():
                with contextlib.suppress(OSError):
                    storage.remove(file.path)


def _spelled(names: Sequence[str], schema: StructType) -> tuple[str, ...]:
    by_lower = {name.lower(): name for name in schema.names}
    return tuple(by_lower.get(name.lower(), name) for name in names)


class LakeWriter(DataSourceArrowWriter):
    """A batch query's sink: the table gets all rows of the query, or none."""

    def __init__(self, options: LakeOptions, schema: StructType, overwrite: bool) -> None:
        self._task = TaskWriter(options, schema, overwrite)
        self._overwrite = overwrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._task.write(iterator, task_identity())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit(self._task, written_of(messages), self._task.options.app, self._overwrite)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if _commit_was_never_tried(messages):
            self._task.remove(messages)


class LakeStreamWriter(DataSourceStreamArrowWriter):
    """A streaming query's sink: each batch is in the table once, however often it is done."""

    def __init__(self, options: LakeOptions, schema: StructType, overwrite: bool) -> None:
        if options.app is not None:
            raise ValueError(
                "the options 'txnAppId' and 'txnVersion' are for batch writes: streams have their own"
            )
        self._task = TaskWriter(options, schema, overwrite)
        self._overwrite = overwrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = task_identity()
        if task.query_id is None or task.batch_id is None:
            raise RuntimeError("Spark does not say which query and batch this task belongs to")
        if task.batch_id <= committed_before(self._task.options, task):
            # Only read, for Spark wants its rows to be taken.
            for _ in iterator:
                pass
            return WrittenFiles(task.query_id, self._task.schema, self._task.shape, [], skipped=True)
        return self._task.write(iterator, task)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        written = written_of(messages)
        if not written:
            return
        query_id = written[0].query_id
        assert query_id is not None, "a stream's task knows its query"
        _commit(self._task, written, (query_id, batchId), self._overwrite)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """A commit that failed may have been a commit all the same: then its files must stay."""
        if _commit_was_never_tried(messages):
            self._task.remove(messages)


def written_of(messages: Sequence[WriterCommitMessage | None]) -> list[WrittenFiles]:
    assert all(isinstance(message, WrittenFiles) for message in messages), "every task tells what it wrote"
    return [message for message in messages if isinstance(message, WrittenFiles)]


def _commit_was_never_tried(messages: Sequence[WriterCommitMessage | None]) -> bool:
    # Spark commits when all tasks are done, and only then: a task without a message means that it did not.
    return any(message is None for message in messages)


def _commit(
    task: TaskWriter, written: Sequence[WrittenFiles], app: tuple[str, int] | None, overwrite: bool
) -> None:
    from pyspark_ottla_lake.commit import FilesToCommit, commit_files, is_committed
    from pyspark_ottla_lake.table import open_table

    options = task.options
    if any(message.skipped for message in written):
        assert app is not None, "only streams skip"
        if not is_committed(open_table(options), app):
            raise RuntimeError(
                f"the table {options.path} had batch {app[1]} of this query and lost it: was it restored?"
            )
        return
    schema = schema_of_json(written[0].schema if written else task.schema)
    partition_by = written[0].partition_by if written else task.shape.partition_by
    files = [file for message in written for file in message.files]
    # Where the batch was committed before, these files are in no table: a vacuum removes them. To remove them
    # here would be one mistake away from removing files that a table has.
    commit_files(options, FilesToCommit(files, schema, partition_by), app, overwrite=overwrite)


# A batch comes again only at the start of a run, so a process asks the table once per run.
_committed: dict[tuple[str, str, str | None], int] = {}


def committed_before(options: LakeOptions, task: TaskIdentity) -> int:
    """The newest batch of the query that the table had when this process first saw the run; -1 if none."""
    assert task.query_id is not None, "only streams ask"
    key = (options.path, task.query_id, task.run_id)
    if key not in _committed:
        newest = _newest_committed(options, task.query_id)
        if len(_committed) > 100:
            _committed.clear()
        _committed[key] = -1 if newest is None else newest
    return _committed[key]


def _newest_committed(options: LakeOptions, query_id: str) -> int | None:
    try:
        from pyspark_ottla_lake.table import open_table
    except ImportError:
        # An executor without deltalake writes the batch again; the driver sees that it is committed.
        return None
    table = open_table(options)
    return None if table is None else table.transaction_version(query_id)
