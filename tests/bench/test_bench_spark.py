"""The benchmarks with Spark with minimal sizes: they run; figures are not checked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the measurements with Spark need pyspark: pip install ottla[spark]")

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux", reason="CPU time and memory come from /proc"),
    pytest.mark.skipif(
        os.environ.get("OTTLA_LONG_TESTS") != "1", reason="takes a minute: OTTLA_LONG_TESTS=1 runs it"
    ),
    pytest.mark.skipif(not shutil.which("java") and "JAVA_HOME" not in os.environ, reason="Spark needs Java"),
]


def run(module: str, tmp_path: Path, *chosen: str) -> dict[str, Any]:
    path = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, "-m", module, "--smoke", *chosen, "--json", str(path), "--data", str(tmp_path)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_measures_reading(tmp_path: Path) -> None:
    found = run("bench", tmp_path, "--only", "spark-read", "--only", "spark-latency")
    figures = {figure["name"]: figure for figure in found["figures"]}
    assert figures["spark read, ottla, 100 B, none: CPU"]["value"] > 0
    of_the_bound = figures["spark read, times the bound, 100 B, none: CPU"]
    assert of_the_bound["goal"] == 0.6
    assert of_the_bound["more_is_better"]
    assert figures["spark latency, append to sink"]["value"] > 0


def test_the_scenario_of_the_contest_reads_writes_and_streams(tmp_path: Path) -> None:
    (part,) = run("bench.peers", tmp_path, "--alone", "--only", "spark")["parts"]
    figures = {entry["figure"]: entry["ottla"] for entry in part["entries"]}
    for work in (
        "read 100 B, all columns",
        "read 1 KB, value alone",
        "write 1 KB in 1 MB",
        "stream 100 B, topic to topic",
    ):
        assert figures[f"{work}: rate"][0] > 0
        assert figures[f"{work}: CPU of Spark"][0] > 0
