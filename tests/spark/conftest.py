"""One Spark session for all tests that need one: it takes seconds to start."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import pyarrow as pa
import pytest

from ottla.client import write_arrow
from ottla.pipeline.session.worker_python import use_fast_python


@pytest.fixture(scope="session", autouse=True)
def environment() -> None:
    """Set the environment of Spark in this and in child processes: loopback addresses, fast workers."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    if find_spec("pyspark") is not None:
        use_fast_python("local")


@pytest.fixture(scope="session")
def spark(environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    """A local session without the web UI, shared by tests."""
    sql = pytest.importorskip("pyspark.sql")
    if not shutil.which("java") and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java")
    session = (
        sql.SparkSession.builder.master("local[2]")
        .appName("ottla tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def write(ottla_cluster, ottla_topic) -> Callable[..., None]:
    """write(first, count, partition=...): records with the values b"first", b"first+1", ..."""

    def act(first: int, count: int, partition: int | None = None, **columns: pa.Array) -> None:
        values = [b"%d" % number for number in range(first, first + count)]
        table = {"value": pa.array(values, pa.binary()), "key": pa.array(values, pa.binary()), **columns}
        if partition is not None:
            table["partition"] = pa.array([partition] * count, pa.int32())
        write_arrow(pa.table(table), ottla_topic, bootstrap_servers=ottla_cluster.bootstrap_servers)

    return act


@pytest.fixture
def options(ottla_cluster, ottla_topic) -> dict[str, str]:
    """The options that every query needs, with lower-case names as a data source gets them."""
    return {"kafka.bootstrap.servers": ottla_cluster.bootstrap_servers, "subscribe": ottla_topic}
