"""The table: opening and creating it, whether this sink may write to it, and letting it grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltalake import DeltaTable, Schema
from deltalake.exceptions import TableNotFoundError
from deltalake.schema import Field
from pyspark.sql.types import StructField, StructType

from pyspark_ottla_lake.options import LakeOptions
from pyspark_ottla_lake.schemas import nullable_schema, schema_of_json

# What a writer of whole files cannot keep: a rule for each row, or names and numbers of its own.
_FIELD_RULES = {
    "delta.invariants": "an invariant",
    "delta.generationExpression": "a generated value",
    "delta.identity.start": "an identity value",
}


def open_table(options: LakeOptions) -> DeltaTable | None:
    """The table as it is now, or None if there is none."""
    try:
        return DeltaTable(options.path, storage_options=options.storage or None)
    except TableNotFoundError:
        return None


def create_table(options: LakeOptions, schema: StructType, partition_by: Sequence[str]) -> DeltaTable:
    """A table without rows. All columns may be null: later queries may leave them out.

    Raises CommitFailedError or DeltaError when somebody else created one meanwhile.
    """
    return DeltaTable.create(
        options.path,
        Schema.from_json(nullable_schema(schema).json()),
        mode="error",
        partition_by=list(partition_by),
        storage_options=options.storage or None,
    )


def add_columns(table: DeltaTable, columns: Sequence[StructField]) -> None:
    """One commit of its own: a new column is null everywhere, so nobody sees a difference in rows."""
    table.alter.add_columns([Field.from_json(column.json()) for column in columns])


def schema_of(table: DeltaTable) -> StructType:
    return schema_of_json(table.schema().to_json())


def partitioning_of(table: DeltaTable) -> tuple[str, ...]:
    return tuple(table.metadata().partition_columns)


def check_writable(table: DeltaTable, schema: StructType, overwrite: bool) -> None:
    """Raises ValueError for a table with rules that this sink does not keep."""
    configuration: Mapping[str, str] = table.metadata().configuration
    where = table.table_uri
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        raise ValueError(f"the table {where} maps its columns to other names: this sink cannot write to it")
    if configuration.get("delta.enableRowTracking", "false").lower() == "true":
        raise ValueError(f"the table {where} numbers its rows: this sink cannot write to it")
    rules = [name for name in configuration if name.startswith("delta.constraints.")]
    if rules:
        raise ValueError(f"the table {where} has the constraint {rules[0]!r}: this sink cannot check it")
    if overwrite and configuration.get("delta.appendOnly", "false").lower() == "true":
        raise ValueError(f"the table {where} is append-only: it cannot be overwritten")
    for field in schema.fields:
        for key, rule in _FIELD_RULES.items():
            if key in (field.metadata or {}):
                raise ValueError(f"the column {field.name!r} of {where} has {rule}: this sink cannot keep it")
