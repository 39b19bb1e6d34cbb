"""A local Spark session for measurements, and the CPU time of its processes."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import sys
import tempfile
from typing import Any

from bench.meter import cpu_time, ended_children_s
from bench.peers.jars import Connector, NoKafka, find_connector

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@functools.cache
def connector() -> Connector | None:
    """Return Spark's Kafka connector, for comparison; None, with the reason printed once, if it is not
    available."""
    try:
        return find_connector()
    except NoKafka as reason:
        print(f"bench: Spark's own Kafka connector is not available: {reason}", file=sys.stderr)
        return None


@functools.cache
def spark_session() -> Any:
    """A session with two parallel tasks and no user interface, shared by all cases because it starts
    slowly."""
    from pyspark.sql import SparkSession

    from ottla.pipeline.session.java import use_java

    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Workers import the data source of this package.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (ROOT, os.environ.get("PYTHONPATH"))))
    directory = tempfile.mkdtemp(prefix="ottla-bench-spark-")
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("ottla bench")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.local.dir", directory)
        .config("spark.sql.warehouse.dir", os.path.join(directory, "warehouse"))
    )
    found = connector()
    if found is not None:
        builder = builder.config("spark.jars", ",".join(found.jars))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    atexit.register(_stop, session, directory)
    return session


def _stop(session: Any, directory: str) -> None:
    session.stop()
    shutil.rmtree(directory, ignore_errors=True)


def spark_cpu_s() -> float:
    """Return the CPU time of the JVM and of Python workers, including ended ones; brokers are excluded."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                fields = stat.read().rpartition(b")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(name))
    total_s = 0.0
    waiting = [pid for pid in children.get(os.getpid(), []) if _is_spark(pid)]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        try:
            total_s += cpu_time(pid).total_s + ended_children_s(pid)
        except OSError:
            continue
    return total_s


def _is_spark(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"org.apache.spark" in file.read()
    except OSError:
        return False
