"""`ottla partition`: reassign replicas to other brokers, elect leaders."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from ottla.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json
from ottla.cli.output import EXIT_FAILED, connected, console, fail, plural, print_json, run_command, table
from ottla.cli.topics import reassign as moves
from ottla.cli.topics.reassign import Assignment, Progress
from ottla.client import Admin
from ottla.client.admin.cluster import ELECT_PREFERRED, ELECT_UNCLEAN, PartitionKey
from ottla.client.aio.pause import pause
from ottla.client.clock import backoff_between, deadline_in
from ottla.client.errors import BrokerError
from ottla.protocol.errors import ErrorCode

app = typer.Typer(
    help="Move partitions between brokers and elect their leaders.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

LEADERS_TIMEOUT_MS = 3_000

Topic = Annotated[
    str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="The topic.", show_default=False)
]
Partitions = Annotated[
    list[int] | None,
    typer.Option(
        "--partition", "-p", min=0, metavar="N", help="Only this partition of --topic; may be repeated."
    ),
]


class Kind(StrEnum):
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


class Action(StrEnum):
    """The action of `ottla partition reassign`."""

    EXECUTE = "--execute"
    DRY_RUN = "--dry-run"
    VERIFY = "--verify"
    CANCEL = "--cancel"
    LIST = "--list"


@app.command(
    "reassign",
    help="""Move partitions to other brokers, and verify or cancel a move.

    Describe the move in FILE, Kafka's reassignment JSON (`-` is stdin), or with `--topic` and `--replicas`.
    The first replica is the preferred leader. Without `--partition` all partitions of the topic move; the
    list is rotated from partition to partition, so that the leaders are spread over the brokers.

    The command returns when the move has started. `--verify` with the same arguments shows whether it is
    complete (exit code 0; 1 while it is not), and then removes the throttle.

    Examples:

    - `ottla partition reassign --topic orders --partition 0 --replicas 2,0,1`
    - `ottla partition reassign plan.json --throttle 10000000`
    - `ottla partition reassign plan.json --verify`
    - `ottla partition reassign --list`
    - `ottla partition reassign --topic orders --cancel`
    """,
)
def reassign(
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="Kafka's reassignment JSON.", show_default=False),
    ] = None,
    *,
    topic: Topic = None,
    partition: Partitions = None,
    replicas: Annotated[
        str | None,
        typer.Option("--replicas", "-r", metavar="ID,ID,...", help="Broker ids, preferred leader first."),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Start the move (the default).")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Show the progress; when complete, remove the throttle.")
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Cancel the move and return to the previous replicas.")
    ] = False,
    show_list: Annotated[bool, typer.Option("--list", help="List all moves in progress.")] = False,
    throttle: Annotated[
        int | None,
        typer.Option(
            "--throttle", min=1, metavar="BYTES", help="Limit of the move, in bytes per second and broker."
        ),
    ] = None,
    keep_throttle: Annotated[
        bool, typer.Option("--keep-throttle", help="Keep the throttle when verifying or cancelling.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    flags = {
        Action.EXECUTE: execute,
        Action.DRY_RUN: dry_run,
        Action.VERIFY: verify,
        Action.CANCEL: cancel,
        Action.LIST: show_list,
    }
    given = [action for action, is_set in flags.items() if is_set]
    if len(given) > 1:
        raise typer.BadParameter(f"use only one of {', '.join(given)}")
    action = given[0] if given else Action.EXECUTE
    if throttle is not None and action is not Action.EXECUTE:
        raise typer.BadParameter(f"--throttle can be used with --execute, not with {action}")
    selection = Selection(file, topic, partition, replicas, action)
    job = _Reassign(selection, action, throttle, keep_throttle, as_json)
    run_command(lambda: job.run(bootstrap), as_json=as_json)
    if job.failed:
        raise typer.Exit(EXIT_FAILED)


class Selection:
    """Return the selected partitions, from the file or the options. Raises typer.BadParameter."""

    def __init__(
        self,
        file: str | None,
        topic: str | None,
        partitions: list[int] | None,
        replicas: str | None,
        action: Action,
    ) -> None:
        self.topic = topic
        self.partitions = partitions
        self.given: Assignment | None = None
        self.replicas: list[int] | None = None
        if file is not None:
            if topic is not None or partitions or replicas is not None:
                raise typer.BadParameter("use either FILE or --topic with --replicas, not both")
            self.given = _read_file(file)
            return
        if partitions and topic is None:
            raise typer.BadParameter("--partition needs --topic, e.g. --topic orders --partition 0")
        if replicas is not None:
            if topic is None:
                raise typer.BadParameter("--replicas needs --topic, e.g. --topic orders --replicas 0,1,2")
            self.replicas = _parse_replicas(replicas)
        needs_replicas = action in (Action.EXECUTE, Action.DRY_RUN, Action.VERIFY)
        if needs_replicas and self.replicas is None:
            raise typer.BadParameter(
                "no partitions selected: use FILE, or --topic with --replicas, e.g. "
                "--topic orders --partition 0 --replicas 2,0,1"
            )
        if action is Action.CANCEL and topic is None:
            raise typer.BadParameter("--cancel needs FILE or --topic")

    async def keys(self, admin: Admin) -> list[PartitionKey]:
        """The selected partitions."""
        if self.given is not None:
            return list(self.given)
        assert self.topic is not None
        known = await moves.current_assignment(admin, [self.topic])
        if not self.partitions:
            return sorted(known)
        for number in self.partitions:
            if (self.topic, number) not in known:
                raise BrokerError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    topic=self.topic,
                    partition=number,
                    detail=f"the topic has partitions 0 to {len(known) - 1}",
                )
        return [(self.topic, number) for number in self.partitions]

    async def targets(self, admin: Admin) -> Assignment:
        if self.given is not None:
            return self.given
        assert self.replicas is not None
        keys = await self.keys(admin)
        # For a single partition the list is used unchanged.
        turn = not self.partitions
        return {key: moves.turned(self.replicas, key[1] if turn else 0) for key in keys}


class _Reassign:
    """One run of the command."""

    def __init__(
        self, selection: Selection, action: Action, throttle: int | None, keep_throttle: bool, as_json: bool
    ) -> None:
        self._selection = selection
        self._action = action
        self._throttle = throttle
        self._keep_throttle = keep_throttle
        self._as_json = as_json
        self.failed = False

    async def run(self, bootstrap: str) -> None:
        async with connected(bootstrap) as cluster:
            admin = Admin(cluster)
            if self._action is Action.LIST:
                await self._list(admin)
            elif self._action is Action.CANCEL:
                await self._cancel(admin)
            elif self._action is Action.VERIFY:
                await self._verify(admin)
            else:
                await self._begin(admin)

    async def _begin(self, admin: Admin) -> None:
        targets = await self._selection.targets(admin)
        now = await moves.current_assignment(admin, [topic for topic, _ in targets])
        for topic, number in targets:
            if (topic, number) not in now:
                raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic=topic, partition=number)
        before = {key: now[key] for key in targets}
        errors: dict[PartitionKey, BrokerError | None] = {}
        if self._action is Action.EXECUTE:
            if self._throttle is not None:
                await moves.set_throttle(admin, before, targets, self._throttle)
            errors = await admin.alter_partition_reassignments(targets)
        self.failed = any(errors.values())
        back = moves.to_document(before)
        if self._as_json:
            print_json(
                {
                    "begun": self._action is Action.EXECUTE,
                    "throttle": self._throttle,
                    "before": back,
                    "partitions": [
                        {
                            "topic": topic,
                            "partition": number,
                            "replicas": before[topic, number],
                            "target": target,
                            "error": str(errors[topic, number]) if errors.get((topic, number)) else None,
                        }
                        for (topic, number), target in targets.items()
                    ],
                }
            )
            return
        _say_errors(errors)
        shown = table("topic", "partition", "replicas", "target", right=("partition",))
        for (topic, number), target in sorted(targets.items()):
            if not errors.get((topic, number)):
                shown.add_row(topic, str(number), _ids(before[topic, number]), _ids(target))
        console.print(shown)
        print(f"Previous assignment, usable as FILE: {json.dumps(back)}")
        if self._action is Action.EXECUTE:
            begun = len(targets) - sum(1 for error in errors.values() if error)
            slow = f", throttled to {self._throttle} bytes per second" if self._throttle else ""
            print(f"Started to move {plural(begun, 'partition')}{slow}; --verify shows the progress")

    async def _verify(self, admin: Admin) -> None:
        rows = await moves.progress_of(admin, await self._selection.targets(admin))
        self.failed = any(row.state != moves.DONE for row in rows)
        removed = []
        if not self._keep_throttle and not any(row.state == moves.MOVING for row in rows):
            removed = await self._unthrottle(admin, [row.key for row in rows])
        self._show(rows, {"complete": not self.failed, "throttle_removed": removed})
        if not self._as_json:
            _say_removed(removed)
            left = sum(1 for row in rows if row.state != moves.DONE)
            print(f"{left} of {plural(len(rows), 'partition')} still moving" if left else "Complete")

    async def _cancel(self, admin: Admin) -> None:
        keys = await self._selection.keys(admin)
        answers = await moves.cancel(admin, keys)
        self.failed = any(answers.values())
        cancelled = [key for key, error in answers.items() if error is None]
        removed = []
        if not self._keep_throttle and not self.failed:
            removed = await self._unthrottle(admin, keys)
        if self._as_json:
            print_json(
                {
                    "cancelled": [{"topic": topic, "partition": number} for topic, number in cancelled],
                    "errors": [str(error) for error in answers.values() if error],
                    "throttle_removed": removed,
                }
            )
            return
        _say_errors(answers)
        _say_removed(removed)
        for topic, number in cancelled:
            print(f"Cancelled the move of {topic}-{number}")
        if not answers:
            print("None of these partitions was moving")

    async def _unthrottle(self, admin: Admin, keys: list[PartitionKey]) -> list[str]:
        """Remove the throttle; the rates of brokers apply to all moves, so they are removed with the last
        one."""
        idle = not await admin.list_partition_reassignments()
        return await moves.remove_throttle(admin, [topic for topic, _ in keys], brokers=idle)

    async def _list(self, admin: Admin) -> None:
        selection = self._selection
        chosen = None
        if selection.given is not None or selection.topic is not None:
            chosen = await selection.keys(admin)
        rows = moves.ongoing(await admin.list_partition_reassignments(chosen))
        self._show(rows, {})
        if not rows and not self._as_json:
            print("No partition is moving")

    def _show(self, rows: list[Progress], more: dict[str, Any]) -> None:
        if self._as_json:
            print_json({**more, "partitions": [row.as_json() for row in rows]})
        elif rows:
            columns = ("topic", "partition", "state", "replicas", "target", "adding", "removing")
            shown = table(*columns, right=("partition",))
            for row in rows:
                ids = (_ids(each) for each in (row.replicas, row.target, row.adding, row.removing))
                style = None if row.state == moves.DONE else "yellow"
                shown.add_row(row.key[0], str(row.key[1]), row.state, *ids, style=style)
            console.print(shown)


@app.command(
    "elect",
    help="""Elect leaders of partitions.

    `preferred` elects the first replica of a partition, for example after a restart; it must be in sync.
    `unclean` elects any live replica for a partition without a leader: records that this replica does not
    have are **lost**, so the command asks for confirmation on a terminal.

    Without `--topic`: all partitions. The exit code is 1 if an election failed.

    Examples:

    - `ottla partition elect preferred`
    - `ottla partition elect preferred --topic orders --partition 0`
    - `ottla partition elect unclean --topic orders --partition 0 --yes`
    """,
)
def elect(
    kind: Annotated[Kind, typer.Argument(help="Which election.", show_default=False)],
    *,
    topic: Topic = None,
    partition: Partitions = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    if partition and topic is None:
        raise typer.BadParameter("--partition needs --topic, e.g. --topic orders --partition 0")
    if kind is Kind.UNCLEAN and topic is None:
        raise typer.BadParameter("an unclean election can lose records: select partitions with --topic")
    if kind is Kind.UNCLEAN and not yes and not as_json and sys.stdin.isatty() and sys.stdout.isatty():
        typer.confirm(f"Elect leaders of {topic} that may not have all acknowledged records?", abort=True)
    refused: list[BrokerError] = []

    async def work() -> None:
        async with connected(bootstrap) as cluster:
            admin = Admin(cluster)
            keys = None
            if topic is not None:
                keys = await Selection(None, topic, partition, None, Action.LIST).keys(admin)
            code = ELECT_PREFERRED if kind is Kind.PREFERRED else ELECT_UNCLEAN
            answers = await admin.elect_leaders(code, keys)
            elected = [key for key, error in answers.items() if error is None]
            unneeded = [key for key, error in answers.items() if _not_needed(error)]
            refused.extend(error for error in answers.values() if error and not _not_needed(error))
            leaders = await _leaders(admin, elected, kind)
        if as_json:
            print_json(
                {
                    "elected": [
                        {"topic": name, "partition": number, "leader": leaders.get((name, number), -1)}
                        for name, number in elected
                    ],
                    "not_needed": [{"topic": name, "partition": number} for name, number in unneeded],
                    "errors": [str(error) for error in refused],
                }
            )
            return
        for name, number in elected:
            print(f"{name}-{number} has leader {leaders.get((name, number), 'another broker')}")
        if unneeded:
            print(f"{plural(len(unneeded), 'partition')} needed no election")
        if not answers:
            print("No partition needed an election")
        for error in refused:
            print(f"ottla: {error}", file=sys.stderr)

    run_command(work, as_json=as_json)
    if refused:
        raise typer.Exit(EXIT_FAILED)


def _not_needed(error: BrokerError | None) -> bool:
    return error is not None and error.code == ErrorCode.ELECTION_NOT_NEEDED


async def _leaders(admin: Admin, keys: list[PartitionKey], kind: Kind) -> dict[PartitionKey, int]:
    """Return the current leaders. The metadata of the broker may be outdated: a preferred leader is known
    without it, for another one the command waits.
    """
    deadline = deadline_in(LEADERS_TIMEOUT_MS)
    backoff = backoff_between(20, 200)
    while keys:
        topics = await admin.describe_topics(sorted({topic for topic, _ in keys}))
        rows = {(topic.name, number): row for topic in topics for number, row in topic.partitions.items()}
        if kind is Kind.PREFERRED:
            return {key: rows[key].replicas[0] for key in keys if key in rows}
        found = {key: rows[key].leader for key in keys if key in rows and rows[key].leader >= 0}
        if len(found) == len(keys) or deadline.passed:
            return found
        await pause(backoff, deadline)
    return {}


def _read_file(path: str) -> Assignment:
    try:
        if path == "-":
            return moves.parse_file(sys.stdin.read(), "stdin")
        with open(path, encoding="utf-8") as file:
            return moves.parse_file(file.read(), path)
    except OSError as error:
        fail(f"{path}: cannot read the file: {error.strerror}")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _parse_replicas(text: str) -> list[int]:
    try:
        return moves.checked_replicas([int(part) for part in text.split(",")], "--replicas")
    except ValueError as error:
        reason = f"--replicas {text!r}: expected distinct broker ids, separated by commas, e.g. 0,1,2"
        raise typer.BadParameter(reason) from error


def _ids(ids: Any) -> str:
    return ",".join(map(str, ids)) or "-"


def _say_errors(errors: dict[PartitionKey, BrokerError | None]) -> None:
    for error in errors.values():
        if error is not None:
            print(f"ottla: {error}", file=sys.stderr)


def _say_removed(removed: list[str]) -> None:
    if removed:
        print(f"Removed the throttle of {', '.join(removed)}")
