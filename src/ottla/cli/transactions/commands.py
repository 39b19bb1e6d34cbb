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
        "Transactions: list, describe, abort, and find those that hang.\n\n"
        "Readers of committed data wait at the first open transaction of a partition. When they stand still, "
        "`ottla txn list --state ongoing` shows who holds them up; `ottla txn hanging` finds what no "
        "coordinator knows of and nothing will ever end."
    ),
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
DEFAULT_MAX_TIMEOUT = "15m"  # transaction.max.timeout.ms of Kafka

Ids = Annotated[
    list[str], typer.Argument(metavar="ID", help="One or more transactional ids.", show_default=False)
]


@app.command(
    "list",
    help="""List transactional ids with their state, and for how long their transaction is open.

    States are `Empty` (nothing yet), `Ongoing`, `PrepareCommit` and `PrepareAbort` (ended, but not yet marked
    in all partitions), `CompleteCommit` and `CompleteAbort`.

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
        typer.Option("--state", metavar="STATE", help="Only in this state, e.g. ongoing; may be repeated."),
    ] = None,
    producer_id: Annotated[
        list[int] | None,
        typer.Option("--producer-id", metavar="N", help="Only with this producer id; may be repeated."),
    ] = None,
    longer_than: Annotated[
        str | None,
        typer.Option("--longer-than", metavar="TIME", help="Only if open for longer, e.g. 90s, 5m, 2h."),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option("--pattern", metavar="REGEX", help="Only ids that match as a whole."),
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
    help="""Show transactions: state, producer, time-out, since when, and in which partitions.

    For each partition of an open transaction: the offset at which it begins, which is where readers of
    committed data wait.

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

    `ottla txn abort ID` aborts what is open under a transactional id and fences its producer: that one gets
    an error at its next step and must start anew. It is what a new producer with the same id would do.

    `ottla txn abort --topic T --partition N --start-offset O` ends a transaction that hangs in one partition,
    as `ottla txn hanging` prints it. It is refused if a coordinator knows the transaction: the other
    partitions would not hear of it. `--force` does it nevertheless.

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
        str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Of a hanging one: the topic.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Of a hanging one: the partition.")
    ] = None,
    start_offset: Annotated[
        int | None,
        typer.Option("--start-offset", min=0, help="Of a hanging one: the offset at which it begins."),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also where it may break a promise: see above; two-phase commits."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    from ottla.cli.transactions import view as txn_view

    place = (topic, partition, start_offset)
    if bool(names) == any(each is not None for each in place):
        raise typer.BadParameter("say what to abort: ID, or --topic, --partition and --start-offset")
    if not names and None in place:
        raise typer.BadParameter("a hanging transaction needs all of --topic, --partition and --start-offset")
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
    help="""Find transactions that are open in a partition though nobody will ever end them.

    They come from old clients and lost coordinators, and hold up readers of committed data for ever. A
    transaction hangs if nothing was written in it for longer than `--max-transaction-timeout` (no transaction
    may last longer: `transaction.max.timeout.ms` of the brokers) and no coordinator has the partition in a
    transaction of that producer. The command that ends it is printed.

    The exit code is 0 whether something hangs or not.

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
        typer.Option("--topic", "-t", metavar="TOPIC", help="Only in this topic; may be repeated."),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", min=0, help="Only in this one of --topic; may be repeated."),
    ] = None,
    max_timeout: Annotated[
        str,
        typer.Option("--max-transaction-timeout", metavar="TIME", help="No transaction may last longer."),
    ] = DEFAULT_MAX_TIMEOUT,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    from ottla.cli.transactions import view as txn_view

    if partition and len(topic or ()) != 1:
        raise typer.BadParameter("--partition: say of which topic, e.g. --topic orders --partition 0")
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
        raise typer.BadParameter(f"{option} {text!r}: expected a time, e.g. 500ms, 90s, 15m, 2h, 7d")
    return int(found[1]) * UNITS_MS[found[2]]


@asynccontextmanager
async def _suggesting(admin: Admin) -> AsyncIterator[Admin]:
    """An unknown id is told with the one that was probably meant."""
    try:
        yield admin
    except UnknownTransactionalIdError as error:
        import difflib

        name = (error.detail or "").partition("'")[2].removesuffix("'")
        known = [row.transactional_id for row in await admin.list_transactions()]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "'ottla txn list' shows what exists"
        raise ClientError(f"{error.detail}; {hint}") from error
