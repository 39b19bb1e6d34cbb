"""`ottla group`: list, describe, reset, seek, delete."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated

import typer

from ottla.cli.groups.reset_plan import Shift, Step, Target, plan_reset, why_not_empty
from ottla.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json
from ottla.cli.output import connected, console, plural, print_json, run_command, table
from ottla.cli.records.start_point import parse_start
from ottla.client import Admin, GroupInfo
from ottla.client.errors import ClientError, GroupNotEmptyError, UnknownGroupError
from ottla.protocol.errors import ErrorCode

app = typer.Typer(
    help="Consumer groups: list, describe (lag, members, causes of rebalances), reset, seek and delete.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

Names = Annotated[
    list[str], typer.Argument(metavar="GROUP", help="One or more group names.", show_default=False)
]
Name = Annotated[str, typer.Argument(metavar="GROUP", help="The group.", show_default=False)]


@app.command(
    "list",
    help="""List groups with their state, members and lag.

    `lag` is the number of records after the committed offsets of the group. `type` is `consumer` for groups
    of the new protocol (KIP-848), otherwise `classic`.

    Examples:

    - `ottla group list`
    - `ottla group list --state stable --type consumer`
    - `ottla group list --json | jq '.groups[] | select(.lag > 1000)'`
    """,
)
def list_groups(
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", metavar="STATE", help="Only groups in this state, e.g. stable; may be repeated."
        ),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="Only groups of this type: classic or consumer."),
    ] = None,
    lag: Annotated[bool, typer.Option("--lag/--no-lag", help="Compute the lag.")] = True,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    from ottla.cli.groups import view as group_view

    async def work() -> None:
        async with connected(bootstrap) as cluster:
            rows = await group_view.list_groups(Admin(cluster), state or [], kind or [], with_lag=lag)
        if as_json:
            print_json({"groups": rows})
        else:
            group_view.show_list(rows)

    run_command(work, as_json=as_json)


@app.command(
    "describe",
    help="""Show the committed offsets, members and last rebalances of groups.

    For each partition: the committed offset, the end offset, the difference (`lag`), and the member that owns
    it. Then the last rebalances: which members joined, left or timed out, and how long it took. The
    coordinator keeps these in memory, and only Ottla's brokers report them.

    Examples:

    - `ottla group describe billing`
    - `ottla group describe billing audit --rebalances 10`
    - `ottla group describe billing --json | jq '.groups[0].lag'`
    """,
)
def describe(
    names: Names,
    *,
    rebalances: Annotated[
        int, typer.Option("--rebalances", "-r", min=0, help="Number of rebalances to show.")
    ] = 3,
    read_committed: Annotated[
        bool,
        typer.Option("--read-committed", help="Compute the lag up to the last stable offset."),
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    from ottla.cli.groups import view as group_view

    async def work() -> None:
        async with connected(bootstrap) as cluster, _suggesting(Admin(cluster)) as admin:
            groups = await group_view.describe_groups(admin, names, read_committed=read_committed)
        if as_json:
            print_json({"groups": groups})
            return
        for number, group in enumerate(groups):
            if number:
                print()
            group_view.show_group(group, rebalances_max=rebalances)

    run_command(work, as_json=as_json)


@app.command(
    "reset",
    help="""Change the committed offsets of a group. Only shows the changes, unless `--execute` is given.

    `--to` is `earliest`, `latest`, an offset (`42`), the last N records of each partition (`-10`), a time
    (`2026-01-31T12:00` or `@1767225600000` in ms) or an age (`90s`, `15m`, `2h`, `7d`): the first record that
    is not older. `--shift-by` is relative to the committed offset. Offsets out of range are set to the
    beginning or the end of the partition.

    Without `--topic`: all partitions with a committed offset. The group must not have members. A group that
    does not exist is created if `--topic` is given.

    Examples:

    - `ottla group reset billing --to earliest`
    - `ottla group reset billing --to 2h --topic orders --execute`
    - `ottla group reset billing --shift-by=-100 --topic orders --partition 0 --execute`
    """,
)
def reset(
    name: Name,
    *,
    to: Annotated[
        str | None, typer.Option("--to", metavar="POINT", help="Where to.", show_default=False)
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option(
            "--shift-by", metavar="N", help="Number of records to move forward; negative: backward."
        ),
    ] = None,
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
    execute: Annotated[bool, typer.Option("--execute", help="Do it.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    if (to is None) == (shift_by is None):
        raise typer.BadParameter("no target: use --to POINT or --shift-by N")
    if partition and len(topic or ()) != 1:
        raise typer.BadParameter("--partition needs --topic, e.g. --topic orders --partition 0")
    target = Shift(shift_by) if shift_by is not None else _parse(to or "", "--to")
    topics = dict.fromkeys(topic or (), partition or None)
    _run_reset(name, target, topics, execute=execute, bootstrap=bootstrap, as_json=as_json)


@app.command(
    "seek",
    help="""Change the committed offset of a group in one partition.

    POINT has the same forms as in `reset --to`. The group must not have members.

    Examples:

    - `ottla group seek billing orders 0 42`
    - `ottla group seek billing orders 0 latest --dry-run`
    """,
)
def seek(
    name: Name,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", show_default=False)],
    partition: Annotated[
        int, typer.Argument(metavar="PARTITION", min=0, help="The partition.", show_default=False)
    ],
    point: Annotated[str, typer.Argument(metavar="POINT", help="An offset, a time, ...", show_default=False)],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the change.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    target = _parse(point, "POINT")
    _run_reset(name, target, {topic: [partition]}, execute=not dry_run, bootstrap=bootstrap, as_json=as_json)


@app.command(
    "delete",
    help="""Delete groups with their committed offsets. The groups must not have members.

    On a terminal, asks for confirmation unless `--yes` is given.

    Examples:

    - `ottla group delete billing`
    - `ottla group delete test-1 test-2 --yes --if-exists`
    """,
)
def delete(
    names: Names,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Do not fail if a group does not exist.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    if not yes and not as_json and sys.stdin.isatty() and sys.stdout.isatty():
        typer.confirm(f"Delete {', '.join(names)} and the committed offsets?", abort=True)

    async def work() -> None:
        deleted = []
        missing = []
        async with connected(bootstrap) as cluster, _suggesting(Admin(cluster)) as admin:
            for name in names:
                try:
                    await admin.delete_groups([name])
                    deleted.append(name)
                except UnknownGroupError:
                    if not if_exists:
                        raise
                    missing.append(name)
                except GroupNotEmptyError as error:
                    raise await _refusal(admin, name, error) from error
        if as_json:
            print_json({"deleted": deleted, "missing": missing})
            return
        for name in deleted:
            print(f"Deleted group {name}")
        for name in missing:
            print(f"Group {name} does not exist")

    run_command(work, as_json=as_json)


def _run_reset(
    name: str,
    target: Target,
    topics: Mapping[str, list[int] | None],
    *,
    execute: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    async def work() -> None:
        async with connected(bootstrap) as cluster:
            admin = Admin(cluster)
            group = next(iter(await admin.describe_groups([name], missing_ok=True)), None)
            active = group is not None and group.is_active
            if group is not None and active and execute:
                raise _not_empty(group)
            steps = await plan_reset(admin, name, target, topics)
            if execute:
                try:
                    offsets = {(step.topic, step.partition): step.new for step in steps}
                    await admin.alter_group_offsets(name, offsets)
                except GroupNotEmptyError as error:
                    # A member has joined in the meantime.
                    raise await _refusal(admin, name, error) from error
        if as_json:
            rows = [step.as_json() for step in steps]
            print_json({"group": name, "executed": execute, "active": active, "partitions": rows})
            return
        _show_steps(steps)
        if execute:
            print(f"\nChanged the offsets of group {name} in {plural(len(steps), 'partition')}")
        else:
            print("\nDry run: nothing was changed; use --execute to apply")
            if group is not None and active:
                print(f"ottla: --execute would fail: {why_not_empty(group)}", file=sys.stderr)

    run_command(work, as_json=as_json)


def _show_steps(steps: list[Step]) -> None:
    right = ("partition", "now", "new", "lag then")
    noted = any(step.note for step in steps)
    shown = table("topic", *right, *(("note",) if noted else ()), right=right)
    for step in steps:
        now = "-" if step.current < 0 else str(step.current)
        row = (step.topic, str(step.partition), now, str(step.new), str(step.lag))
        shown.add_row(*row, *((step.note,) if noted else ()))
    console.print(shown)


def _parse(text: str, option: str) -> Target:
    try:
        return parse_start(text, datetime.now(UTC), option)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _not_empty(group: GroupInfo) -> GroupNotEmptyError:
    return GroupNotEmptyError(ErrorCode.NON_EMPTY_GROUP, group=group.group_id, detail=why_not_empty(group))


async def _refusal(admin: Admin, name: str, error: GroupNotEmptyError) -> ClientError:
    """Add the names of the members to the error, if they are still there."""
    for group in await admin.describe_groups([name], missing_ok=True):
        if group.is_active:
            return _not_empty(group)
    return error


@asynccontextmanager
async def _suggesting(admin: Admin) -> AsyncIterator[Admin]:
    """Add the most similar group name to an error about an unknown group."""
    try:
        yield admin
    except UnknownGroupError as error:
        import difflib

        known = [row.group_id for row in await admin.list_groups()]
        near = difflib.get_close_matches(error.group or "", known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "'ottla group list' shows all groups"
        raise UnknownGroupError(
            error.code, group=error.group, detail=f"there is no such group; {hint}"
        ) from error
