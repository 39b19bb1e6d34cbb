"""Writing: `df.write.format("ottla")` and `df.writeStream.format("ottla")`, at least once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
)

from ottla.client.arrow_write import ArrowWriter
from ottla.client.sync_cluster import shared_cluster
from pyspark_ottla.client_options import cluster_options, writer_options

RECORD_COLUMNS = ("key", "value", "headers", "topic", "partition")
MODES = ("at-least-once", "exactly-once")


class Delivered(WriterCommitMessage):
    """What one task has written."""

    def __init__(self, records: int) -> None:
        self.records = records


class TaskWriting:
    """What a task does; goes to executors by pickle, so it holds values only. Raises ValueError when made."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.cluster = cluster_options(options)
        self.writer = writer_options(options)
        self.topic = options.get("topic")
        mode = options.get("mode", "at-least-once").strip().lower()
        if mode not in MODES:
            raise ValueError(f"option 'mode' is {mode!r}: expected {' or '.join(MODES)}")
        if mode == "exactly-once":
            raise ValueError("option 'mode' is 'exactly-once': this sink writes at least once so far")
        self.columns = check_schema(schema, self.topic)

    def write(self, batches: Iterator[pa.RecordBatch]) -> Delivered:
        with ArrowWriter(shared_cluster(self.cluster), self.topic, **self.writer._asdict()) as writer:
            for rows in batches:
                writer.write(rows.select(self.columns))
        return Delivered(writer.written.records)


def check_schema(schema: StructType, topic: str | None) -> list[str]:
    """The columns that make records. Raises ValueError for one that is missing or of another type."""
    # Spark's column names do not tell upper from lower case.
    by_lower = {field.name.lower(): field for field in schema.fields}
    if "value" not in by_lower:
        raise ValueError(f"the column 'value' is required; there are {', '.join(schema.names)}")
    if topic is None and "topic" not in by_lower:
        raise ValueError("no topic to write to: set the option 'topic', or have a column of that name")
    for name in RECORD_COLUMNS:
        if name in by_lower and not _fits(name, by_lower[name].dataType):
            expected = {
                "headers": "array<struct<key:string,value:binary>>",
                "topic": "string",
                "partition": "int",
            }.get(name, "string or binary")
            found = by_lower[name].dataType.simpleString()
            raise ValueError(f"the column {name!r} must be {expected}, not {found}")
    return [by_lower[name].name for name in RECORD_COLUMNS if name in by_lower]


def _fits(name: str, kind: DataType) -> bool:
    if name in ("key", "value"):
        return isinstance(kind, StringType | BinaryType)
    if name == "topic":
        return isinstance(kind, StringType)
    if name == "partition":
        return isinstance(kind, IntegerType)
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = kind.elementType.fields
    return (
        [field.name.lower() for field in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, StringType)
        and isinstance(fields[1].dataType, BinaryType)
    )


class OttlaWriter(DataSourceArrowWriter):
    """A batch query's sink: what failed tasks wrote stays, so a retried task writes it again."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ValueError("a topic cannot be overwritten: use mode('append')")
        self._task = TaskWriting(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._task.write(iterator)


class OttlaStreamWriter(DataSourceStreamArrowWriter):
    """A streaming query's sink: a batch that is done again is written again."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._task = TaskWriting(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._task.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Everything is in the topics already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """What was written cannot be taken back: at least once."""
