"""Runs a pipeline: starts its queries, monitors them, and stops them between two batches."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ottla.pipeline.definition.model import Pipeline
from ottla.pipeline.plan import QueryPlan, queries_of, spark_conf
from ottla.pipeline.queries.builder import Builder, BuildError, OnRows, first_line
from ottla.pipeline.queries.progress import QueryProgress

POLL_S = 0.5
# A batch that takes longer to finish is abandoned and repeated at the next start.
STOP_TIMEOUT_S = 60.0
START_TIMEOUT_S = 30.0
# The status messages of a query before its sources are initialized.
STARTING_MESSAGES = ("Initializing", "Getting offsets")
WORKER_START_TIMEOUT = "Python worker failed to connect back"
RESTARTS_MAX = 10
# The last line of a Python traceback, and the prefixes of wrapping exceptions.
RAISED = re.compile(r"([a-z_]\w*\.)*(?P<name>[A-Z]\w+): (?P<text>\S.*)")
OF_SPARK = ("pyspark.", "org.apache.", "py4j.")


OnProgress = Callable[[Sequence[QueryProgress]], None]


class PipelineFailed(Exception):
    """A query ended with an error."""

    def __init__(self, query: str, message: str) -> None:
        super().__init__(f"query '{query}' failed: {message}")
        self.query = query


def no_rows(sink: str, batch_id: int, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Ignore the rows of console sinks."""


class RunningPipeline:
    """All queries of a pipeline in one session. `watch` returns after `request_stop` or when all are done."""

    def __init__(
        self, spark: SparkSession, pipeline: Pipeline, *, once: bool = False, on_rows: OnRows = no_rows
    ) -> None:
        self.pipeline = pipeline
        self.plans = queries_of(pipeline)
        self.progress = {plan.name: QueryProgress(plan.name) for plan in self.plans}
        self._spark = spark
        self._once = once
        self._on_rows = on_rows
        self._builder: Builder | None = None
        self._queries: dict[str, StreamingQuery] = {}
        self._restarts: dict[str, int] = {}
        self._stopping = threading.Event()

    def start(self, on_progress: OnProgress | None = None) -> None:
        """Start all queries. Raises BuildError after stopping those that were started."""
        apply_conf(self._spark, self.pipeline)
        self._builder = Builder(self._spark, self.pipeline)
        for plan in self.plans:
            if self._stopping.is_set():
                return
            self._start_one(plan)
            if on_progress is not None:
                self.poll()
                on_progress(list(self.progress.values()))

    def _start_one(self, plan: QueryPlan) -> None:
        assert self._builder is not None
        try:
            query = self._builder.start(plan, once=self._once, on_rows=self._on_rows)
        except BuildError:
            self._stop_queries(0)
            raise
        self._queries[plan.name] = query
        self._wait_until_started(query)

    def _wait_until_started(self, query: StreamingQuery) -> None:
        """Wait until the sources of a query are initialized, so that queries start one after the other.

        Each query starts Python processes, and Spark fails a query whose process takes more than ten seconds
        to connect, which can happen if many start at once.
        """
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while query.isActive and str(query.status["message"]).startswith(STARTING_MESSAGES):
            if query.lastProgress is not None or self._stopping.wait(0.05) or time.monotonic() > deadline_s:
                return

    def request_stop(self) -> None:
        """Make `watch` finish the running batches and return. Safe in a signal handler."""
        self._stopping.set()

    def watch(self, on_progress: OnProgress | None = None) -> None:
        """Wait for the end. Raises PipelineFailed for the first query that fails, and stops the others."""
        try:
            while not self._stopping.is_set():
                running = self.poll()
                if on_progress is not None:
                    on_progress(list(self.progress.values()))
                if not running:
                    return
                self._stopping.wait(POLL_S)
        except PipelineFailed:
            self._stop_queries(STOP_TIMEOUT_S)
            raise
        self._stop_queries(STOP_TIMEOUT_S)
        self.poll()
        if on_progress is not None:
            on_progress(list(self.progress.values()))

    def poll(self) -> bool:
        """Update the progress of all queries. Returns whether any query is running."""
        running = False
        for name, query in list(self._queries.items()):
            progress = self.progress[name]
            active = query.isActive
            progress.update(json.loads(report.json) for report in query.recentProgress)
            if active:
                progress.state = "waiting for data" if progress.batch_id < 0 else "running"
                running = True
                continue
            error = query.exception()
            if error is not None and self._may_restart(name, str(error)):
                self._start_one(next(plan for plan in self.plans if plan.name == name))
                running = True
                continue
            if error is not None and not (self._stopping.is_set() and WORKER_START_TIMEOUT in str(error)):
                progress.state = "failed"
                raise PipelineFailed(name, failure_text(error))
            progress.state = "done" if self._once else "stopped"
        return running

    def _may_restart(self, name: str, error: str) -> bool:
        """Return whether to restart a query: on a busy machine a Python worker may start too slowly."""
        self._restarts[name] = self._restarts.get(name, 0) + 1
        return (
            WORKER_START_TIMEOUT in error
            and self._restarts[name] <= RESTARTS_MAX
            and not self._stopping.is_set()
        )

    def _stop_queries(self, timeout_s: float) -> None:
        """Stop each query after its current batch, so that the batch is committed and not repeated."""
        deadline_s = time.monotonic() + timeout_s
        started = {name: self._batch(query) for name, query in self._queries.items()}
        waiting = dict(self._queries)
        while waiting:
            for name, query in list(waiting.items()):
                between = not query.isActive or self._is_between(query, started[name])
                if between or time.monotonic() > deadline_s:
                    query.stop()
                    del waiting[name]
            if waiting:
                time.sleep(0.02)

    def _batch(self, query: StreamingQuery) -> int:
        last = query.lastProgress
        return int(last.batchId) if last is not None else -1

    def _is_between(self, query: StreamingQuery, batch: int) -> bool:
        return not query.status["isTriggerActive"] or self._batch(query) > batch


def apply_conf(spark: SparkSession, pipeline: Pipeline) -> None:
    """Apply the settings that can change at runtime; the others were set when the session was created."""
    for name, value in spark_conf(pipeline).items():
        if name.startswith("spark.sql.") and spark.conf.isModifiable(name):
            spark.conf.set(name, value)


def failure_text(error: BaseException) -> str:
    """Return the cause of a failed query: the last Python exception, or else the first line from Spark."""
    text = str(error).split("=== Streaming Query ===")[0]
    for line in reversed(text.splitlines()):
        found = RAISED.match(line)
        if found is not None and not line.startswith(OF_SPARK):
            return f"{found['name']}: {found['text']}"
    return first_line(error)
