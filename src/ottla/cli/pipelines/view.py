"""Output of a running pipeline: a live table on a terminal, otherwise lines, or JSON lines."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime
from types import TracebackType
from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ottla.cli.output import console, human_bytes, table
from ottla.pipeline.definition.model import Pipeline
from ottla.pipeline.queries.progress import QueryProgress

# Interval between log lines of an active query; an idle one logs nothing.
LINE_EVERY_S = 5.0
RIGHT = ("batch", "rows", "rows/s", "batch ms", "lag", "state", "dead letters")


class View:
    """Output as lines; base of the other views."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self._told: dict[str, tuple[int, float]] = {}

    def __enter__(self) -> View:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to restore."""

    def emit(self, event: str, text: str, **details: object) -> None:
        self._print(f"{self.pipeline.name}: {text}")

    def fail(self, text: str, **details: object) -> None:
        print(f"ottla: {text}", file=sys.stderr, flush=True)

    def progress(self, queries: Sequence[QueryProgress]) -> None:
        now_s = time.monotonic()
        for query in queries:
            batch, told_s = self._told.get(query.name, (-1, float("-inf")))
            if query.batch_id > batch and now_s - told_s >= LINE_EVERY_S:
                self._told[query.name] = (query.batch_id, now_s)
                self.line(query)

    def line(self, query: QueryProgress) -> None:
        self._print(f"{self.pipeline.name}.{query.name}: {facts_of(query)}")

    def rows(self, sink: str, batch_id: int, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self._print(f"{self.pipeline.name}.{sink}: batch {batch_id}")
        for row in rows:
            shown = "  ".join(f"{name}={cell(value)}" for name, value in zip(columns, row, strict=True))
            self._print(f"  {shown}")

    def finished(self, queries: Sequence[QueryProgress]) -> None:
        for query in queries:
            self.line(query)
        letters = sum(query.dead_letters for query in queries)
        if letters:
            self.emit(
                "dead-letters",
                f"{letters} dead letters in {self.pipeline.options.dead_letter}",
                count=letters,
            )
        self.emit("stopped", "stopped")

    def _print(self, text: str) -> None:
        print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


class JsonView(View):
    """One object per line."""

    def emit(self, event: str, text: str, **details: object) -> None:
        self._json(event=event, **details)

    def fail(self, text: str, **details: object) -> None:
        print(json.dumps({"error": text, **details}, ensure_ascii=False), file=sys.stderr, flush=True)

    def line(self, query: QueryProgress) -> None:
        self._json(
            event="progress",
            query=query.name,
            state=query.state,
            batch=query.batch_id,
            rows=query.rows,
            rows_per_second=round(query.rows_per_second, 1),
            batch_ms=query.batch_ms,
            lag=query.lag,
            state_rows=query.state_rows,
            state_bytes=query.state_bytes,
            dead_letters=query.dead_letters,
            dropped=query.dropped,
        )

    def rows(self, sink: str, batch_id: int, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        found = [{name: plain(value) for name, value in zip(columns, row, strict=True)} for row in rows]
        self._json(event="rows", sink=sink, batch=batch_id, rows=found)

    def _json(self, **document: object) -> None:
        named = {"pipeline": str(self.pipeline.name), **document}
        print(json.dumps(named, ensure_ascii=False, default=str), flush=True)


class LiveView(View):
    """A table of the queries and, below it, the newest rows of each console sink."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(pipeline)
        self._live = Live(console=console, refresh_per_second=4, transient=False)
        self._queries: Sequence[QueryProgress] = ()
        self._newest: dict[str, Table] = {}
        self._note = "starting"

    def __enter__(self) -> View:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def emit(self, event: str, text: str, **details: object) -> None:
        self._note = text
        if not self._live.is_started:
            console.print(f"{self.pipeline.name}: {text}", style="dim")

    def progress(self, queries: Sequence[QueryProgress]) -> None:
        self._queries = queries
        self._live.update(self.whole())

    def rows(self, sink: str, batch_id: int, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        numbers = [name for number, name in enumerate(columns) if isinstance(rows[0][number], int | float)]
        shown = table(*columns, right=tuple(numbers))
        for row in rows:
            shown.add_row(*(cell(value) for value in row))
        self._newest[sink] = shown

    def finished(self, queries: Sequence[QueryProgress]) -> None:
        letters = sum(query.dead_letters for query in queries)
        if letters:
            console.print(f"{letters} dead letters in {self.pipeline.options.dead_letter}")
        console.print("stopped; the next start continues from here")

    def whole(self) -> RenderableType:
        parts: list[RenderableType] = [
            Text(f"Pipeline {self.pipeline.name}", style="bold"),
            queries_table(self._queries),
        ]
        for sink, shown in list(self._newest.items()):
            parts += [Text(), Text(sink, style="bold cyan"), shown]
        return Group(*parts, Text(), Text(self._note, style="dim"))


def view_for(pipeline: Pipeline, *, as_json: bool) -> View:
    if as_json:
        return JsonView(pipeline)
    return LiveView(pipeline) if sys.stdout.isatty() else View(pipeline)


def queries_table(queries: Sequence[QueryProgress]) -> Table:
    shown = table("query", "", *RIGHT, right=RIGHT)
    for query in queries:
        lag = ", ".join(f"{topic} {count}" for topic, count in query.lag.items()) or "-"
        state = f"{query.state_rows} ({human_bytes(query.state_bytes)})" if query.state_rows else "-"
        lost = query.dead_letters + query.dropped
        shown.add_row(
            query.name,
            query.state,
            str(query.batch_id) if query.batch_id >= 0 else "-",
            str(query.rows),
            f"{query.rows_per_second:.0f}",
            str(query.batch_ms),
            lag,
            state,
            str(lost) if lost else "-",
        )
    return shown


def facts_of(query: QueryProgress) -> str:
    """Format a query as a log line."""
    words = [f"batch {query.batch_id}", f"{query.rows} rows", f"{query.rows_per_second:.0f} rows/s"]
    words.append(f"{query.batch_ms} ms")
    words += [f"lag {topic}={count}" for topic, count in query.lag.items()]
    if query.state_rows:
        words.append(f"state {query.state_rows} rows, {human_bytes(query.state_bytes)}")
    if query.dead_letters:
        words.append(f"dead letters {query.dead_letters}")
    if query.dropped:
        words.append(f"dropped {query.dropped}")
    return ", ".join(words) if query.batch_id >= 0 else query.state


def cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    return str(value)


def plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if hasattr(value, "asDict"):
        return {name: plain(inner) for name, inner in value.asDict().items()}
    return value
