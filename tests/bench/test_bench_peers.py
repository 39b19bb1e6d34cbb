"""The contest with Apache Kafka: its arithmetic, its report, and its scenarios on tiny sizes, Ottla alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.peers.contest import SMOKE, Entry, Measure
from bench.peers.jars import HOME, NoKafka, find_kafka
from bench.peers.report import as_table, write_report
from bench.peers.scenarios import BY_NAME, SCENARIOS
from bench.peers.scenarios.produce import Shape, shapes

ROOT = Path(__file__).resolve().parents[2]
TOO_LONG = ("groups", "failover", "start-three", "produce-replicated", "latency", "partitions")

LESS = Measure("s", goal=1)
MORE = Measure("MB/s", less_is_better=False, goal=0.7)


def test_advantage_is_turned_so_that_more_than_one_is_better() -> None:
    assert Entry("x", "time", LESS, [1.0, 3.0, 2.0], [4.0]).advantage == 2.0
    assert Entry("x", "rate", MORE, [100.0], [50.0]).advantage == 2.0
    assert Entry("x", "rate", MORE, [100.0], []).advantage is None


def test_verdict_follows_the_goal() -> None:
    assert Entry("x", "rate", MORE, [75.0], [100.0]).verdict == "ok"
    assert Entry("x", "rate", MORE, [65.0], [100.0]).verdict == "BEHIND"
    assert Entry("x", "rate", MORE, [65.0], []).verdict == ""


def test_report_names_losses_before_the_tables(tmp_path: Path) -> None:
    name = SCENARIOS[0].name
    entries = [Entry(name, "won", LESS, [1.0], [2.0]), Entry(name, "lost", LESS, [2.0], [1.0])]
    found = {
        "packages": {"ottla": "0"},
        "machine": "m",
        "memory_gb": 1,
        "system": "s",
        "python": "p",
        "kafka": "k",
        "librdkafka": "l",
        "data": "ext4 (somewhere)",
        "effort": SMOKE._asdict(),
        "load_before": [0],
    }
    path = tmp_path / "report.md"
    write_report(str(path), found, entries, SCENARIOS)
    text = path.read_text()
    short, tables = text.split("## In short")[1].split(f"## {SCENARIOS[0].title}")
    assert f"- {name}, lost: 0.500 x (short of its goal)" in short
    assert "won" not in short
    assert "won" in tables and "lost" in tables
    assert "somewhere" not in text
    assert "BEHIND" in as_table(entries)


def test_each_dimension_is_varied_alone_unless_thorough() -> None:
    few = list(shapes(SMOKE))
    assert few[0] == Shape()
    assert len(few) == len(set(few)) == 1 + 2 + 2 + 2 + 1 + 1
    assert len(list(shapes(SMOKE._replace(thorough=True)))) == 3 * 3 * 3 * 2 * 2


def test_a_kafka_home_without_jars_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    monkeypatch.setenv(HOME, str(tmp_path))
    with pytest.raises(NoKafka, match=str(tmp_path)):
        find_kafka()


@pytest.mark.skipif(shutil.which("cc") is None, reason="small requests need a C compiler")
def test_scenarios_run_with_ottla_alone(tmp_path: Path) -> None:
    wanted = [name for name in BY_NAME if name not in TOO_LONG]
    path = tmp_path / "peers.json"
    command = [sys.executable, "-m", "bench.peers", "--smoke", "--alone", "--json", str(path)]
    done = subprocess.run(
        [*command, "--data", str(tmp_path), *[part for name in wanted for part in ("--only", name)]],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    entries = json.loads(path.read_text())["entries"]
    assert {entry["scenario"] for entry in entries} == set(wanted)
    assert all(entry["ottla"] and entry["ottla"][0] >= 0 for entry in entries)


def test_an_unknown_scenario_is_refused_with_those_there_are() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.peers", "--only", "nothing"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "transactions" in done.stderr
