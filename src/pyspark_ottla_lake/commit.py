"""The commit of a batch: all its files in one table transaction, exactly once.

The transaction has the query id and batch id as its application transaction. A repeated batch finds them in
the table and is skipped; if two drivers commit the same batch concurrently, one gets a conflict and then
finds it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql.types import StructType

from pyspark_ottla_lake.files import DataFile
from pyspark_ottla_lake.options import LakeOptions
from pyspark_ottla_lake.order import check_order
from pyspark_ottla_lake.schemas import new_columns
from pyspark_ottla_lake.storage import sync_log
from pyspark_ottla_lake.table import (
    add_columns,
    check_writable,
    create_table,
    open_table,
    partitioning_of,
    schema_of,
)

ATTEMPTS_MAX = 20
BACKOFF_FIRST_S = 0.02
BACKOFF_MAX_S = 2.0

# The application transaction: (query id, batch id), or (txnAppId, txnVersion) of a batch write.
App = tuple[str, int]


class FilesToCommit:
    """The files of one batch, their schema and their partitioning."""

    def __init__(self, files: Sequence[DataFile], schema: StructType, partition_by: tuple[str, ...]) -> None:
        self.files = files
        self.schema = schema
        self.partition_by = partition_by


def is_committed(table: DeltaTable | None, app: App) -> bool:
    if table is None:
        return False
    newest = table.transaction_version(app[0])
    return newest is not None and newest >= app[1]


def commit_files(
    options: LakeOptions,
    batch: FilesToCommit,
    app: App | None,
    *,
    overwrite: bool,
    skips_earlier: bool = True,
) -> bool:
    """Commit a batch unless it is committed already. Returns whether this call committed it.

    A batch before the last one is skipped as well, or raises CheckpointBehindError unless `skips_earlier`.
    Raises ValueError if the files do not match the table, DeltaError if the table cannot be written.
    """
    wait_s = BACKOFF_FIRST_S
    for attempt in range(ATTEMPTS_MAX):
        try:
            committed = _try_commit(options, batch, app, overwrite, skips_earlier)
            sync_table(options)
            return committed
        except CommitFailedError:
            # Another writer committed first, possibly the same batch: reload the table and try again.
            if attempt == ATTEMPTS_MAX - 1:
                raise
        time.sleep(wait_s * random.uniform(0.5, 1.0))
        wait_s = min(wait_s * 2, BACKOFF_MAX_S)
    raise AssertionError("the last attempt returns or raises")


def sync_table(options: LakeOptions) -> None:
    """Make the current version of a local table survive a power failure.

    This is also needed before a batch is skipped: the driver that committed it may have died before its sync,
    and Spark's checkpoint will not repeat the batch again.
    """
    if options.is_local:
        sync_log(options.path)


def _try_commit(
    options: LakeOptions, batch: FilesToCommit, app: App | None, overwrite: bool, skips_earlier: bool
) -> bool:
    table = open_table(options)
    if app is not None and table is not None and not skips_earlier:
        newest = table.transaction_version(app[0])
        check_order(options.path, app[1], -1 if newest is None else newest)
    if app is not None and is_committed(table, app):
        return False
    if table is None:
        table = _created(options, batch)
    schema = schema_of(table)
    check_writable(table, schema, overwrite)
    _check_partitioning(table, batch)
    grown = new_columns(schema, batch.schema, options.merge_schema)
    if grown:
        add_columns(table, grown)
        table.update_incremental()
    _check_not_null(schema, batch)
    if not batch.files and not overwrite:
        # An empty batch needs no commit to be idempotent: an idle stream adds no table versions.
        return False
    _write_transaction(table, batch.files, app, overwrite)
    return True


def _created(options: LakeOptions, batch: FilesToCommit) -> DeltaTable:
    try:
        return create_table(options, batch.schema, batch.partition_by)
    except DeltaError:
        table = open_table(options)
        if table is None:
            raise
        return table


def _check_partitioning(table: DeltaTable, batch: FilesToCommit) -> None:
    found = partitioning_of(table)
    if found != batch.partition_by:
        raise ValueError(
            f"table {table.table_uri} is partitioned by ({', '.join(found)}), "
            f"but the query writes by ({', '.join(batch.partition_by)})"
        )


def _check_not_null(schema: StructType, batch: FilesToCommit) -> None:
    for field in schema.fields:
        if field.nullable:
            continue
        if batch.files and field.name not in batch.schema.names:
            raise ValueError(f"column {field.name!r} is NOT NULL in the table, but missing in the query")
        if any(file.null_counts.get(field.name, 0) for file in batch.files):
            raise ValueError(f"column {field.name!r} is NOT NULL in the table, but the query has nulls")


def _write_transaction(
    table: DeltaTable, files: Sequence[DataFile], app: App | None, overwrite: bool
) -> None:
    actions: list[AddAction | RemoveAction] = [
        AddAction(file.path, file.size_bytes, file.partition_values, file.modified_ms, True, file.stats)
        for file in files
    ]
    properties = CommitProperties()
    if app is not None:
        properties = CommitProperties(
            app_transactions=[Transaction(app[0], app[1])],
            # For `ottla lake describe`: deltalake looks up one application id, but cannot list them.
            custom_metadata={"ottla.app": app[0], "ottla.version": app[1]},
        )
    table.create_write_transaction(
        actions,
        "overwrite" if overwrite else "append",
        table.schema(),
        list(partitioning_of(table)),
        commit_properties=properties,
    )
