"""The exactly-once sink in a real Spark while the JVM, Python workers and brokers are killed."""

from __future__ import annotations

import os
import random
import shutil
import time

import pytest

pytest.importorskip("pyspark", reason="the sink of Spark needs pyspark: pip install ottla[spark]")

from ottla.testing import Cluster
from tests.support.spark.sink_process import SinkProcess

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not shutil.which("java") and "JAVA_HOME" not in os.environ, reason="needs Java"),
]
LONG = os.environ.get("OTTLA_LONG_TESTS") == "1"


@pytest.fixture
def run_sink(tmp_path):
    started = []

    def make(cluster, **wanted: object) -> SinkProcess:
        cluster.create_topic("orders", 3)
        cluster.create_topic("copies", 2)
        started.append(SinkProcess(cluster, tmp_path, source="orders", target="copies", **wanted))
        return started[-1]

    yield make
    for one in started:
        one.stop()


def test_kill_driver_and_worker(run_sink):
    rng = random.Random()
    with Cluster(config={"transaction.two.phase.commit.enable": True}) as cluster:
        one = run_sink(cluster, rows=250)
        one.feed(0, 1500)
        one.start()
        one.wait_batches(1)
        one.kill_worker(rng)
        one.wait_batches(2)
        time.sleep(rng.uniform(0, 0.8))
        one.kill_jvm()
        one.feed(1500, 250)
        one.start(tasks=5, cores=3)
        one.finish(1750, 400)


@pytest.mark.skipif(not LONG, reason="takes minutes: make test-spark-long")
@pytest.mark.parametrize("two_phases", [True, False], ids=["two phases", "with time-outs"])
def test_minutes_of_kills(run_sink, two_phases):
    """Kill at random the JVM, a Python worker, or a broker, which is restarted."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    kills = {"jvm": 0, "worker": 0, "broker": 0}
    with Cluster(brokers=3, config={"transaction.two.phase.commit.enable": two_phases}) as cluster:
        one = run_sink(cluster, rows=300)
        fed = 0
        one.start()
        deadline = time.monotonic() + float(os.environ.get("OTTLA_KILL_SECONDS", "180"))
        down = None
        while time.monotonic() < deadline:
            one.feed(fed, 1500)
            fed += 1500
            if not one.runs:
                one.reap()
                one.start(tasks=rng.randint(1, 6), cores=rng.randint(1, 3))
            one.wait_batches(rng.randint(1, 3))
            time.sleep(rng.uniform(0, 1.5))
            what = rng.choice(["jvm", "worker", "broker"])
            kills[what] += 1
            if what == "jvm":
                one.kill_jvm()
            elif what == "worker":
                one.kill_worker(rng)
            elif down is None:
                down = rng.randrange(3)
                cluster.kill(down)
            else:
                cluster.start(down)
                down = None
        if down is not None:
            cluster.start(down)
        one.finish(fed, 300)
        print("kills", kills, "lives", one.lives, "records", fed)
