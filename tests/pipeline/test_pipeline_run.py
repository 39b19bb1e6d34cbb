"""Starting, monitoring and stopping queries, with fake queries instead of Spark."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")

from ottla.pipeline.definition.document import Mark
from ottla.pipeline.queries import runner
from ottla.pipeline.queries.builder import BuildError
from ottla.pipeline.queries.runner import WORKER_START_TIMEOUT, PipelineFailed, RunningPipeline

TEXT = """\
pipeline: shop
sources: {orders: {topic: orders, format: raw}}
sinks:
  one: {from: orders, console: true}
  two: {from: orders, console: true}
"""


class Query:
    """A fake query that is in a batch for the first `busy` polls, then idle."""

    def __init__(self, error: str | None = None, busy: int = 0) -> None:
        self.error = error
        self.busy = busy
        self.stopped = False
        self.status_asked = 0
        self.batch = 0

    @property
    def isActive(self) -> bool:  # noqa: N802
        return not self.stopped and self.error is None

    @property
    def status(self) -> dict:
        self.status_asked += 1
        self.busy -= 1
        return {"message": "Processing new data", "isTriggerActive": self.busy >= 0}

    @property
    def lastProgress(self):  # noqa: N802
        return SimpleNamespace(batchId=self.batch)

    @property
    def recentProgress(self) -> list:  # noqa: N802
        report = {"batchId": self.batch, "timestamp": "t", "numInputRows": 5}
        return [SimpleNamespace(json=json.dumps(report))]

    def exception(self) -> Exception | None:
        return None if self.error is None else Exception(self.error)

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def start(load, monkeypatch):
    """start(queries by name): a RunningPipeline whose builder returns these in order."""

    def act(**queries: list[Query | BuildError]) -> RunningPipeline:
        class FakeBuilder:
            def __init__(self, spark, pipeline) -> None: ...

            def start(self, plan, *, once, on_rows):
                query = queries[plan.name].pop(0)
                if isinstance(query, BuildError):
                    raise query
                return query

        monkeypatch.setattr(runner, "Builder", FakeBuilder)
        monkeypatch.setattr(runner, "apply_conf", lambda spark, pipeline: None)
        monkeypatch.setattr(runner, "POLL_S", 0.001)
        running = RunningPipeline(None, load(TEXT))
        running.start()
        return running

    return act


def test_query_stops_between_batches(start):
    busy, idle = Query(busy=8), Query()
    running = start(one=[busy], two=[idle])
    running.request_stop()
    running.watch()
    assert busy.stopped and idle.stopped
    assert busy.status_asked > idle.status_asked
    assert {progress.state for progress in running.progress.values()} == {"stopped"}
    assert running.progress["one"].rows == 5


def test_stop_times_out_on_a_long_batch(start, monkeypatch):
    monkeypatch.setattr(runner, "STOP_TIMEOUT_S", 0.05)
    stuck = Query(busy=10**9)
    running = start(one=[stuck], two=[Query()])
    running.request_stop()
    running.watch()
    assert stuck.stopped


def test_failed_query_stops_the_others(start):
    other = Query()
    running = start(one=[Query(error="ValueError: no such thing")], two=[other])
    with pytest.raises(PipelineFailed, match="query 'one' failed: ValueError: no such thing"):
        running.watch()
    assert other.stopped and running.progress["one"].state == "failed"


def test_query_restarts_after_slow_worker_start(start):
    good = Query()
    running = start(one=[Query(error=WORKER_START_TIMEOUT), good], two=[Query()])
    threading.Timer(0.1, running.request_stop).start()
    running.watch()
    assert good.stopped and running.progress["one"].rows == 5


def test_restarts_are_limited(start):
    running = start(one=[Query(error=WORKER_START_TIMEOUT) for _ in range(20)], two=[Query()])
    with pytest.raises(PipelineFailed, match=WORKER_START_TIMEOUT):
        running.watch()


def test_build_error_stops_started_queries(start):
    first = Query()
    with pytest.raises(BuildError):
        start(one=[first], two=[BuildError(Mark(1, 1), "no")])
    assert first.stopped
