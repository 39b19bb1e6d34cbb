"""Schemas: the Arrow types of Spark types in Delta tables, and schema evolution."""

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
    """Raises ValueError with the column for a type that Delta does not support."""
    if isinstance(kind, StructType):
        if not kind.fields:
            raise ValueError(f"column {column!r} is a struct without fields, which Parquet does not support")
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
        raise ValueError(f"column {column!r} has type {kind.simpleString()}, which Delta does not support")
    return found


def arrow_field(field: StructField, column: str) -> pa.Field:
    return pa.field(field.name, arrow_type(field.dataType, column))


def arrow_schema(schema: StructType) -> pa.Schema:
    return pa.schema([arrow_field(field, field.name) for field in schema.fields])


def nullable(kind: DataType) -> DataType:
    """Return the type with nulls allowed everywhere, so that later writers may omit columns."""
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
    """Parse a Delta schema, which has the format of Spark's JSON schemas."""
    return StructType.fromJson(json.loads(text))


def check_columns(schema: StructType) -> None:
    """Raise ValueError for names that are duplicates in Delta, where names are case-insensitive."""
    seen: dict[str, str] = {}
    for name in schema.names:
        other = seen.setdefault(name.lower(), name)
        if other != name or schema.names.count(name) > 1:
            raise ValueError(f"columns {other!r} and {name!r} have the same name in Delta")


def check_partitioning(schema: StructType, partition_by: tuple[str, ...]) -> None:
    by_name = {field.name: field for field in schema.fields}
    for name in partition_by:
        if name not in by_name:
            raise ValueError(
                f"option 'partitionBy': no column {name!r}; the columns are {', '.join(schema.names)}"
            )
        if isinstance(by_name[name].dataType, _NOT_IN_A_PATH):
            kind = by_name[name].dataType.simpleString()
            raise ValueError(
                f"option 'partitionBy': column {name!r} has type {kind}, which cannot be a partition column"
            )
    if partition_by and len(partition_by) == len(schema.fields):
        raise ValueError("option 'partitionBy' has every column: at least one must be left for the files")


def spelled_as(table: StructType, schema: StructType) -> StructType:
    """Return the schema with the table's spelling of names that differ only in case."""
    names = {field.name.lower(): field.name for field in table.fields}
    return StructType(
        [
            StructField(names.get(field.name.lower(), field.name), field.dataType, field.nullable)
            for field in schema.fields
        ]
    )


def new_columns(table: StructType, schema: StructType, merge_schema: bool) -> list[StructField]:
    """Return the columns, with all their fields, to add to the table before files of the schema match it.

    Raises ValueError if a column has another type in the table, and for new columns without `merge_schema`.
    """
    found, names = [], []
    by_name = {field.name: field for field in table.fields}
    for field in schema.fields:
        existing = by_name.get(field.name)
        if existing is None:
            names.append(field.name)
            found.append(StructField(field.name, nullable(field.dataType), True))
            continue
        added = list(_new_fields(existing.dataType, field.dataType, field.name))
        if added:
            names += added
            found.append(StructField(field.name, nullable(field.dataType), True))
    if names and not merge_schema:
        listed = ", ".join(repr(name) for name in names)
        raise ValueError(
            f"the table has no column {listed}: to add new columns set the option 'mergeSchema' to true"
        )
    return found


def _new_fields(table: DataType, query: DataType, column: str) -> Iterator[str]:
    """Yield the names of new fields inside a column. Raises ValueError where types differ."""
    if isinstance(table, StructType) and isinstance(query, StructType):
        by_name = {field.name: field for field in table.fields}
        for field in query.fields:
            name = f"{column}.{field.name}"
            inner = by_name.get(field.name)
            if inner is None:
                _check_spelling(by_name, field.name, name)
                yield name
            else:
                _check_nulls(field.nullable and not inner.nullable, name)
                yield from _new_fields(inner.dataType, field.dataType, name)
    elif isinstance(table, ArrayType) and isinstance(query, ArrayType):
        _check_nulls(query.containsNull and not table.containsNull, f"{column}.element")
        yield from _new_fields(table.elementType, query.elementType, f"{column}.element")
    elif isinstance(table, MapType) and isinstance(query, MapType):
        _check_nulls(query.valueContainsNull and not table.valueContainsNull, f"{column}.value")
        yield from _new_fields(table.keyType, query.keyType, f"{column}.key")
        yield from _new_fields(table.valueType, query.valueType, f"{column}.value")
    elif arrow_type(table, column) != arrow_type(query, column):
        raise ValueError(
            f"column {column!r} is {table.simpleString()} in the table and {query.simpleString()} in the "
            "query: cast it in the query"
        )


def _check_nulls(looser: bool, column: str) -> None:
    if looser:
        raise ValueError(f"{column!r} is nullable in the query, but NOT NULL in the table")


def _check_spelling(existing: Iterable[str], name: str, column: str) -> None:
    """Refuse other spellings inside structs: unlike columns, these fields are matched by exact name."""
    for other in existing:
        if other.lower() == name.lower():
            raise ValueError(f"field {column!r} is spelled {other!r} in the table: rename it in the query")
