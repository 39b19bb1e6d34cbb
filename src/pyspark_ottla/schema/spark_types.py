"""Spark types from schemas given as text.

Everything is nullable, as with Spark's `from_json`: a missing field is null, even if the schema says NOT
NULL.
"""

from __future__ import annotations

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

from pyspark_ottla.schema.ddl import SchemaTextError, Type, check_decodable, parse_columns, parse_type

_PLAIN: dict[str, type[DataType]] = {
    "boolean": BooleanType,
    "tinyint": ByteType,
    "smallint": ShortType,
    "int": IntegerType,
    "bigint": LongType,
    "float": FloatType,
    "double": DoubleType,
    "string": StringType,
    "binary": BinaryType,
    "date": DateType,
    "timestamp": TimestampType,
    "timestamp_ntz": TimestampNTZType,
}


def parse_ddl(text: str) -> DataType:
    """Parse columns into a StructType, or a single type. Raises ValueError with the position."""
    try:
        found = _columns_or_type(text)
        check_decodable([found])
    except SchemaTextError as error:
        raise ValueError(f"schema {text!r}: {error} (character {error.offset + 1})") from None
    return _spark_type(found)


def _columns_or_type(text: str) -> Type:
    try:
        return Type("struct", 0, columns=parse_columns(text))
    except SchemaTextError as error:
        try:
            return parse_type(text)
        except SchemaTextError:
            raise error from None


def _spark_type(of: Type) -> DataType:
    if of.name == "struct":
        return StructType([StructField(column.name, _spark_type(column.type)) for column in of.columns])
    if of.name == "array":
        return ArrayType(_spark_type(of.inner[0]))
    if of.name == "map":
        return MapType(StringType(), _spark_type(of.inner[1]))
    if of.name == "decimal":
        return DecimalType(*of.sizes)
    return _PLAIN[of.name]()


def nullable(kind: DataType) -> DataType:
    """Return the type with every field nullable. Raises ValueError for a type that cannot be decoded."""
    if isinstance(kind, StructType):
        return StructType([StructField(field.name, nullable(field.dataType)) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(nullable(kind.elementType))
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        return MapType(StringType(), nullable(kind.valueType))
    if isinstance(kind, DecimalType | StringType) or type(kind) in _PLAIN.values():
        return StringType() if isinstance(kind, StringType) else kind
    raise ValueError(f"type {kind.simpleString()} is not supported in a schema")
