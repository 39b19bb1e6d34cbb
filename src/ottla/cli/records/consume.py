"""`ottla consume`: print records on stdout."""

from __future__ import annotations

import asyncio
import string
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

import typer

from ottla.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json
from ottla.cli.output import connected, run_command
from ottla.cli.records.record_json import record_to_json
from ottla.cli.records.start_point import LastN, parse_start
from ottla.client import EARLIEST, LATEST, ConsumedRecord
from ottla.client.clock import deadline_in
from ottla.client.consumer.consumer import ISOLATION_LEVELS, Consumer, Start

HELP = """Print the records of a topic and wait for more.

Examples:

- `ottla consume orders`
- `ottla consume orders --from end --timestamps --keys`
- `ottla consume orders --from 2h --max 10 --json`
- `ottla consume orders --from=-5 --until-end`
- `ottla consume orders --template "{partition}/{offset} {key} -> {value}"`
- `ottla consume orders --group billing`
- `ottla consume orders --read-committed --until-end`

With `--group` the partitions are shared with the other members of the group, and reading continues at the
committed offsets; the offsets of printed records are committed. `--from` then applies only to partitions
without a committed offset.

`--from` is `beginning`, `end`, an offset (`42`), the last N records of each partition (`-10`), a time
(`2026-01-31T12:00` or `@1767225600000` in ms) or an age (`90s`, `15m`, `2h`, `7d`).
"""
FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
POLL_RECORDS_MAX = 1000
POLL_MS = 500

Separator = Annotated[
    str,
    typer.Option(
        "--separator", help="Separator between columns.", rich_help_panel="Output", show_default="tab"
    ),
]
Template = Annotated[
    str | None,
    typer.Option(
        "--template",
        help=f"Format of a line, with {{field}} for {', '.join(FIELDS)}.",
        rich_help_panel="Output",
    ),
]
Group = Annotated[
    str | None, typer.Option("--group", "-g", metavar="GROUP", help="Consume as a member of this group.")
]
From = Annotated[str, typer.Option("--from", "-f", metavar="POINT", help="Where to start.")]
UntilEnd = Annotated[bool, typer.Option("--until-end", "-e", help="Stop at the current end of the topic.")]
ReadCommitted = Annotated[
    bool,
    typer.Option("--read-committed", help="Read only committed records (isolation.level=read_committed)."),
]


def time_text(timestamp_ms: int) -> str:
    """Format a timestamp as ISO 8601 in UTC with milliseconds; a dash if there is none."""
    if timestamp_ms < 0:
        return "-"
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def headers_bytes(record: ConsumedRecord) -> bytes:
    return b",".join(name.encode() + b"=" + (b"null" if v is None else v) for name, v in record.headers)


class Line:
    """Formats records as lines: the value unchanged, preceded by the requested fields."""

    def __init__(
        self,
        *,
        keys: bool,
        headers: bool,
        timestamps: bool,
        offsets: bool,
        separator: str,
        template: str | None,
    ) -> None:
        self.keys = keys
        self.headers = headers
        self.timestamps = timestamps
        self.offsets = offsets
        self.separator = separator.encode()
        self.template = list(string.Formatter().parse(template)) if template is not None else None
        for _, field, spec, conversion in self.template or ():
            if field is not None and (field not in FIELDS or spec or conversion):
                raise ValueError(f"--template: unknown field {{{field}}}; the fields are {', '.join(FIELDS)}")

    def of(self, record: ConsumedRecord) -> bytes:
        if self.template is not None:
            parts = []
            for text, field, _, _ in self.template:
                parts += [text.encode(), self.field(record, field) if field is not None else b""]
            return b"".join(parts)
        columns = []
        if self.timestamps:
            columns.append(self.field(record, "timestamp"))
        if self.offsets:
            columns.append(b"%d:%d" % (record.partition, record.offset))
        if self.headers:
            columns.append(headers_bytes(record))
        if self.keys:
            columns.append(self.field(record, "key"))
        columns.append(self.field(record, "value"))
        return self.separator.join(columns)

    def field(self, record: ConsumedRecord, name: str) -> bytes:
        if name == "timestamp":
            return time_text(record.timestamp_ms).encode()
        if name == "headers":
            return headers_bytes(record)
        content = getattr(record, name)
        if content is None:
            return b"null"
        return content if isinstance(content, bytes) else str(content).encode()


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to read.", show_default=False)],
    *,
    start: From = "beginning",
    count_max: Annotated[
        int | None, typer.Option("--max", "-n", min=1, help="Stop after this number of records.")
    ] = None,
    timeout_s: Annotated[
        float | None,
        typer.Option("--timeout", "-t", min=0, help="Stop after this number of seconds without a record."),
    ] = None,
    until_end: UntilEnd = False,
    partitions: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", min=0, help="Read only this partition; may be repeated."),
    ] = None,
    group: Group = None,
    read_committed: ReadCommitted = False,
    keys: Annotated[bool, typer.Option("--keys", help="Show keys.", rich_help_panel="Output")] = False,
    headers: Annotated[
        bool, typer.Option("--headers", help="Show headers.", rich_help_panel="Output")
    ] = False,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="Show times.", rich_help_panel="Output")
    ] = False,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Show partition:offset.", rich_help_panel="Output")
    ] = False,
    separator: Separator = "\t",
    template: Template = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    try:
        point = parse_start(start, datetime.now(UTC))
        shown = {"keys": keys, "headers": headers, "timestamps": timestamps, "offsets": offsets}
        line = Line(**shown, separator=separator, template=template)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if group is not None and (partitions or isinstance(point, LastN)):
        raise typer.BadParameter(
            "--group cannot be combined with --partition or --from -N: the group assigns partitions and "
            "stores offsets (`ottla group reset` changes them)"
        )

    def write(records: list[ConsumedRecord]) -> None:
        make = (lambda record: record_to_json(record).encode()) if as_json else line.of
        sys.stdout.buffer.write(b"".join(make(record) + b"\n" for record in records))
        sys.stdout.buffer.flush()

    async def work() -> None:
        async with (
            connected(bootstrap) as cluster,
            Consumer(
                cluster,
                out_of_range="beginning",
                group_id=group,
                isolation_level=ISOLATION_LEVELS[read_committed],
            ) as consumer,
        ):
            if group is not None:
                await consume_as_member(consumer, topic, point, write, until_end, count_max, timeout_s)
                return
            await assign(consumer, topic, partitions, point)
            ends = await end_offsets(consumer, consumer.assignment) if until_end else None
            await pump(consumer, write, ends=ends, count_max=count_max, silence_s=timeout_s)

    # Ctrl-C is the normal way to stop waiting for more records.
    run_command(work, as_json=as_json, interrupted=0)


