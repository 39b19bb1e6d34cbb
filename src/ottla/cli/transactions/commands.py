"""`ottla txn`: list, describe, abort, hanging."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import typer

from ottla.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json
from ottla.cli.output import connected, print_json, run_command
from ottla.client import Admin
from ottla.client.errors import ClientError, UnknownTransactionalIdError

app = typer.Typer(
    help=(
        "Transactions: list, describe, abort, and find hanging ones.\n\n"
        "read_committed consumers wait at the first open transaction of a partition. If they make no "
        "progress, `ottla txn list --state ongoing` shows the open transactions; `ottla txn hanging` finds "
        "transactions that no coordinator knows and that would never end."
    ),
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
DEFAULT_MAX_TIMEOUT = "15m"  # Kafka's default of transaction.max.timeout.ms

Ids = Annotated[
    list[str], typer.Argument(metavar="ID", help="One or more transactional ids.", show_default=False)
]


@app.command(
    "list",
    help="""List transactional ids with their state, and how long their transaction has been open.

    The states are `Empty` (no transaction yet), `Ongoing`, `PrepareCommit` and `PrepareAbort` (ended, but
    markers are missing in some partitions), `CompleteCommit` and `CompleteAbort`.

    Examples:

    - `ottla txn list`
    - `ottla txn list --state ongoing --longer-than 5m`
    - `ottla txn list --pattern 'billing-.*' --json | jq '.transactions[].transactional_id'`
    """,
)
def list_transactions(
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", metavar="STATE", help="Only transactions in this state, e.g. ongoing; may be repeated."
        ),
    ] = None,
    producer_id: Annotated[
        list[int] | None,
        typer.Option(
            "--producer-id", metavar="N", help="Only transactions of this producer id; may be repeated."
        ),
    ] = None,
    longer_than: Annotated[
        str | None,
        typer.Option(
            "--longer-than", metavar="TIME", help="Only transactions begun longer ago, e.g. 90s, 5m, 2h."
        ),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern", metavar="REGEX", help="Only ids that match this regular expression completely."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    from ottla.cli.transactions import view as txn_view

    longer_than_ms = -1 if longer_than is None else _duration_ms(longer_than, "--longer-than")

    async def work() -> None:
        async with connected(bootstrap) as cluster:
            rows = await txn_view.list_transactions(
                Admin(cluster), state or [], producer_id or [], longer_than_ms, pattern
            )
        if as_json:
            print_json({"transactions": rows})
        else:
            txn_view.show_list(rows)

    run_command(work, as_json=as_json)


@app.command(
    "describe",
    help="""Show transactions: state, producer, timeout, start time and partitions.

    For each partition of an open transaction: its first offset, where read_committed consumers wait.

    Examples:

    - `ottla txn describe billing-1`
    - `ottla txn describe billing-1 --json | jq '.transactions[0].partitions'`
    """,
)
def describe(
    names: Ids,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    from ottla.cli.transactions import view as txn_view

    async def work() -> None:
        async with connected(bootstrap) as cluster, _suggesting(Admin(cluster)) as admin:
            rows = await txn_view.describe_transactions(admin, names)
        if as_json:
            print_json({"transactions": rows})
            return
        for number, row in enumerate(rows):
            if number:
                print()
            txn_view.show_transaction(row)

    run_command(work, as_json=as_json)


@app.command(
    "abort",
    help="""Abort an open transaction.

    `ottla txn abort ID` aborts the open transaction of a transactional id and fences its producer, which gets
    an error at its next request and must be restarted. A new producer with the same id has the same effect.

    `ottla txn abort --topic T --partition N --start-offset O` aborts a hanging transaction in one partition,
    as printed by `ottla txn hanging`. It fails if a coordinator knows the transaction, because it would not
    be aborted in the other partitions; `--force` aborts it anyway.

    Examples:

    - `ottla txn abort billing-1`
    - `ottla txn abort --topic orders --partition 0 --start-offset 4711`
    """,
)
def abort(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Transactional ids.", show_default=False),
    ] = None,
    *,
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Topic of a hanging transaction.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Partition of a hanging transaction.")
    ] = None,
    start_offset: Annotated[
        int | None,
        typer.Option("--start-offset", min=0, help="First offset of a hanging transaction."),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Also if a coordinator knows the transaction, or it may be prepared (two-phase commit).",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    from ottla.cli.transactions import view as txn_view

    place = (topic, partition, start_offset)
    if bool(names) == any(each is not None for each in place):
        raise typer.BadParameter("nothing to abort: use ID, or --topic, --partition and --start-offset")
    if not names and None in place:
        raise typer.BadParameter("a hanging transaction needs --topic, --partition and --start-offset")
    if not yes and not as_json and sys.stdin.isatty() and sys.stdout.isatty():
        what = ", ".join(names) if names else f"the transaction at {topic}-{partition} offset {start_offset}"
        typer.confirm(f"Abort {what}?", abort=True)

    async def work() -> None:
        async with connected(bootstrap) as cluster, _suggesting(Admin(cluster)) as admin:
            if names:
                rows = await txn_view.abort_ids(admin, names, force=force)
            else:
                assert topic is not None and partition is not None and start_offset is not None
                rows = [await txn_view.abort_at(admin, topic, partition, start_offset, force=force)]
        if as_json:
            print_json({"aborted": rows})
        else:
            txn_view.show_aborted(rows)

    run_command(work, as_json=as_json)


@app.command(
    "hanging",
    help="""Find hanging transactions: open in a partition, but unknown to any coordinator.

    They are caused by old clients and lost coordinators, and block read_committed consumers for ever. A
    transaction hangs if its last record is older than `--max-transaction-timeout` (the
    `transaction.max.timeout.ms` of the brokers) and no coordinator has the partition in a transaction of that
    producer. The command that aborts it is printed.

    The exit code is 0 whether or not any are found.

    Examples:

    - `ottla txn hanging`
    - `ottla txn hanging --topic orders --partition 0`
    - `ottla txn hanging --json | jq -r '.hanging[].abort' | sh`
    """,
)
def hanging(
    *,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", "-t", metavar="TOPIC", help="Only partitions of this topic; may be repeated."
        ),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", min=0, help="Only this partition of --topic; may be repeated."),
    ] = None,
    max_timeout: Annotated[
        str,
        typer.Option(
            "--max-transaction-timeout", metavar="TIME", help="transaction.max.timeout.ms of the brokers."
        ),
    ] = DEFAULT_MAX_TIMEOUT,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    from ottla.cli.transactions import view as txn_view

    if partition and len(topic or ()) != 1:
        raise typer.BadParameter("--partition needs --topic, e.g. --topic orders --partition 0")
    max_timeout_ms = _duration_ms(max_timeout, "--max-transaction-timeout")

    async def work() -> None:
        async with connected(bootstrap) as cluster:
            admin = Admin(cluster)
            rows = await txn_view.find_hanging(admin, topic or [], partition or [], max_timeout_ms)
        if as_json:
            print_json({"hanging": rows})
        else:
            txn_view.show_hanging(rows, max_timeout)

    run_command(work, as_json=as_json)


def _duration_ms(text: str, option: str) -> int:
    found = re.fullmatch(r"(\d+)(ms|s|m|h|d)", text)
    if found is None:
        raise typer.BadParameter(f"{option} {text!r}: expected a duration, e.g. 500ms, 90s, 15m, 2h, 7d")
    return int(found[1]) * UNITS_MS[found[2]]


@asynccontextmanager
async def _suggesting(admin: Admin) -> AsyncIterator[Admin]:
    """Add the most similar id to an error about an unknown transactional id."""
    try:
        yield admin
    except UnknownTransactionalIdError as error:
        import difflib

        name = (error.detail or "").partition("'")[2].removesuffix("'")
        known = [row.transactional_id for row in await admin.list_transactions()]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "'ottla txn list' shows all transactional ids"
        raise ClientError(f"{error.detail}; {hint}") from error
