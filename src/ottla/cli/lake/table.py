"""Operations on Delta tables. deltalake is imported on first use."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltalake import DeltaTable

SMALL_FILE_BYTES = 16 * 1024 * 1024
# Number of commits that are searched for writers: the log can only be queried for the last batch of a given
# one.
HISTORY_LIMIT = 1000
RETENTION_HOURS = 168


class LakeError(Exception):
    """An error that is printed in one line."""


def lake_errors() -> tuple[type[Exception], ...]:
    """The exceptions of deltalake, if it is installed."""
    if "deltalake" not in sys.modules:
        return ()
    from deltalake.exceptions import DeltaError

    return (DeltaError, OSError)


def opened(path: str, storage: dict[str, str]) -> DeltaTable:
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError
    except ImportError:
        raise LakeError("'ottla lake' needs deltalake: pip install 'ottla[pipeline]'") from None
    try:
        return DeltaTable(path, storage_options=storage or None)
    except TableNotFoundError:
        raise LakeError(f"{path}: no Delta table found") from None


def described(table: DeltaTable) -> dict[str, Any]:
    """Return the figures of a table, in the form of the JSON output."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # deltalake returns Arrow data of another library, which pyarrow imports without a copy.
    files = pa.table(table.get_add_actions(flatten=True))
    sizes, counts = files["size_bytes"], files["num_records"] if "num_records" in files.column_names else None
    history = table.history(HISTORY_LIMIT)
    metadata = table.metadata()
    partition_columns = list(metadata.partition_columns)
    return {
        "path": table.table_uri,
        "version": table.version(),
        "modified": _time_text(history[0].get("timestamp")) if history else None,
        "rows": _rows(files.num_rows, counts),
        "files": files.num_rows,
        "small_files": pc.sum(pc.less(sizes, SMALL_FILE_BYTES)).as_py() or 0,
        "bytes": pc.sum(sizes).as_py() or 0,
        "partition_columns": partition_columns,
        "partitions": _partitions(files, partition_columns),
        "columns": [_column(field) for field in json.loads(table.schema().to_json())["fields"]],
        "transactions": _transactions(table, history),
        "configuration": dict(metadata.configuration),
    }


def _rows(files: int, counts: Any) -> int | None:
    """Return the number of rows; None if a file has no row count."""
    if files == 0:
        return 0
    if counts is None or counts.null_count:
        return None
    return int(sum(counts.to_pylist()))


def _partitions(files: Any, columns: list[str]) -> int:
    if not columns or not files.num_rows:
        return 0
    keys = [f"partition.{name}" for name in columns]
    return int(files.group_by(keys).aggregate([]).num_rows)


def _column(field: dict[str, Any]) -> dict[str, Any]:
    return {"name": field["name"], "type": type_text(field["type"]), "nullable": field["nullable"]}


def type_text(kind: Any) -> str:
    """`struct<a: long, b: array<string>>`."""
    if not isinstance(kind, dict):
        return str(kind)
    if kind["type"] == "array":
        return f"array<{type_text(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{type_text(kind['keyType'])}, {type_text(kind['valueType'])}>"
    fields = ", ".join(f"{field['name']}: {type_text(field['type'])}" for field in kind["fields"])
    return f"struct<{fields}>"


def _transactions(table: DeltaTable, history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the recent writers, newest first, with their last batch."""
    ids = dict.fromkeys(entry["ottla.app"] for entry in history if entry.get("ottla.app"))
    return [{"id": app_id, "version": table.transaction_version(app_id)} for app_id in ids]


def _time_text(timestamp_ms: int | None) -> str | None:
    if timestamp_ms is None:
        return None
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(sep=" ", timespec="seconds")


def compacted(table: DeltaTable, target_bytes: int) -> dict[str, int]:
    metrics = table.optimize.compact(target_size=target_bytes)
    return {
        "removed": metrics["numFilesRemoved"],
        "removed_bytes": _total(metrics["filesRemoved"]),
        "added": metrics["numFilesAdded"],
        "added_bytes": _total(metrics["filesAdded"]),
        "version": table.version(),
    }


def _total(metrics: Any) -> int:
    found = json.loads(metrics) if isinstance(metrics, str) else metrics
    return int(found["totalSize"] or 0)


def vacuumed(table: DeltaTable, retention_hours: int | None, *, dry_run: bool, force: bool) -> list[str]:
    """Remove files of old versions and files that were never committed; return them."""
    from deltalake.exceptions import DeltaError

    try:
        found = table.vacuum(
            retention_hours,
            dry_run=dry_run,
            # A dry run is harmless.
            enforce_retention_duration=not (force or dry_run),
            # Include files of failed tasks, which were never in the log.
            full=True,
        )
    except DeltaError as error:
        if "retention" not in str(error).lower() or force:
            raise
        raise LakeError(
            f"{retention_hours} hours is less than the table's retention ({RETENTION_HOURS} by default): "
            "files of a batch in progress could be removed; use --force if no writer is active"
        ) from None
    return sorted(found)
