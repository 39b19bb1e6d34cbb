"""The Delta table: opening, creating, adding columns, and checks for features this sink does not support."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltalake import DeltaTable, Schema
from deltalake.exceptions import TableNotFoundError
from deltalake.schema import Field
from pyspark.sql.types import StructField, StructType

from pyspark_ottla_lake.options import LakeOptions
from pyspark_ottla_lake.schemas import nullable_schema, schema_of_json

# Features that need a check or a value per row, which this sink does not support.
_FIELD_FEATURES = {
    "delta.invariants": "an invariant",
    "delta.generationExpression": "a generated value",
    "delta.identity.start": "an identity value",
}


def open_table(options: LakeOptions) -> DeltaTable | None:
    """Return the current version of the table, or None if it does not exist."""
    try:
        return DeltaTable(options.path, storage_options=options.storage or None)
    except TableNotFoundError:
        return None


def create_table(options: LakeOptions, schema: StructType, partition_by: Sequence[str]) -> DeltaTable:
    """Create an empty table. All columns are nullable, so that later queries may omit them.

    Raises CommitFailedError or DeltaError if another writer has created the table.
    """
    return DeltaTable.create(
        options.path,
        Schema.from_json(nullable_schema(schema).json()),
        mode="error",
        partition_by=list(partition_by),
        storage_options=options.storage or None,
    )


def add_columns(table: DeltaTable, columns: Sequence[StructField]) -> None:
    """Add columns in a separate commit: they are null in all rows, so readers see no other change."""
    table.alter.add_columns([Field.from_json(column.json()) for column in columns])


def schema_of(table: DeltaTable) -> StructType:
    return schema_of_json(table.schema().to_json())


def partitioning_of(table: DeltaTable) -> tuple[str, ...]:
    return tuple(table.metadata().partition_columns)


def check_writable(table: DeltaTable, schema: StructType, overwrite: bool) -> None:
    """Raise ValueError for a table with features that this sink does not support."""
    configuration: Mapping[str, str] = table.metadata().configuration
    where = table.table_uri
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        raise ValueError(f"table {where} uses column mapping, which this sink does not support")
    if configuration.get("delta.enableRowTracking", "false").lower() == "true":
        raise ValueError(f"table {where} uses row tracking, which this sink does not support")
    constraints = [name for name in configuration if name.startswith("delta.constraints.")]
    if constraints:
        raise ValueError(f"table {where} has the constraint {constraints[0]!r}, which this sink cannot check")
    if overwrite and configuration.get("delta.appendOnly", "false").lower() == "true":
        raise ValueError(f"table {where} is append-only: it cannot be overwritten")
    for field in schema.fields:
        for key, feature in _FIELD_FEATURES.items():
            if key in (field.metadata or {}):
                raise ValueError(
                    f"column {field.name!r} of table {where} has {feature}, which this sink does not support"
                )
