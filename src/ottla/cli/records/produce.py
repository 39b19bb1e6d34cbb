"""`ottla produce`: send lines of stdin as records."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, pairs
from ottla.cli.output import connected, human_bytes, plural, print_json, run_command
from ottla.cli.records.record_json import RecordLine, record_from_json
from ottla.cli.records.stdin_lines import stdin_lines
from ottla.client import Producer
from ottla.client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.client import Delivery

HELP = """Send lines of stdin as records.

Examples:

- `echo hello | ottla produce orders`
- `ottla produce orders --key-separator : < lines-with-keys.txt`
- `ottla produce orders --header source=shop --compression zstd < data.txt`
- `ottla consume orders --json --until-end | ottla produce copy --format json`

With `--format json` a line is an object with `value` and optionally `key`, `headers`, `partition` and
`timestamp_ms`. `null` is a null value; `value_base64` contains binary data.
"""
PROGRESS_BYTES_MIN = 4 * 1024 * 1024


class Acks(StrEnum):
    ALL = "all"
    LEADER = "1"
    NONE = "0"


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class InputFormat(StrEnum):
    LINES = "lines"
    JSON = "json"


class Tally:
    """The number of delivered records per partition, and the first error."""

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self.partitions: dict[int, dict[str, int]] = {}
        self.error: BaseException | None = None

    def delivered(self, future: asyncio.Future[Delivery]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            self.error = self.error or error
            return
        delivery = future.result()
        self.records += 1
        row = self.partitions.setdefault(
            delivery.partition, {"records": 0, "first_offset": delivery.offset, "last_offset": -1}
        )
        row["records"] += 1
        row["last_offset"] = delivery.offset


def parse_line(line: bytes, separator: bytes | None, input_format: InputFormat) -> RecordLine:
    """Parse a line. Raises ValueError."""
    if input_format is InputFormat.JSON:
        return record_from_json(line)
    if separator is None:
        return RecordLine(None, line, (), None, None)
    key, found, value = line.partition(separator)
    if not found:
        raise ValueError(f"it does not contain the key separator {separator.decode(errors='replace')!r}")
    return RecordLine(key, value, (), None, None)


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to write to.", show_default=False)],
    *,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", help="Separator between key and value in a line.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Send all records to this partition.")
    ] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option(
            "--header", "--headers", metavar="KEY=VALUE", help="Header of every record; may be repeated."
        ),
    ] = None,
    acks: Annotated[
        Acks, typer.Option("--acks", help="Which replicas must have a record before it is acknowledged.")
    ] = Acks.ALL,
    compression: Annotated[Compression, typer.Option("--compression", "-z", help="Compression codec.")] = (
        Compression.NONE
    ),
    input_format: Annotated[InputFormat, typer.Option("--format", help="Format of the input lines.")] = (
        InputFormat.LINES
    ),
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    if key_separator == "":
        raise typer.BadParameter("--key-separator is empty: use at least one character")
    if key_separator is not None and input_format is InputFormat.JSON:
        raise typer.BadParameter('--key-separator needs --format lines: a JSON line has a "key"')
    fixed = tuple((k, v.encode()) for k, v in pairs(headers or (), "--header", "source=shop").items())
    separator = key_separator.encode() if key_separator is not None else None
    tally = Tally()
    started_s = time.perf_counter()

    async def work() -> None:
        if sys.stdin.isatty():
            print("Type one record per line; Ctrl-D ends the input.", file=sys.stderr)
        async with connected(bootstrap) as cluster:
            await cluster.topic(topic, create=True)
            options = {"acks": acks.value, "compression": compression.value}
            async with Producer(cluster, **options) as producer:  # type: ignore[arg-type]
                with progress_bar() as advance:
                    await send_lines(
                        producer,
                        topic,
                        parse=lambda line: parse_line(line, separator, input_format),
                        partition=partition,
                        headers=fixed,
                        tally=tally,
                        advance=advance,
                    )
                await producer.flush()
        if tally.error is not None:
            raise tally.error
        report(topic, tally, time.perf_counter() - started_s, as_json=as_json)

    run_command(work, as_json=as_json)


async def send_lines(
    producer: Producer,
    topic: str,
    *,
    parse: Callable[[bytes], RecordLine],
    partition: int | None,
    headers: tuple[tuple[str, bytes | None], ...],
    tally: Tally,
    advance: Callable[[int], None],
) -> None:
    """Send every line of stdin; stop at the first record that cannot be delivered."""
    number = 0
    async for lines in stdin_lines():
        for line in lines:
            number += 1
            if tally.error is not None:
                return
            try:
                record = parse(line)
            except ValueError as error:
                raise ClientError(f"line {number} of stdin: {error}") from error
            tally.bytes += len(line) + 1
            future = await producer.send(
                topic,
                record.value,
                key=record.key,
                partition=record.partition if partition is None else partition,
                headers=headers + record.headers,
                timestamp_ms=record.timestamp_ms,
            )
            future.add_done_callback(tally.delivered)
        advance(tally.bytes)


def report(topic: str, tally: Tally, took_s: float, *, as_json: bool) -> None:
    if as_json:
        partitions = {str(number): row for number, row in sorted(tally.partitions.items())}
        print_json({"topic": topic, "records": tally.records, "bytes": tally.bytes, "partitions": partitions})
        return
    spread = ", ".join(
        f"{row['records']} in partition {n}" for n, row in sorted(tally.partitions.items())[:8]
    )
    more = f" and {len(tally.partitions) - 8} more" if len(tally.partitions) > 8 else ""
    where = f" ({spread}{more})" if spread else ""
    print(f"Produced {plural(tally.records, 'record')} to {topic}{where} in {took_s:.2f} s", file=sys.stderr)


@contextmanager
def progress_bar() -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr for a large input file on a terminal; otherwise nothing."""
    status = os.fstat(sys.stdin.fileno())
    if not (stat.S_ISREG(status.st_mode) and status.st_size >= PROGRESS_BYTES_MIN and sys.stderr.isatty()):
        yield lambda done_bytes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(),
        TextColumn("{task.percentage:.0f}%"),
        TextColumn("{task.fields[sent]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=status.st_size, sent="")
        yield lambda done_bytes: progress.update(task, completed=done_bytes, sent=human_bytes(done_bytes))
