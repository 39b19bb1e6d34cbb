"""The exactly-once sink with crashes at random calls, stale drivers and lost tasks."""

from __future__ import annotations

import os
import random
import time

import pytest

pytest.importorskip("pyspark", reason="the sink of Spark needs pyspark: pip install ottla[spark]")

from ottla.client import ArrowWriter, SyncTransactions
from ottla.client.errors import ClientError, RequestTimeoutError
from ottla.testing import Cluster
from pyspark_ottla.sink.exactly_once import batch_commit, commit_log
from pyspark_ottla.sink.exactly_once.commit_log import FencedError, MarkerWriter
from tests.support.spark.sink_harness import KilledError, SinkHarness

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

# Calls at which a process may die or a response may be lost.
POINTS = [
    (MarkerWriter, "_append"),
    (MarkerWriter, "append"),
    (MarkerWriter, "_fence_others"),
    (SyncTransactions, "init"),
    (SyncTransactions, "keep"),
    (SyncTransactions, "end"),
    (SyncTransactions, "fence"),
    (SyncTransactions, "open_ids"),
    (ArrowWriter, "flush"),
]
ROWS = 6


class Crashes:
    """Raises at the nth call of any method in POINTS, before or after it."""

    def __init__(self, rng: random.Random, monkeypatch) -> None:
        self.rng = rng
        self.left = -1
        self.kind: type[Exception] = KilledError
        for owner, name in POINTS:
            monkeypatch.setattr(owner, name, self._around(getattr(owner, name)))

    def arm(self) -> None:
        self.left = self.rng.randrange(24)
        self.kind = self.rng.choice([KilledError, RequestTimeoutError])

    def disarm(self) -> None:
        self.left = -1

    def _around(self, original):
        def act(*arguments, **named):
            self._count()
            result = original(*arguments, **named)
            self._count()
            return result

        return act

    def _count(self) -> None:
        if self.left >= 0:
            self.left -= 1
            if self.left < 0:
                raise self.kind("at random")


@pytest.mark.parametrize("two_phases", [True, False], ids=["two phases", "with time-outs"])
def test_random_crashes(monkeypatch, two_phases):
    seed = int(os.environ.get("OTTLA_SEED", random.randrange(1 << 32)))
    print("seed", seed)
    rng = random.Random(seed)
    monkeypatch.setattr(batch_commit, "SWEEP_INTERVAL_S", 0.2)
    crashes = Crashes(rng, monkeypatch)
    steps = 300 if os.environ.get("OTTLA_LONG_TESTS") == "1" else 40
    older: list[tuple[dict, list, int, bool]] = []
    with Cluster(config={"transaction.two.phase.commit.enable": two_phases}) as cluster:
        cluster.create_topic("out", 2)
        harness = SinkHarness(cluster, "out", monkeypatch)
        batch = 0
        died = 0
        for _ in range(steps):
            parallelism = rng.randint(1, 4)
            numbers = range(batch * ROWS, batch * ROWS + ROWS)
            if rng.random() < 0.6:
                crashes.arm()
            messages: list = []
            try:
                for partition in range(parallelism):
                    mine = numbers[partition::parallelism]
                    attempt = 0
                    if rng.random() < 0.2:
                        harness.task(batch, partition, mine)  # its executor is lost
                        attempt = 1
                    messages.append(harness.task(batch, partition, mine, attempt))
                if older and rng.random() < 0.3:
                    armed, crashes.left = crashes.left, -1
                    come_back(harness, older, rng)
                    crashes.left = armed
                harness.commit(messages, batch)
                batch += 1
            except (KilledError, ClientError, FencedError) as error:
                died += 1
                crashes.disarm()
                # Spark commits when all tasks have returned, and not after it has called abort.
                may_commit = isinstance(error, KilledError) and len(messages) == parallelism
                older.append((dict(commit_log._marker_writers), messages, batch, may_commit))
                harness.start()
            crashes.disarm()
            if older and rng.random() < 0.3:
                come_back(harness, older, rng)
        assert died > steps // 10, "nothing crashed"
        harness.start()
        harness.batch(batch, range(batch * ROWS, batch * ROWS + ROWS))
        print("batches", batch, "crashes", died)
        time.sleep(0.3)
        harness.batch(batch + 1, range((batch + 1) * ROWS, (batch + 2) * ROWS))
        harness.check(range((batch + 2) * ROWS))


def come_back(harness: SinkHarness, older: list, rng: random.Random) -> None:
    """A stale driver continues: it commits or aborts the batch that it knows."""
    committers, messages, batch, may_commit = older.pop(rng.randrange(len(older)))
    newer = dict(commit_log._marker_writers)
    commit_log._marker_writers.clear()
    commit_log._marker_writers.update(committers)
    try:
        if may_commit and rng.random() < 0.7:
            harness.writer().commit(messages, batch)
        else:
            harness.writer().abort(messages, batch)
    except batch_commit.CheckpointBehindError:
        pass  # fenced by a newer driver
    finally:
        commit_log._marker_writers.clear()
        commit_log._marker_writers.update(newer)
