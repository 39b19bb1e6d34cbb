"""The benchmarks with minimal sizes: all cases run; figures are not checked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ONE_BROKER = (
    "floor",
    "start",
    "produce",
    "requests",
    "fetch",
    "partitions",
    "lookup",
    "latency",
    "arrow",
    "cleaning",
)
ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="CPU time and memory come from /proc")


def run_bench(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--smoke", *arguments],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def figures_of(path: Path) -> dict[str, dict[str, Any]]:
    return {figure["name"]: figure for figure in json.loads(path.read_text())["figures"]}


def options(name: str, values: tuple[str, ...]) -> list[str]:
    return [part for value in values for part in (name, value)]


def test_measures_one_broker_and_prints_the_conditions(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    output = run_bench("--json", str(path), "--data", str(tmp_path), *options("--only", ONE_BROKER))
    figures = figures_of(path)
    with_goals = [
        "start: process start to ready",
        "idle: memory",
        "produce 16 KB, librdkafka",
        "produce 64 KB, librdkafka",
        "produce 1 MB, librdkafka",
        "produce 16 KB, wire",
        "produce one record, alone",
        "produce one record, pipelined",
        "fetch 1 MB, batches of 16 KB",
        "6 partitions: start after a clean stop",
        "6 partitions: memory",
        "offset look-up, growth",
    ]
    for name in with_goals:
        assert figures[name]["value"] > 0, name
        assert figures[name]["goal"] is not None, name
        assert name in output
    assert figures["latency, end to end, p99"]["value"] >= figures["latency, end to end, p50"]["value"] > 0
    measured = json.loads(path.read_text())["conditions"]
    assert measured["python"].startswith("CPython") and measured["kernel_compiled"] in (True, False)
    assert list(tmp_path.glob("ottla-bench-*")) == [], "brokers leave nothing behind"


def test_measures_groups(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    run_bench("--json", str(path), "--data", str(tmp_path), "--only", "group")
    figures = figures_of(path)
    for name in (
        "5 members join at once, classic: until all have partitions",
        "5 members join at once, KIP-848: until all have partitions",
        "3 groups x 4, classic: CPU",
        "3 groups x 4, KIP-848: CPU",
        "2,000 offsets: load",
        "2,000 offsets: longest response time while loading",
    ):
        assert figures[name]["value"] > 0, name
        assert figures[name]["goal"] > 0, name
    for name in ("1 partition, pipelined", "10 partitions, pipelined", "1 partition, 4 groups"):
        assert figures[f"offset commit of {name}"]["value"] > 0, name
    for protocol in ("cooperative classic", "KIP-848"):
        assert figures[f"rebalance, {protocol}: records late by a heartbeat"]["goal"] == 0
        assert figures[f"rebalance, {protocol}: longest delay"]["value"] > 0
        assert figures[f"rebalance, {protocol}: until settled"]["value"] > 0
    assert list(tmp_path.glob("ottla-bench-*")) == [], "brokers leave nothing behind"


def test_measures_transactions(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    run_bench("--json", str(path), "--data", str(tmp_path), "--only", "txn")
    figures = figures_of(path)
    for records in ("1 record", "10 records", "100 records"):
        for partitions in ("1 partition", "10 partitions"):
            assert figures[f"transaction of {records} x {partitions}"]["value"] > 0
    for name in ("1 broker", "3 brokers"):
        assert figures[f"commit, {name}: whole transaction, p99"]["value"] > 0, name
    assert figures["produce in transactions of 100 ms, slower by"]["goal"] == pytest.approx(1 / 0.9)
    assert figures["produce in transactions of 100 ms, bare requests, slower by"]["value"] > 0
    for what in ("memory", "produce", "read_committed fetch"):
        assert figures[f"100 finished transactions: {what}, growth"]["goal"] > 0, what
    assert list(tmp_path.glob("ottla-bench-*")) == [], "brokers leave nothing behind"


@pytest.mark.slow
def test_measures_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    run_bench("--json", str(path), "--data", str(tmp_path), "--only", "cluster")
    figures = figures_of(path)
    for name in (
        "cluster: start to ready",
        "cluster: memory of a broker",
        "replicated produce 64 KB, RF 3 of RF 1",
        "replicated produce 64 KB, RF 3: follower",
        "floor: RF 3",
        "12 partitions x RF 3: create",
        "12 partitions x RF 3: start to all replicas in sync",
    ):
        assert figures[name]["value"] > 0, name
    for name in ("fail-over, leader killed", "fail-over, controller and leader killed"):
        median, longest = figures[f"{name}: median"], figures[f"{name}: longest"]
        assert 0 < median["value"] <= longest["value"] and median["goal"] == 1.0, name
    assert figures["fail-over, controller killed: median"]["value"] > 0
    assert figures["12 partitions x RF 3: idle CPU, broker 0 leads"]["goal"] == 10
    assert list(tmp_path.glob("ottla-bench-*")) == [], "brokers leave nothing behind"


def test_every_case_is_run_here() -> None:
    """A new case must be added to one of the tests above, or to the tests with Spark."""
    done = subprocess.run(
        [sys.executable, "-c", "from bench import cases; print(*cases.NAMES)"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert [
        name
        for name in done.stdout.split()
        if not name.startswith((*ONE_BROKER, "group", "txn", "cluster", "spark"))
    ] == []


@pytest.mark.parametrize(
    ("profiler", "shown"), [("trace", "Ordered by: internal time"), ("sample", "own time by line")]
)
def test_profiles_the_broker_of_a_case(tmp_path: Path, profiler: str, shown: str) -> None:
    output = run_bench("--profile", "requests-alone", "--profiler", profiler, "--data", str(tmp_path))
    assert shown in output


def test_an_unknown_case_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--only", "nothing"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "produce-wire" in done.stderr
