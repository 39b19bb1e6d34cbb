"""`ottla lake`: describe, compact and vacuum the Delta tables of the lake sink."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ottla.cli.lake.table import LakeError, compacted, described, lake_errors, opened, vacuumed
from ottla.cli.options import Json, pairs
from ottla.cli.output import console, fail, human_bytes, plural, print_json, table

app = typer.Typer(
    help="Maintain Delta tables: describe them, compact small files, remove unused files.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

Path = Annotated[
    str,
    typer.Argument(metavar="PATH", help="Directory or URL of the table, e.g. s3://bucket/orders."),
]
Storage = Annotated[
    list[str] | None,
    typer.Option(
        "--storage", metavar="KEY=VALUE", help="Option of the object store, e.g. aws_region=eu-central-1."
    ),
]

MIB = 1024 * 1024


@app.command(
    "describe",
    help="""Show version, files, rows, size and partitions of a table, and the queries that wrote to it.

    Example: `ottla lake describe ./data/lake/orders`
    """,
)
def describe(path: Path, *, storage: Storage = None, as_json: Json = False) -> None:
    with failing(as_json):
        found = described(opened(path, _options(storage)))
        if as_json:
            print_json(found)
            return
        facts = table("", "")
        facts.add_row("table", path)
        facts.add_row("version", f"{found['version']}, last written {found['modified'] or 'never'}")
        facts.add_row("rows", f"{found['rows']:,}" if found["rows"] is not None else "not known")
        facts.add_row("files", f"{found['files']:,}, {human_bytes(found['bytes'])}{_small(found)}")
        if found["partition_columns"]:
            by = ", ".join(found["partition_columns"])
            facts.add_row("partitions", f"{found['partitions']:,}, by {by}")
        facts.show_header = False
        console.print(facts)
        console.print()
        columns = table("COLUMN", "TYPE")
        for column in found["columns"]:
            columns.add_row(column["name"], column["type"] + ("" if column["nullable"] else " not null"))
        console.print(columns)
        if found["transactions"]:
            console.print()
            writers = table("WRITER", "LAST BATCH", right=("LAST BATCH",))
            for writer in found["transactions"]:
                writers.add_row(writer["id"], str(writer["version"]))
            console.print(writers)


def _small(found: dict[str, Any]) -> str:
    if found["small_files"] < 2:
        return ""
    return f" ({found['small_files']:,} below 16 MiB: `ottla lake compact` merges them)"


@app.command(
    "compact",
    help="""Merge small files into larger ones.

    The rows do not change, and streams may continue to write. The old files are kept until a vacuum.

    Example: `ottla lake compact ./data/lake/orders --target-mb 256`
    """,
)
def compact(
    path: Path,
    *,
    target_mb: Annotated[
        int, typer.Option("--target-mb", min=1, help="Target size of the files, in MiB.")
    ] = 128,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    with failing(as_json):
        done = compacted(opened(path, _options(storage)), target_mb * MIB)
        if as_json:
            print_json(done)
        elif not done["removed"]:
            console.print("nothing to compact")
        else:
            before = f"{plural(done['removed'], 'file')} ({human_bytes(done['removed_bytes'])})"
            after = f"{plural(done['added'], 'file')} ({human_bytes(done['added_bytes'])})"
            console.print(f"{before} merged into {after}")


@app.command(
    "vacuum",
    help="""Remove files that are no longer used by the table, or were never committed to it.

    A file is removed when it has been unused for longer than the retention (by default one week). Until then
    older versions can be read, and batches in progress are safe.

    Example: `ottla lake vacuum ./data/lake/orders --dry-run`
    """,
)
def vacuum(
    path: Path,
    *,
    retention_hours: Annotated[
        int | None,
        typer.Option(
            "--retention-hours",
            min=0,
            help="Keep files that were in use within this time.",
            show_default="168",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the files.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Allow less than the table's retention; only safe if no writer is active."
        ),
    ] = False,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    with failing(as_json):
        files = vacuumed(opened(path, _options(storage)), retention_hours, dry_run=dry_run, force=force)
        if as_json:
            print_json({"files": files, "removed": not dry_run})
            return
        for name in files if dry_run else ():
            console.print(name, markup=False)
        verb = "would be removed" if dry_run else "removed"
        console.print(f"{plural(len(files), 'file')} {verb}")


def _options(storage: list[str] | None) -> dict[str, str]:
    return pairs(storage or [], "--storage", "aws_region=eu-central-1")


class failing:  # noqa: N801 - reads as a statement
    """Context manager that turns errors of a table into one line on stderr and an exit code."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (LakeError, *lake_errors())):
            fail(str(error).splitlines()[0], as_json=self._as_json)
