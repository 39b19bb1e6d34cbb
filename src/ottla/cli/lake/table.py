"""What `ottla lake` asks of a Delta table. Imports deltalake only when it is called."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltalake import DeltaTable

SMALL_FILE_BYTES = 16 * 1024 * 1024
# How far back writers are looked for: the log can be asked for the last batch of one, not for all of them.
HISTORY_LIMIT = 1000
RETENTION_HOURS = 168


class LakeError(Exception):
    """Said in one line to whoever ran the command."""


def lake_errors() -> tuple[type[Exception], ...]:
    """What deltalake raises, if it is here at all."""
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
        raise LakeError(f"there is no Delta table at {path}") from None


def described(table: DeltaTable) -> dict[str, Any]:
    """The table in numbers, as `--json` prints it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # deltalake hands out Arrow of another library: pyarrow takes it over without a copy.
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
    """None where a file does not say how many it has."""
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
    """Who wrote lately, newest first, and the last batch that the table has of each."""
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
    """Files that were removed, or would be: of old versions, and those that were never committed."""
    from deltalake.exceptions import DeltaError

    try:
        found = table.vacuum(
            retention_hours,
            dry_run=dry_run,
            # To look is harmless.
            enforce_retention_duration=not (force or dry_run),
            # Also what failed tasks left behind, which no log has ever named.
            full=True,
        )
    except DeltaError as error:
        if "retention" not in str(error).lower() or force:
            raise
        raise LakeError(
            f"{retention_hours} hours is less than the table keeps ({RETENTION_HOURS} by default): "
            "files of a batch that is being written now could go; use --force if nobody writes to it"
        ) from None
    return sorted(found)
