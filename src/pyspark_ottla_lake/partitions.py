"""Partitions: rows by their partition values, these as Delta writes them, and their directories."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

Values = tuple[str | None, ...]

NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"
# What Hive does not leave as it is in the name of a directory, and what object stores do not.
_ESCAPED = frozenset("\"#%'*/:=?\\{}[]^\x7f~`<>|") | {chr(code) for code in range(0x20)}


def split(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[Values, pa.Table]]:
    """Rows by partition, without the partition columns: their values are in the log, not in the files."""
    if not columns:
        yield (), rows
        return
    keys = [f"key{place}" for place in range(len(columns))]
    numbered = pa.table(
        [rows.column(name) for name in columns] + [pa.array(range(rows.num_rows), pa.int32())],
        names=[*keys, "row"],
    )
    groups = numbered.group_by(keys, use_threads=False).aggregate([("row", "list")])
    rest = rows.drop_columns(list(columns))
    found = groups["row_list"].combine_chunks()
    for place, values in enumerate(zip(*(groups[key].to_pylist() for key in keys), strict=True)):
        written = tuple(value_text(value) for value in values)
        yield written, rest if groups.num_rows == 1 else rest.take(found[place].values)


def value_text(value: object) -> str | None:
    """A partition value as Delta's log has it. The empty text is null there, for every type."""
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
    """`day=2026-01-01/country=at/`; empty without partitions."""
    return "".join(
        f"{escaped(column)}={NULL_DIRECTORY if value is None else escaped(value)}/"
        for column, value in zip(columns, values, strict=True)
    )


def escaped(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)
