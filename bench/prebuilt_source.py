"""A Spark data source that repeats the same Arrow batches: the upper bound for any Python source."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_ottla.reader.columns import schema_of

ROWS_PER_BATCH = 10_000


class PrebuiltSource(DataSource):
    """Options: total rows, bytes of a value, partitions."""

    @classmethod
    def name(cls) -> str:
        return "prebuilt"

    def schema(self) -> StructType:
        return schema_of({})

    def reader(self, schema: StructType) -> DataSourceReader:
        return PrebuiltReader(
            int(self.options["rows"]), int(self.options["value_bytes"]), int(self.options["partitions"])
        )


class PrebuiltReader(DataSourceReader):
    def __init__(self, rows: int, value_bytes: int, partitions: int) -> None:
        self._rows = rows
        self._value_bytes = value_bytes
        self._partitions = partitions

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = _batch(self._value_bytes)
        left = self._rows // self._partitions
        while left > 0:
            yield batch.slice(0, min(left, ROWS_PER_BATCH))
            left -= ROWS_PER_BATCH


@functools.cache
def _batch(value_bytes: int) -> pa.RecordBatch:
    now = datetime.now(UTC)
    data = os.urandom(value_bytes * ROWS_PER_BATCH)
    values = [data[at : at + value_bytes] for at in range(0, len(data), value_bytes)]
    return pa.record_batch(
        {
            "key": pa.array([b"key %d" % number for number in range(ROWS_PER_BATCH)], pa.binary()),
            "value": pa.array(values, pa.binary()),
            "topic": pa.array(["bench"] * ROWS_PER_BATCH),
            "partition": pa.array([0] * ROWS_PER_BATCH, pa.int32()),
            "offset": pa.array(range(ROWS_PER_BATCH), pa.int64()),
            "timestamp": pa.array([now] * ROWS_PER_BATCH, pa.timestamp("us", tz="UTC")),
            "timestampType": pa.array([0] * ROWS_PER_BATCH, pa.int32()),
        }
    )
