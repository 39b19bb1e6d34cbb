"""Schemas in a pipeline file, parsed as the data source does; errors have a position."""

from __future__ import annotations

import json

from ottla.pipeline.definition.document import suggestion
from pyspark_ottla.schema.ddl import ALL_TYPES, SchemaTextError, check_decodable, parse_columns


class SchemaError(Exception):
    """An invalid schema; `offset` is the position in its text."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset


def column_names(ddl: str, *, decoded: bool = False) -> list[str]:
    """Return the column names of a DDL schema in lower case. Raises SchemaError.

    `decoded`: the schema of a source, whose types must be decodable.
    """
    try:
        columns = parse_columns(ddl)
        if decoded:
            check_decodable([column.type for column in columns])
    except SchemaTextError as error:
        unknown = error.unknown_type
        hint = unknown and suggestion(unknown.upper(), [name.upper() for name in ALL_TYPES])
        raise SchemaError(error.offset, f"{error}; {hint}" if hint else str(error)) from None
    return [column.name.lower() for column in columns]


def avro_column_names(schema: str) -> list[str]:
    """Return the field names of an Avro record schema in lower case. Raises SchemaError."""
    try:
        parsed = json.loads(schema)
    except ValueError as error:
        raise SchemaError(0, f"the Avro schema is not valid JSON: {error}") from None
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise SchemaError(0, "the Avro schema must be a record")
    try:
        return [str(field["name"]).lower() for field in parsed["fields"]]
    except (KeyError, TypeError):
        raise SchemaError(0, "the Avro record must have named fields") from None
