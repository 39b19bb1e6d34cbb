"""Output of the commands: tables or JSON on stdout, errors on stderr with an exit code."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NoReturn

import typer
from rich.console import Console
from rich.table import Table

from ottla.client import ClusterClient
from ottla.client.errors import BrokerError, ClientError, UnknownTopicError

EXIT_FAILED = 1
# Interactive use: shorter timeouts than a service would use.
CONNECT_TIMEOUT_MS = 5_000
RETRY_TIMEOUT_MS = 10_000

# Output to a pipe is not wrapped: only a terminal has a width.
WIDTH_OF_PIPES = 400

console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else WIDTH_OF_PIPES)


def print_json(document: object) -> None:
    """Print a JSON document on stdout."""
    print(json.dumps(document, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """Create a table without rules, so that its lines can be processed by other tools."""
    found = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        found.add_column(
            column, justify="right" if column in right else "left", no_wrap=True, overflow="fold"
        )
    return found


def human_bytes(count: int) -> str:
    """1536 -> 1.5 KiB."""
    if count < 0:
        return "?"
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def fail(message: str, *, as_json: bool = False, **details: object) -> NoReturn:
    """Print one line on stderr and exit with code 1."""
    if as_json:
        print(json.dumps({"error": message, **details}, ensure_ascii=False), file=sys.stderr)
    else:
        print(f"ottla: {message}", file=sys.stderr)
    raise typer.Exit(EXIT_FAILED)


@asynccontextmanager
async def connected(bootstrap: str) -> AsyncIterator[ClusterClient]:
    """Open a client that has reached a broker, so that a wrong address is reported at once, not after
    retries."""
    try:
        cluster = ClusterClient(
            bootstrap,
            client_id="ottla-cli",
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            retry_timeout_ms=RETRY_TIMEOUT_MS,
        )
    except ValueError as error:
        raise typer.BadParameter(f"--bootstrap {bootstrap!r}: {error}") from error
    async with cluster:
        await cluster.any_connection()
        try:
            yield cluster
        except UnknownTopicError as error:
            raise await _with_suggestion(cluster, error) from error


async def _with_suggestion(cluster: ClusterClient, error: UnknownTopicError) -> ClientError:
    """Add the most similar topic name to the error."""
    import difflib

    await cluster.refresh(None)
    if error.topic is None or error.topic in cluster.view.topics:
        return error
    near = difflib.get_close_matches(error.topic, cluster.view.topics, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "'ottla topic list' shows all topics"
    return UnknownTopicError(error.code, topic=error.topic, detail=f"there is no such topic; {hint}")


def run_command(
    work: Callable[[], Awaitable[None]], *, as_json: bool, interrupted: int = EXIT_FAILED
) -> None:
    """Run a command's coroutine; errors become one line on stderr and an exit code."""

    async def awaited() -> None:
        await work()

    try:
        asyncio.run(awaited())
    except BrokerError as error:
        where = {"topic": error.topic, "partition": error.partition}
        if error.group is not None:
            where["group"] = error.group
        fail(str(error), as_json=as_json, code=error.code.name, **where)
    except ClientError as error:
        fail(str(error), as_json=as_json)
    except KeyboardInterrupt:
        raise typer.Exit(interrupted) from None
    except BrokenPipeError:
        # The reader of the output has closed the pipe (`| head`), which is not an error.
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
