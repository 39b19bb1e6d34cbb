"""`map` steps: a Python function on every row, where a row on which it fails becomes a dead letter.

The function gets a dict and gives a dict, several, or None. What it raises, and what does not fit the schema,
stays with its row in the column `_error`: the query that feeds sinks drops such rows, a query of its own
writes them to the dead-letter topic. The function therefore runs in both, and should have no effects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from ottla.pipeline.definition.model import RECORD_COLUMNS

ERROR = "_error"
ROW = "_row"
REASON_CHARS_MAX = 500

Rows = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


def map_rows(frame: DataFrame, function: Callable[[dict[str, Any]], Rows], schema: StructType) -> DataFrame:
    """The columns of the schema, those of the record that were there, and `_error` and `_row`."""
    from pyspark.sql.pandas.types import to_arrow_schema

    carried = [
        field
        for field in frame.schema.fields
        if field.name in RECORD_COLUMNS and field.name not in schema.names
    ]
    whole = StructType([*schema.fields, *carried])
    out = StructType([*(StructField(f.name, f.dataType) for f in whole.fields), *_failure_fields()])
    mapper = RowMapper(function, to_arrow_schema(out, timezone="UTC"), [field.name for field in carried])
    return frame.mapInArrow(mapper, out)


def _failure_fields() -> list[StructField]:
    return [StructField(ERROR, StringType()), StructField(ROW, StringType())]


class RowMapper:
    """What runs on executors; goes there by pickle."""

    def __init__(
        self, function: Callable[[dict[str, Any]], Rows], schema: pa.Schema, carried: Sequence[str]
    ) -> None:
        self.function = function
        self.schema = schema
        self.carried = list(carried)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [made for row in batch.to_pylist() for made in self.apply(row)]
            if rows:
                yield self.encode(rows)

    def apply(self, row: dict[str, Any]) -> list[dict[str, Any]]:
        """What becomes of one row: any number of rows, or one that says what went wrong."""
        kept = {name: row[name] for name in self.carried}
        try:
            made = self.function(dict(row))
            if made is None:
                return []
            several = [made] if isinstance(made, Mapping) else list(made)
            return [kept | dict(each) | {ROW: None, ERROR: None} for each in several]
        except Exception as error:  # whatever the user's code raises is that row's problem alone
            return [self.failed(row, kept, error)]

    def encode(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        try:
            return pa.RecordBatch.from_pylist(rows, schema=self.schema)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            fitting = [self._fitting(row) for row in rows]
            return pa.RecordBatch.from_pylist(fitting, schema=self.schema)

    def _fitting(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row itself, or the failure to make a row of the schema of it."""
        try:
            pa.RecordBatch.from_pylist([row], schema=self.schema)
            return row
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            kept = {name: row[name] for name in self.carried}
            made = {name: value for name, value in row.items() if name not in (ROW, ERROR)}
            return self.failed(made, kept, error)

    def failed(self, row: dict[str, Any], kept: dict[str, Any], error: Exception) -> dict[str, Any]:
        reason = f"{type(error).__name__}: {error}"[:REASON_CHARS_MAX]
        return kept | {ERROR: reason, ROW: json.dumps(row, default=_as_text, ensure_ascii=False)}


def _as_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
