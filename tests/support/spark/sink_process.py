"""Runs `sink_driver.py` and kills its processes."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from ottla.client import read_arrow, write_arrow
from ottla.testing import Cluster
from tests.support.processes import ROOT, python_module
from tests.support.waiting import wait_until

STEP_S = 0.02


def children(pid: int) -> list[int]:
    """Return all descendants of a process."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError):
                text = Path(f"/proc/{entry}/stat").read_text()
                parents.setdefault(int(text.rsplit(")", 1)[1].split()[1]), []).append(int(entry))
    found, todo = [], [pid]
    while todo:
        todo, level = [], todo
        for parent in level:
            found += parents.get(parent, [])
            todo += parents.get(parent, [])
    return found


def python_workers(jvm: int) -> list[int]:
    """Return the workers that PySpark's daemon has forked for tasks and commits."""
    found = []
    for pid in children(jvm):
        with contextlib.suppress(OSError):
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
            parent = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent != jvm and line.rstrip(b"\0").endswith(
                (b"pyspark.worker", b"python_streaming_sink_runner")
            ):
                found.append(pid)
    return found


class SinkProcess:
    """One query, over several runs of its driver."""

    def __init__(
        self, cluster: Cluster, tmp_path: Path, *, source: str, target: str, **wanted: object
    ) -> None:
        self.cluster = cluster
        self.source = source
        self.target = target
        self.wanted = {
            "servers": cluster.bootstrap_servers,
            "source": source,
            "target": target,
            "checkpoint": str(tmp_path / "checkpoint"),
            **wanted,
        }
        self.log = tmp_path / "driver.log"
        self.process: subprocess.Popen[str] | None = None
        self.jvm = 0
        self.batches = 0
        self.batch = -1
        self.failure: str | None = None
        self.lives = 0

    def feed(self, first: int, count: int) -> None:
        values = [b"%d" % number for number in range(first, first + count)]
        table = pa.table({"key": values, "value": values})
        write_arrow(table, self.source, bootstrap_servers=self.cluster.bootstrap_servers)

    def start(self, **wanted: object) -> None:
        self.lives += 1
        self.batches, self.jvm, self.failure = 0, 0, None
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                python_module("tests.support.spark.sink_driver", json.dumps({**self.wanted, **wanted})),
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                text=True,
            )
        threading.Thread(target=self._listen, args=(self.process,), daemon=True).start()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                with contextlib.suppress(ValueError):
                    told = json.loads(line)
                    self.jvm = told.get("jvm", self.jvm)
                    if "batch" in told:
                        self.batch = told["batch"]
                        self.batches += told["rows"] > 0
                    self.failure = told.get("failed", self.failure)

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def wait_batches(self, count: int, timeout_s: float = 300) -> None:
        self._until(lambda: self.batches >= count or not self.runs, timeout_s, f"{count} batches")

    def _until(self, done: Callable[[], bool], timeout_s: float, what: str) -> None:
        wait_until(done, lambda: f"{what}: {self.tail()}", timeout_s)

    def kill_jvm(self) -> None:
        """Kill the JVM; its Python processes exit when their pipes close."""
        if self.jvm:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.jvm, signal.SIGKILL)
        self.reap()

    def kill_worker(self, rng: random.Random) -> bool:
        workers = python_workers(self.jvm) if self.jvm else []
        if workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(workers), signal.SIGKILL)
        return bool(workers)

    def reap(self) -> None:
        process = self.process
        if process is None:
            return
        pids = children(process.pid)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process = None

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.kill_jvm()

    def seen(self) -> list[int]:
        table = read_arrow(
            self.target, bootstrap_servers=self.cluster.bootstrap_servers, columns=["value"]
        ).read_all()
        return sorted(int(value) for value in table["value"].to_pylist())

    def finish(self, count: int, timeout_s: float) -> None:
        """Run, with restarts, until every number is in the topic, and check that each is there once."""
        deadline = time.monotonic() + timeout_s
        while len(set(self.seen())) < count:
            assert time.monotonic() < deadline, f"{len(self.seen())} of {count}: {self.tail()}"
            if not self.runs:
                self.reap()
                self.start()
            time.sleep(0.5)
        assert self.seen() == list(range(count))

    def tail(self) -> str:
        return f"{self.failure} {self.log.read_text(errors='replace')[-3000:]}"