async def assign(consumer: Consumer, topic: str, partitions: list[int] | None, point: Start | LastN) -> None:
    if not isinstance(point, LastN):
        await consumer.assign(topic, partitions, start=point)
        return
    await consumer.assign(topic, partitions, start="end")
    firsts = await consumer.list_offsets(dict.fromkeys(consumer.assignment, EARLIEST))
    for key, first in firsts.items():
        end = consumer.position(*key)
        await consumer.seek(*key, max(first.offset, end - point))


async def consume_as_member(
    consumer: Consumer,
    topic: str,
    point: Start,
    write: Callable[[list[ConsumedRecord]], None],
    until_end: bool,
    count_max: int | None,
    silence_s: float | None,
) -> None:
    """Consume as a group member. The assignment is known only while reading; the end is that of all
    partitions."""
    info = await consumer.cluster.topic(topic)
    ends = None
    if until_end:
        ends = await end_offsets(consumer, [(topic, number) for number in info.partitions])
    consumer.subscribe(topic, start=point)
    try:
        await pump(consumer, write, ends=ends, count_max=count_max, silence_s=silence_s)
    except asyncio.CancelledError:
        # Ctrl-C: everything that was received is printed.
        await consumer.commit()
        raise


async def end_offsets(consumer: Consumer, keys: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    found = await consumer.list_offsets(dict.fromkeys(keys, LATEST), read_committed=consumer.read_committed)
    return {key: at.offset for key, at in found.items()}


async def pump(
    consumer: Consumer,
    write: Callable[[list[ConsumedRecord]], None],
    *,
    ends: dict[tuple[str, int], int] | None,
    count_max: int | None,
    silence_s: float | None,
) -> None:
    """Print records until the maximum, the end offsets or the timeout is reached."""
    left = count_max
    silence_ms = float("inf") if silence_s is None else silence_s * 1000
    silence = deadline_in(silence_ms)
    while left is None or left > 0:
        if ends is not None and is_at_end(consumer, ends):
            return
        wanted = POLL_RECORDS_MAX if left is None else min(left, POLL_RECORDS_MAX)
        records = await consumer.poll(wanted, timeout_ms=min(POLL_MS, silence.left_ms))
        if ends is not None and consumer.group_id is None:
            records = [record for record in records if record.offset < ends[record.topic, record.partition]]
        if records:
            write(records)
            left = None if left is None else left - len(records)
            silence = deadline_in(silence_ms)
        elif silence.passed:
            return


def is_at_end(consumer: Consumer, ends: dict[tuple[str, int], int]) -> bool:
    """Whether all assigned partitions are at their end; False for a group member without an assignment."""
    ours = consumer.assignment
    return bool(ours) and all(consumer.position(*key) >= ends.get(key, 0) for key in ours)
