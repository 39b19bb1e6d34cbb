"""The writers as Spark calls them: tasks write files, the driver commits them.

Spark creates a new writer for every call on the driver and pickles it to tasks, so all state between them is
in the commit messages.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from pyspark_ottla.task_context import SparkTask, current_task
from pyspark_ottla_lake.files import DataFile, FileLayout, TaskFiles
from pyspark_ottla_lake.options import LakeOptions
from pyspark_ottla_lake.order import check_order
from pyspark_ottla_lake.schemas import (
    arrow_schema,
    check_columns,
    check_partitioning,
    new_columns,
    schema_of_json,
    spelled_as,
)
from pyspark_ottla_lake.storage import storage_of


class WrittenFiles(WriterCommitMessage):
    """The commit message of a task: its query and files; `skipped` if the table has the batch already."""

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
    """Writes the files of tasks. Created on the driver, where the table is read, and pickled to executors.

    The constructor raises ValueError for types, names or partitions that do not match the table.
    """

    def __init__(self, options: LakeOptions, schema: StructType, overwrite: bool) -> None:
        from pyspark_ottla_lake.table import check_writable, open_table, partitioning_of, schema_of

        check_columns(schema)
        arrow_schema(schema)
        partition_by = options.partition_by
        table = open_table(options)
        if table is not None:
            table_schema = schema_of(table)
            check_writable(table, table_schema, overwrite)
            schema = spelled_as(table_schema, schema)
            new_columns(table_schema, schema, options.merge_schema)
            found = partitioning_of(table)
            if partition_by is not None and tuple(map(str.lower, partition_by)) != tuple(
                map(str.lower, found)
            ):
                raise ValueError(
                    f"option 'partitionBy' is ({', '.join(partition_by)}), but table {options.path} "
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

    def write(self, batches: Iterator[pa.RecordBatch], task: SparkTask) -> WrittenFiles:
        with TaskFiles(storage_of(self.options), self.shape, task.partition) as files:
            for batch in batches:
                files.add(batch)
            return WrittenFiles(task.query_id, self.schema, self.shape, files.finish())

    def remove(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove files that will not be committed. This is best effort: a vacuum removes the rest."""
        storage = storage_of(self.options)
        for message in messages:
            for file in message.files if isinstance(message, WrittenFiles) else ():
                with contextlib.suppress(OSError):
                    storage.remove(file.path)


def _spelled(names: Sequence[str], schema: StructType) -> tuple[str, ...]:
    by_lower = {name.lower(): name for name in schema.names}
    return tuple(by_lower.get(name.lower(), name) for name in names)


class LakeWriter(DataSourceArrowWriter):
    """The sink of a batch query: all its rows are committed, or none."""

    def __init__(self, options: LakeOptions, schema: StructType, overwrite: bool) -> None:
        self._task = TaskWriter(options, schema, overwrite)
        self._overwrite = overwrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._task.write(iterator, current_task())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit(self._task, written_of(messages), self._task.options.app, self._overwrite)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if _commit_was_never_tried(messages):
            self._task.remove(messages)


class LakeStreamWriter(DataSourceStreamArrowWriter):
    """The sink of a streaming query: each batch is in the table once, even if Spark repeats it."""

    def __init__(self, options: LakeOptions, schema: StructType, overwrite: bool) -> None:
        if options.app is not None:
            raise ValueError("options 'txnAppId' and 'txnVersion' are for batch writes, not for streams")
        self._task = TaskWriter(options, schema, overwrite)
        self._overwrite = overwrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = current_task()
        if task.query_id is None or task.batch_id is None:
            raise RuntimeError("Spark does not provide the query and batch of this task")
        newest = committed_before(self._task.options, task)
        check_order(self._task.options.path, task.batch_id, newest)
        if task.batch_id == newest:
            # Spark requires that all rows are consumed.
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
        _commit(self._task, written, (query_id, batchId), self._overwrite, is_stream=True)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove the files, unless a commit was attempted: it may have succeeded despite the error."""
        if _commit_was_never_tried(messages):
            self._task.remove(messages)


def written_of(messages: Sequence[WriterCommitMessage | None]) -> list[WrittenFiles]:
    assert all(isinstance(message, WrittenFiles) for message in messages), "every task returns a message"
    return [message for message in messages if isinstance(message, WrittenFiles)]


def _commit_was_never_tried(messages: Sequence[WriterCommitMessage | None]) -> bool:
    # Spark commits only after all tasks have finished: a missing message means that it did not commit.
    return any(message is None for message in messages)


def _commit(
    task: TaskWriter,
    written: Sequence[WrittenFiles],
    app: tuple[str, int] | None,
    overwrite: bool,
    *,
    is_stream: bool = False,
) -> None:
    from pyspark_ottla_lake.commit import FilesToCommit, commit_files, is_committed, sync_table
    from pyspark_ottla_lake.table import open_table

    options = task.options
    if any(message.skipped for message in written):
        assert app is not None, "only streams skip"
        if not is_committed(open_table(options), app):
            raise RuntimeError(
                f"table {options.path} had batch {app[1]} of this query when the task ran, but no longer "
                "has it: was the table restored to an earlier version?"
            )
        sync_table(options)
        return
    schema = schema_of_json(written[0].schema if written else task.schema)
    partition_by = written[0].partition_by if written else task.shape.partition_by
    files = [file for message in written for file in message.files]
    # If the batch was committed before, these files are in no table version, and a vacuum removes them.
    # Removing them here would risk removing files that the table uses.
    commit_files(
        options,
        FilesToCommit(files, schema, partition_by),
        app,
        overwrite=overwrite,
        skips_earlier=not is_stream,
    )


# Spark repeats a batch only at the start of a run, so a process reads the table once per run.
_committed: dict[tuple[str, str, str | None], int] = {}


def committed_before(options: LakeOptions, task: SparkTask) -> int:
    """Return the last batch of the query in the table at the start of this run; -1 if there is none."""
    assert task.query_id is not None, "only streams have committed batches"
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
        # An executor without deltalake writes the batch again; the driver then finds that it is committed.
        return None
    table = open_table(options)
    return None if table is None else table.transaction_version(query_id)
