"""Partitioning of rows, and partition values and directories as Delta writes them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

Values = tuple[str | None, ...]

NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"
# Characters that Hive or object stores escape in directory names.
_ESCAPED = frozenset("\"#%'*/:=?\\{}[]^\x7f~`<>|") | {chr(code) for code in range(0x20)}


def split(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[Values, pa.Table]]:
    """Split rows by partition. The partition columns are dropped: their values are in the log only."""
    if not columns:
        yield (), rows
        return
    keys = [f"key{number}" for number in range(len(columns))]
    numbered = pa.table(
        [rows.column(name) for name in columns] + [pa.array(range(rows.num_rows), pa.int32())],
        names=[*keys, "row"],
    )
    groups = numbered.group_by(keys, use_threads=False).aggregate([("row", "list")])
    rest = rows.drop_columns(list(columns))
    found = groups["row_list"].combine_chunks()
    for number, values in enumerate(zip(*(groups[key].to_pylist() for key in keys), strict=True)):
        written = tuple(value_text(value) for value in values)
        yield written, rest if groups.num_rows == 1 else rest.take(found[number].values)


def value_text(value: object) -> str | None:
    """Return a partition value as in Delta's log, where the empty string means null for every type."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value.isoformat(sep=" ", timespec="microseconds")
        text = value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"{text}Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return repr(value) if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
    return str(value)


def directory(columns: Sequence[str], values: Values) -> str:
    """Return a path such as `day=2026-01-01/country=at/`; empty without partitions."""
    return "".join(
        f"{escaped(column)}={NULL_DIRECTORY if value is None else escaped(value)}/"
        for column, value in zip(columns, values, strict=True)
    )


def escaped(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)
