"""The orders example on a standalone Spark cluster, whose executors get the packages from the driver."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pyspark: pip install ottla[pipeline]")
pytest.importorskip("deltalake", reason="needs deltalake: pip install ottla[pipeline]")

from deltalake import DeltaTable

from ottla.testing import Cluster
from tests.support.spark.examples import EXAMPLES, FAST_JAVA, load_example, rows_of

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not shutil.which("java") and "JAVA_HOME" not in os.environ, reason="a Spark cluster needs Java"
    ),
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class StandaloneCluster:
    """A master and workers, as Spark's shell scripts start them."""

    def __init__(self, directory: str, workers: int) -> None:
        import pyspark

        self._directory = directory
        self._home = os.path.dirname(pyspark.__file__)
        self._processes: list[subprocess.Popen] = []
        port = free_port()
        self.master = f"spark://127.0.0.1:{port}"
        self._start("master.Master", "--port", str(port))
        self._wait("master.Master", "I have been elected leader")
        for number in range(workers):
            work = os.path.join(directory, f"work-{number}")
            self._start("worker.Worker", "-c", "1", "-m", "1g", "--work-dir", work, self.master, log=number)
        for number in range(workers):
            self._wait("worker.Worker", "Successfully registered with master", log=number)

    def _start(self, name: str, *arguments: str, log: int = 0) -> None:
        environment = os.environ | {
            "SPARK_HOME": self._home,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            **FAST_JAVA,
        }
        # Executors have only what the driver ships.
        environment.pop("PYTHONPATH", None)
        command = [os.path.join(self._home, "bin", "spark-class"), f"org.apache.spark.deploy.{name}"]
        with open(self._log(name, log), "wb") as output:
            self._processes.append(
                subprocess.Popen(
                    [*command, "--host", "127.0.0.1", "--webui-port", "0", *arguments],
                    env=environment,
                    cwd=self._directory,
                    stdout=output,
                    stderr=output,
                )
            )

    def _log(self, name: str, number: int) -> str:
        return os.path.join(self._directory, f"{name}-{number}.log")

    def log(self, name: str, number: int = 0) -> str:
        with open(self._log(name, number), errors="replace") as file:
            return file.read()

    def _wait(self, name: str, sign: str, log: int = 0) -> None:
        until = time.monotonic() + 90
        while sign not in self.log(name, log):
            assert time.monotonic() < until, self.log(name, log)[-3000:]
            assert all(process.poll() is None for process in self._processes), self.log(name, log)[-3000:]
            time.sleep(0.1)

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)


@pytest.fixture
def standalone(tmp_path) -> Iterator[StandaloneCluster]:
    cluster = None
    try:
        cluster = StandaloneCluster(str(tmp_path), workers=2)
        yield cluster
    finally:
        if cluster is not None:
            cluster.stop()


def expected_orders(servers: str) -> tuple[dict[str, float], int]:
    """Read the topic. Returns the amount of each valid order, and the number of malformed ones."""
    amounts, broken = {}, 0
    for row in rows_of("orders", servers):
        try:
            order = json.loads(row["value"])
            amounts[order["order_id"]] = order["quantity"] * order["price"]
        except (ValueError, KeyError):
            broken += 1
    return amounts, broken


def test_orders_example_on_a_standalone_cluster(standalone, tmp_path):
    """Run `ottla pipeline run FILE --master spark://... --once`."""
    data = tmp_path / "data"
    command = [sys.executable, "-P", "-m", "ottla", "pipeline", "run"]
    command += [str(EXAMPLES / "orders" / "pipeline.yaml"), "--once", "--master", standalone.master]
    with Cluster() as cluster:
        servers = cluster.bootstrap_servers
        asyncio.run(load_example("orders/generate").generate(servers, 0, 600, seed=7))
        command += ["--set", f"bootstrap={servers}", "--set", f"data={data}"]
        # A Python outside this environment: executors import from the archives.
        bare = os.path.realpath(sys.executable)
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
            env=os.environ | FAST_JAVA | {"PYSPARK_PYTHON": bare, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        )
        assert done.returncode == 0, done.stderr[-5000:]
        assert "orders.top-customers: batch 0" in done.stdout and "name=Ada" in done.stdout
        amounts, broken = expected_orders(servers)
        assert broken and len(amounts) + broken == 600
        enriched = [json.loads(row["value"]) for row in rows_of("orders-enriched", servers)]
        letters = rows_of("orders-dead-letter", servers)
        revenue = {row["key"]: json.loads(row["value"]) for row in rows_of("revenue-per-minute", servers)}
    assert sorted(row["order_id"] for row in enriched) == sorted(amounts)
    assert all(row["name"] for row in enriched)
    assert len(letters) == broken
    assert sum(row["orders"] for row in revenue.values()) == len(amounts)
    assert sum(row["revenue"] for row in revenue.values()) == pytest.approx(sum(amounts.values()))
    # Executors without deltalake write files; the driver, which has it, commits them.
    table = DeltaTable(str(data / "lake" / "orders")).to_pyarrow_table()
    assert dict(
        zip(table["order_id"].to_pylist(), table["amount"].to_pylist(), strict=True)
    ) == pytest.approx(amounts)
    for number in range(2):
        (executor,) = Path(tmp_path / f"work-{number}").glob("app-*/*/stderr")
        assert "Running task" in executor.read_text(), "both workers work"
    # The application ended, and no executor was lost.
    assert "Received unregister request from application" in standalone.log("master.Master")
