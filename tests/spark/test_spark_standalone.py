"""A standalone Spark cluster on loopback: executors with nothing of ours get all of it from the driver."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark", reason="needs pyspark: pip install ottla[pipeline]")
pytest.importorskip("deltalake", reason="needs deltalake: pip install ottla[pipeline]")

from deltalake import DeltaTable

from ottla.client import read_arrow

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
    """A master and workers, as their shell scripts would start them."""

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
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
        }
        # Executors have only what the driver sends.
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


DRIVER = textwrap.dedent(
    """
    import json, sys
    from ottla.pipeline import masters, shipping

    told = json.loads(sys.argv[1])
    # What topics need, without tables and pandas: a fifth of the bytes.
    shipment = shipping.build_shipment("all", needs=("pyarrow", "cramjam", "crc32c"), cache=told["cache"])
    conf = {
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.cores.max": "2",
    }
    spark = masters.start(masters.settings_for(told["master"], "standalone test", conf, shipment=shipment))
    spark.sparkContext.setLogLevel("ERROR")

    def found(_):
        import os
        import time

        import ottla
        import pyarrow
        from ottla.records.kernel import COMPILED

        # Long enough that one executor does not take both.
        time.sleep(1)
        return [(os.getcwd(), ottla.__file__, pyarrow.__file__, COMPILED)]

    print("FOUND", json.dumps(spark.sparkContext.parallelize(range(2), 2).mapPartitions(found).collect()))
    source = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", told["servers"])
        .option("subscribe", told["source"])
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("key", "concat('<', cast(value as string), '>') as value")
    )
    to_topic = (
        source.writeStream.format("ottla")
        .option("kafka.bootstrap.servers", told["servers"])
        .option("topic", told["target"])
        .option("checkpointLocation", told["checkpoint"] + "-topic")
        .trigger(availableNow=True)
        .start()
    )
    to_table = (
        source.writeStream.format("ottla_lake")
        .option("path", told["table"])
        .option("checkpointLocation", told["checkpoint"] + "-table")
        .trigger(availableNow=True)
        .start()
    )
    assert to_topic.awaitTermination(300)
    assert to_table.awaitTermination(300)
    spark.stop()
    print("DONE")
    """
)


@pytest.mark.ottla_topic(partitions=2)
def test_a_topic_through_a_standalone_cluster(standalone, ottla_cluster, ottla_topic, write, tmp_path):
    target = f"{ottla_topic[:200]}-copy"
    ottla_cluster.create_topic(target, 2)
    write(0, 500, partition=0)
    write(500, 500, partition=1)
    told = {
        "master": standalone.master,
        "servers": ottla_cluster.bootstrap_servers,
        "source": ottla_topic,
        "target": target,
        "checkpoint": str(tmp_path / "checkpoint"),
        "table": str(tmp_path / "table"),
        "cache": str(tmp_path / "cache"),
    }
    # A Python that has nothing of this environment: what executors import came with the archives.
    bare = os.path.realpath(sys.executable)
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, json.dumps(told)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env=os.environ | {"PYSPARK_PYTHON": bare, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.stdout.rstrip().endswith("DONE"), done.stderr[-5000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("FOUND "))
    places = json.loads(line.removeprefix("FOUND "))
    assert len({place[0] for place in places}) == 2, "both workers work"
    for directory, ottla_file, pyarrow_file, compiled in places:
        assert "work-" in directory
        assert os.path.abspath(os.path.join(directory, ottla_file)).startswith(directory)
        assert os.path.abspath(os.path.join(directory, pyarrow_file)).startswith(directory)
        assert compiled
    table = read_arrow(target, bootstrap_servers=ottla_cluster.bootstrap_servers).read_all()
    assert sorted(table["value"].to_pylist()) == sorted(b"<%d>" % number for number in range(1000))
    # Executors without deltalake write files; the driver, which has it, commits them.
    assert sorted(DeltaTable(told["table"]).to_pyarrow_table()["value"].to_pylist()) == sorted(
        f"<{number}>" for number in range(1000)
    )
    # The application ended; nobody was lost on the way.
    log = standalone.log("master.Master")
    assert "Received unregister request from application" in log
