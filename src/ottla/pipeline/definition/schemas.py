"""Schemas in a pipeline's file, read as the data source reads them; what is wrong is told with its place."""

from __future__ import annotations

from ottla.pipeline.definition.document import suggestion
from pyspark_ottla.schema.ddl import ALL_TYPES, SchemaTextError, check_decodable, parse_columns


class SchemaError(Exception):
    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset


def column_names(ddl: str, *, decoded: bool = False) -> list[str]:
    """The names of the columns in lower case; `decoded`: of a source, whose types values must have.

    Raises SchemaError, which says at which character.
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
