"""Schemas: what of Spark's types Delta holds, as which Arrow types, and how a table's columns may grow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_ARROW: dict[type[DataType], pa.DataType] = {
    StringType: pa.string(),
    BinaryType: pa.binary(),
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us", "UTC"),
    TimestampNTZType: pa.timestamp("us"),
}
_NOT_IN_A_PATH = (StructType, ArrayType, MapType, BinaryType)


def arrow_type(kind: DataType, column: str) -> pa.DataType:
    """Raises ValueError, naming the column, for a type that a Delta table cannot hold."""
    if isinstance(kind, StructType):
        if not kind.fields:
            raise ValueError(f"the column {column!r} is a struct without fields: Parquet cannot hold it")
        return pa.struct([arrow_field(field, f"{column}.{field.name}") for field in kind.fields])
    if isinstance(kind, ArrayType):
        return pa.list_(pa.field("element", arrow_type(kind.elementType, f"{column}.element")))
    if isinstance(kind, MapType):
        return pa.map_(
            arrow_type(kind.keyType, f"{column}.key"), arrow_type(kind.valueType, f"{column}.value")
        )
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    found = next((arrow for spark, arrow in _ARROW.items() if isinstance(kind, spark)), None)
    if found is None:
        raise ValueError(
            f"the column {column!r} is {kind.simpleString()}: a Delta table cannot hold that type"
        )
    return found


def arrow_field(field: StructField, column: str) -> pa.Field:
    return pa.field(field.name, arrow_type(field.dataType, column))


def arrow_schema(schema: StructType) -> pa.Schema:
    return pa.schema([arrow_field(field, field.name) for field in schema.fields])


def nullable(kind: DataType) -> DataType:
    """The same type with nulls allowed everywhere, so that later writers may leave a column out."""
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, nullable(f.dataType), True) for f in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(nullable(kind.elementType), True)
    if isinstance(kind, MapType):
        return MapType(nullable(kind.keyType), nullable(kind.valueType), True)
    return kind


def nullable_schema(schema: StructType) -> StructType:
    found = nullable(schema)
    assert isinstance(found, StructType)
    return found


def schema_of_json(text: str) -> StructType:
    """Delta writes schemas as Spark does."""
    return StructType.fromJson(json.loads(text))


def check_columns(schema: StructType) -> None:
    """Raises ValueError for names that Delta does not tell apart."""
    seen: dict[str, str] = {}
    for name in schema.names:
        other = seen.setdefault(name.lower(), name)
        if other != name or schema.names.count(name) > 1:
            raise ValueError(f"the columns {other!r} and {name!r} have the same name for Delta")


def check_partitioning(schema: StructType, partition_by: tuple[str, ...]) -> None:
    by_name = {field.name: field for field in schema.fields}
    for name in partition_by:
        if name not in by_name:
            raise ValueError(
                f"option 'partitionBy' names {name!r}: the columns are {', '.join(schema.names)}"
            )
        if isinstance(by_name[name].dataType, _NOT_IN_A_PATH):
            kind = by_name[name].dataType.simpleString()
            raise ValueError(
                f"option 'partitionBy' names {name!r}, which is {kind}: no table is partitioned by it"
            )
    if partition_by and len(partition_by) == len(schema.fields):
        raise ValueError("option 'partitionBy' names every column: a file needs at least one of its own")


def spelled_as(table: StructType, schema: StructType) -> StructType:
    """The schema with the names of the table where they differ in case only, as Delta compares them."""
    names = {field.name.lower(): field for field in table.fields}
    fields = []
    for field in schema.fields:
        there = names.get(field.name.lower())
        fields.append(
            StructField(field.name if there is None else there.name, field.dataType, field.nullable)
        )
    return StructType(fields)


def new_columns(table: StructType, schema: StructType, merge_schema: bool) -> list[StructField]:
    """Columns (whole, with all their fields) that the table must get before files of that schema fit it.

    Raises ValueError for a type that is another one in the table, and for new columns where none are wanted.
    """
    found, names = [], []
    by_name = {field.name: field for field in table.fields}
    for field in schema.fields:
        there = by_name.get(field.name)
        if there is None:
            names.append(field.name)
            found.append(StructField(field.name, nullable(field.dataType), True))
            continue
        grown = list(_growth(there.dataType, field.dataType, field.name))
        if grown:
            names += grown
            found.append(StructField(field.name, nullable(field.dataType), True))
    if names and not merge_schema:
        listed = ", ".join(repr(name) for name in names)
        raise ValueError(
            f"the table has no {listed}: set the option 'mergeSchema' to true to add new columns"
        )
    return found


def _growth(there: DataType, here: DataType, column: str) -> Iterator[str]:
    """The names of fields that are new inside of a column. Raises ValueError where types differ."""
    if isinstance(there, StructType) and isinstance(here, StructType):
        by_name = {field.name: field for field in there.fields}
        for field in here.fields:
            name = f"{column}.{field.name}"
            inner = by_name.get(field.name)
            if inner is None:
                _check_spelling(by_name, field.name, name)
                yield name
            else:
                _check_nulls(field.nullable and not inner.nullable, name)
                yield from _growth(inner.dataType, field.dataType, name)
    elif isinstance(there, ArrayType) and isinstance(here, ArrayType):
        _check_nulls(here.containsNull and not there.containsNull, f"{column}.element")
        yield from _growth(there.elementType, here.elementType, f"{column}.element")
    elif isinstance(there, MapType) and isinstance(here, MapType):
        _check_nulls(here.valueContainsNull and not there.valueContainsNull, f"{column}.value")
        yield from _growth(there.keyType, here.keyType, f"{column}.key")
        yield from _growth(there.valueType, here.valueType, f"{column}.value")
    elif arrow_type(there, column) != arrow_type(here, column):
        raise ValueError(
            f"the column {column!r} is {there.simpleString()} in the table and {here.simpleString()} in the "
            "query: cast it in the query"
        )


def _check_nulls(looser: bool, column: str) -> None:
    if looser:
        raise ValueError(f"{column!r} may be null in the query and must not be in the table")


def _check_spelling(there: Iterable[str], name: str, column: str) -> None:
    """Inside of structs names cannot be mended: Arrow goes by them."""
    for other in there:
        if other.lower() == name.lower():
            raise ValueError(
                f"the field {column!r} is spelled {other!r} in the table: spell it so in the query"
            )
