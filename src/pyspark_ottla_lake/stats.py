"""Statistics of a data file in Delta's log, with which readers skip files: counts, nulls, bounds.

Bounds come from the Parquet footer. A bound that might be wrong is omitted, and readers then read the file:
binary values, booleans, floats with a NaN (Parquet ignores NaN, in Spark it is the greatest value), and
values that JSON or Python cannot represent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

# The default of Delta.
INDEXED_COLUMNS_MAX = 32
TEXT_BOUND_LENGTH = 32
_AFTER_EVERY_TEXT = "\U0010ffff"

Path = tuple[str, ...]


def leaves(schema: pa.Schema) -> list[Path | None]:
    """Return the leaf columns in the order of a Parquet footer; None for those inside arrays and maps."""
    return [leaf for field in schema for leaf in _leaves(field.type, (field.name,))]


def _leaves(kind: pa.DataType, path: Path) -> Iterator[Path | None]:
    if pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            field = kind.field(number)
            yield from _leaves(field.type, (*path, field.name))
    elif pa.types.is_map(kind):
        yield from (None for _ in _leaves(kind.key_type, ()))
        yield from (None for _ in _leaves(kind.item_type, ()))
    elif pa.types.is_list(kind):
        yield from (None for _ in _leaves(kind.value_type, ()))
    else:
        yield path


def float_leaves(schema: pa.Schema) -> list[Path]:
    return [
        leaf for leaf in leaves(schema) if leaf is not None and pa.types.is_floating(_type_at(schema, leaf))
    ]


def _type_at(schema: pa.Schema, path: Path) -> pa.DataType:
    kind = schema.field(path[0]).type
    for name in path[1:]:
        kind = kind.field(kind.get_field_index(name)).type
    return kind


class FileStats:
    """Statistics that a Parquet footer lacks: nulls of top-level columns, and columns with a NaN."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._floats = float_leaves(schema)
        self._with_nan: set[Path] = set()
        self.null_counts = dict.fromkeys(schema.names, 0)

    def add(self, rows: pa.Table) -> None:
        for name in self._schema.names:
            self.null_counts[name] += rows.column(name).null_count
        for path in self._floats:
            column = rows.column(path[0])
            for name in path[1:]:
                column = pc.struct_field(column, name)
            if path not in self._with_nan and pc.any(pc.is_nan(column)).as_py():
                self._with_nan.add(path)

    def to_json(self, footer: pq.FileMetaData) -> str:
        paths = leaves(self._schema)
        low: dict[str, Any] = {}
        high: dict[str, Any] = {}
        nulls: dict[str, Any] = {}
        indexed = 0
        for number, path in enumerate(paths):
            if path is None or indexed == INDEXED_COLUMNS_MAX:
                continue
            indexed += 1
            chunks = [footer.row_group(group).column(number) for group in range(footer.num_row_groups)]
            found = _bounds(chunks) if path not in self._with_nan else None
            if found is not None:
                _put(low, path, found[0])
                _put(high, path, found[1])
            counted = [chunk.statistics for chunk in chunks]
            if all(stats is not None and stats.has_null_count for stats in counted):
                _put(nulls, path, sum(stats.null_count for stats in counted))
        return to_json(
            {"numRecords": footer.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}
        )


def _put(into: dict[str, Any], path: Path, value: object) -> None:
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = value


def _bounds(chunks: list[pq.ColumnChunkMetaData]) -> tuple[Any, Any] | None:
    """Return the minimum and maximum of a column, or None if they are not certain."""
    low = high = None
    for chunk in chunks:
        stats = chunk.statistics
        if stats is None:
            return None
        if not stats.has_min_max:
            if stats.has_null_count and stats.num_values == 0:
                continue
            return None
        try:
            least, greatest = stats.min, stats.max
        except (OverflowError, ValueError):
            # A year outside the range of Python's datetime.
            return None
        low = least if low is None or least < low else low
        high = greatest if high is None or greatest > high else high
    if low is None:
        return None
    shown = _bound(low, upper=False), _bound(high, upper=True)
    return None if shown[0] is None or shown[1] is None else shown


def _bound(value: object, *, upper: bool) -> object:
    """Return a bound as a JSON value, or None if it has none."""
    if isinstance(value, bool | bytes):
        return None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return text if value.tzinfo is None else f"{text}Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str) and len(value) > TEXT_BOUND_LENGTH:
        start, rest = value[:TEXT_BOUND_LENGTH], value[TEXT_BOUND_LENGTH:]
        if not upper:
            return start
        return None if rest.startswith(_AFTER_EVERY_TEXT) else start + _AFTER_EVERY_TEXT
    return value if isinstance(value, int | str | Decimal) else None


def to_json(value: Any) -> str:
    """Encode JSON with decimals as exact numbers, not as floats."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{to_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Decimal):
        return format(value, "f")
    return json.dumps(value)
