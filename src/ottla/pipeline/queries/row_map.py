"""`map` steps: a Python function called for every row; a row on which it raises becomes a dead letter.

The function takes a dict and returns a dict, several dicts or None. Errors, and results that do not match the
schema, are kept with their row in the column `_error`. The queries of sinks drop such rows; a separate query
writes them to the dead-letter topic. The function therefore runs in both and should have no side effects.
"""

from __future__ import annotations

import json
import math
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
    """Return the columns of the schema, the record columns of the input, and `_error` and `_row`."""
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
    """Maps record batches on executors. It is pickled."""

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
        """Map one row to any number of rows, or to one that describes the error."""
        kept = {name: row[name] for name in self.carried}
        try:
            made = self.function(dict(row))
            if made is None:
                return []
            several = [made] if isinstance(made, Mapping) else list(made)
            return [kept | dict(each) | {ROW: None, ERROR: None} for each in several]
        except Exception as error:  # user code can raise anything; only this row is affected
            return [self.failed(row, kept, error)]

    def encode(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        try:
            return pa.RecordBatch.from_pylist(rows, schema=self.schema)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            checked = [self._checked(row) for row in rows]
            return pa.RecordBatch.from_pylist(checked, schema=self.schema)

    def _checked(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the row, or an error row if it does not match the schema."""
        try:
            pa.RecordBatch.from_pylist([row], schema=self.schema)
            return row
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            kept = {name: row[name] for name in self.carried}
            made = {name: value for name, value in row.items() if name not in (ROW, ERROR)}
            return self.failed(made, kept, error)

    def failed(self, row: dict[str, Any], kept: dict[str, Any], error: Exception) -> dict[str, Any]:
        reason = f"{type(error).__name__}: {error}"[:REASON_CHARS_MAX]
        return kept | {ERROR: reason, ROW: _as_json(row)}


def _as_json(row: dict[str, Any]) -> str:
    try:
        return json.dumps(row, default=_as_text, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(row), default=_as_text, ensure_ascii=False)


def _finite(value: Any) -> Any:
    """Return NaN and infinity as text, as Spark's to_json writes them: JSON has no such numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _as_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
