"""Runs examples/orders/run.py as `make run` does: brokers, generator and pipeline on Spark."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the orders example needs PySpark")

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parents[2]
RESULTS_TIMEOUT_S = 240
STOP_TIMEOUT_S = 120
REVENUE = re.compile(r"minute=\S+ \S+  orders=(\d+)  revenue=([\d,.]+)")
CUSTOMER = re.compile(r"name=(\w+)  city=(\w+)  orders=\d+  revenue=[\d,.]+")


def test_orders_run_until_interrupted(tmp_path):
    command = [sys.executable, "examples/orders/run.py", "--data", str(tmp_path), "--rate", "50"]
    lines: list[str] = []
    with subprocess.Popen(
        [*command, "--master", "local[2]"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        reader = OutputReader(process, lines)
        reader.start()
        try:
            assert reader.shown.wait(RESULTS_TIMEOUT_S), "\n".join(lines)
            process.send_signal(signal.SIGINT)
            assert process.wait(STOP_TIMEOUT_S) == 0, "\n".join(lines)
        finally:
            process.terminate()
            reader.join(STOP_TIMEOUT_S)
    assert lines[0].startswith("starting 3 brokers")
    assert any(line.startswith("brokers ready: ") for line in lines)
    orders = [int(found[1]) for line in lines if (found := REVENUE.search(line))]
    assert max(orders) > 0
    assert lines[-1].startswith("all stopped; the next start resumes from the data in ")


class OutputReader(threading.Thread):
    """Collects the lines of a process; sets `shown` when both console sinks have printed rows."""

    def __init__(self, process: subprocess.Popen[str], lines: list[str]) -> None:
        super().__init__(daemon=True)
        self.process = process
        self.lines = lines
        self.shown = threading.Event()

    def run(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            output = "\n".join(self.lines)
            if REVENUE.search(output) and CUSTOMER.search(output):
                self.shown.set()
