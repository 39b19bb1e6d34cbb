"""The Parquet files of one task: rows by partition, in files of about the target size."""

from __future__ import annotations

import contextlib
import time
import uuid
from types import TracebackType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pyspark_ottla_lake.partitions import Values, directory, split
from pyspark_ottla_lake.stats import FileStats
from pyspark_ottla_lake.storage import Storage

# Limit of the rows that a task buffers for row groups, over all partitions.
WAITING_BYTES_MAX = 128 * 1024 * 1024
ROW_GROUP_BYTES = 64 * 1024 * 1024
OPEN_FILES_MAX = 32


class DataFile(NamedTuple):
    """A written file, as the driver commits it."""

    path: str
    size_bytes: int
    partition_values: dict[str, str | None]
    modified_ms: int
    records: int
    # By top-level column, also for columns without statistics.
    null_counts: dict[str, int]
    stats: str


class FileLayout(NamedTuple):
    """How files are written. It is pickled to executors."""

    schema: pa.Schema
    partition_by: tuple[str, ...]
    target_bytes: int
    compression: str


class _Waiting:
    """Buffered rows of one partition."""

    def __init__(self) -> None:
        self.tables: list[pa.Table] = []
        self.bytes = 0


class _OpenFile:
    def __init__(self, storage: Storage, path: str, shape: FileLayout, schema: pa.Schema) -> None:
        self.path = path
        self._storage = storage
        self._sink: Any = storage.create(path)
        self._stats = FileStats(schema)
        self._footers: list[pq.FileMetaData] = []
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression=shape.compression,
            store_schema=False,
            metadata_collector=self._footers,
        )

    def write(self, rows: pa.Table) -> int:
        """Write a row group. Returns the size of the file so far."""
        self._stats.add(rows)
        self._writer.write_table(rows, row_group_size=rows.num_rows)
        return int(self._sink.tell())

    def finish(self, columns: tuple[str, ...], values: Values) -> DataFile:
        self._writer.close()
        size = self._storage.finish(self._sink, self.path)
        footer = self._footers[0]
        partition_values = dict(zip(columns, values, strict=True))
        nulls = {name: footer.num_rows for name, value in partition_values.items() if value is None}
        return DataFile(
            path=self.path,
            size_bytes=size,
            partition_values=partition_values,
            modified_ms=time.time_ns() // 1_000_000,
            records=footer.num_rows,
            null_counts=self._stats.null_counts | nulls,
            stats=self._stats.to_json(footer),
        )

    def drop(self) -> None:
        with contextlib.suppress(Exception):
            self._writer.close()
        with contextlib.suppress(Exception):
            self._sink.close()


class TaskFiles:
    """The files of one attempt, as a context manager: if the attempt fails its files are removed if possible.

    File names are unique, so attempts do not collide. Files of a killed attempt are in no commit.
    """

    def __init__(self, storage: Storage, shape: FileLayout, task: int = 0) -> None:
        self._storage = storage
        self._shape = shape
        self._schema = pa.schema([field for field in shape.schema if field.name not in shape.partition_by])
        self._task = task
        self._row_group_bytes = min(ROW_GROUP_BYTES, shape.target_bytes)
        self._waiting: dict[Values, _Waiting] = {}
        self._waiting_bytes = 0
        # In order of the last write.
        self._open: dict[Values, _OpenFile] = {}
        self._done: list[DataFile] = []

    def __enter__(self) -> TaskFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._discard()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; their columns are those of the schema, in its order."""
        if batch.num_rows == 0:
            return
        rows = (
            pa.Table.from_batches([batch]).rename_columns(self._shape.schema.names).cast(self._shape.schema)
        )
        for values, part in split(rows, self._shape.partition_by):
            waiting = self._waiting.setdefault(values, _Waiting())
            waiting.tables.append(part)
            waiting.bytes += part.nbytes
            self._waiting_bytes += part.nbytes
            if waiting.bytes >= self._row_group_bytes:
                self._write(values)
        while self._waiting_bytes > WAITING_BYTES_MAX:
            self._write(max(self._waiting, key=lambda values: self._waiting[values].bytes))

    def finish(self) -> list[DataFile]:
        """Write buffered rows and close all files. Returns the files of this task."""
        for values in list(self._waiting):
            self._write(values)
        for values in list(self._open):
            self._close(values)
        return self._done

    def _write(self, values: Values) -> None:
        waiting = self._waiting.pop(values)
        self._waiting_bytes -= waiting.bytes
        file = self._open.pop(values, None) or self._new_file(values)
        self._open[values] = file
        if file.write(pa.concat_tables(waiting.tables)) >= self._shape.target_bytes:
            self._close(values)
        elif len(self._open) > OPEN_FILES_MAX:
            self._close(next(iter(self._open)))

    def _new_file(self, values: Values) -> _OpenFile:
        codec = "" if self._shape.compression == "none" else f".{self._shape.compression}"
        name = f"part-{self._task:05d}-{uuid.uuid4()}-c{len(self._done):03d}{codec}.parquet"
        path = directory(self._shape.partition_by, values) + name
        return _OpenFile(self._storage, path, self._shape, self._schema)

    def _close(self, values: Values) -> None:
        # The file stays in _open until it is complete, so that a failure removes it.
        self._done.append(self._open[values].finish(self._shape.partition_by, values))
        del self._open[values]

    def _discard(self) -> None:
        for file in self._open.values():
            file.drop()
        for path in [file.path for file in self._open.values()] + [file.path for file in self._done]:
            with contextlib.suppress(Exception):
                self._storage.remove(path)
