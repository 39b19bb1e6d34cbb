"""The measurements with Spark on tiny sizes: they run; their figures are not looked at."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

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


def test_measures_reading(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    chosen = ("--only", "spark-read", "--only", "spark-latency")
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--smoke", *chosen, "--json", str(path), "--data", str(tmp_path)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = {figure["name"]: figure for figure in json.loads(path.read_text())["figures"]}
    assert figures["spark read, ottla, 100 B, none"]["value"] > 0
    assert figures["spark read, ottla to bound, 100 B, none, CPU"]["goal"] == pytest.approx(1 / 0.6)
    assert figures["spark latency, append to sink"]["value"] > 0
