"""The lake sink in a real Spark: streams, batch writes, and drivers killed around their commit."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("pyspark", reason="the lake sink needs pyspark: pip install ottla[pipeline]")
pytest.importorskip("deltalake", reason="the lake sink needs deltalake: pip install ottla[pipeline]")

from deltalake import DeltaTable
from pyspark.errors import PySparkException

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    # Py4J does not close its sockets.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


LONG = os.environ.get("OTTLA_LONG_TESTS") == "1"


def kinds() -> list[str]:
    return [
        "id",
        "cast(id % 3 as int) as part",
        "array(id, null) as numbers",
        "map('k', id) as named",
        "struct(id as x, cast(id as decimal(20,2)) as dec) as inner",
        "timestamp'2026-01-01 00:00:00' as at",
        "timestamp_ntz'2026-01-01 00:00:00' as local",
        "cast(cast(id as string) as binary) as bin",
        "date'2026-01-01' as day",
    ]


def test_stream_and_batch_writes_to_one_table(spark, tmp_path):
    path = str(tmp_path / "table")

    def stream(rows: int):
        """Start a stream of `rows` rows from a built-in source."""
        directory = tmp_path / "input"
        spark.range(rows - 100, rows).write.mode("append").parquet(str(directory))
        query = (
            spark.readStream.schema("id long")
            .parquet(str(directory))
            .selectExpr(*kinds())
            .writeStream.format("ottla_lake")
            .option("path", path)
            .option("partitionBy", "part")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(300)
        return query

    query_id = stream(100).id
    stream(200)
    table = DeltaTable(path)
    assert table.transaction_version(str(query_id)) == 1
    assert table.metadata().partition_columns == ["part"]
    rows = sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: row["id"])
    assert [row["id"] for row in rows] == list(range(200))
    assert rows[7]["named"] == [("k", 7)]
    assert rows[7]["bin"] == b"7"
    assert rows[7]["at"].isoformat() == "2026-01-01T00:00:00+00:00"
    assert str(rows[7]["inner"]["dec"]) == "7.00"

    # A batch with a new column and without others.
    extra = spark.range(200, 210).selectExpr("id", "cast(id % 3 as int) as part", "'new' as extra")
    extra.write.format("ottla_lake").mode("append").save(path)
    table = DeltaTable(path)
    assert table.count() == 210
    assert sum(row["extra"] == "new" for row in table.to_pyarrow_table().to_pylist()) == 10

    with pytest.raises(PySparkException, match="'id' is bigint in the table and string in the query"):
        spark.range(1).selectExpr("'x' as id", "1 as part").write.format("ottla_lake").mode("append").save(
            path
        )
    spark.range(5).selectExpr("id", "1 as part").write.format("ottla_lake").mode("overwrite").save(path)
    assert DeltaTable(path).count() == 5


DRIVER = textwrap.dedent(
    """
    import os, signal, sys
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    place, kill = sys.argv[1], sys.argv[2]

    import pyspark_ottla_lake
    from pyspark_ottla_lake import LakeDataSource, writers

    class Killed(LakeDataSource):
        # The driver's JVM dies at the commit of batch 1, before or after its commit point.
        @classmethod
        def name(cls):
            return "killed_lake"

        def streamWriter(self, schema, overwrite):
            import os, signal

            made = super().streamWriter(schema, overwrite)
            jvm, kill, commit = int(self.options["jvm"]), self.options["kill"], made.commit

            class Killing(type(made)):
                def __init__(self):
                    self.__dict__.update(made.__dict__)

                def commit(self, messages, batchId):
                    if batchId == 1 and kill == "before":
                        os.kill(jvm, signal.SIGKILL)
                        os._exit(1)
                    super().commit(messages, batchId)
                    if batchId == 1 and kill == "after":
                        os.kill(jvm, signal.SIGKILL)

            return Killing()

    spark.dataSource.register(Killed)
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    query = (
        spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
        .parquet(place + "/input")
        .repartition(1)
        .writeStream.format("killed_lake")
        .option("path", place + "/table").option("kill", kill).option("jvm", str(jvm))
        .option("checkpointLocation", place + "/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(250)
    print("done", flush=True)
    """
)


@pytest.mark.parametrize(
    ("how", "batches"),
    [
        pytest.param("before", 1, marks=pytest.mark.skipif(not LONG, reason="make test-spark-long")),
        ("after", 2),
    ],
)
def test_driver_killed_around_its_commit(spark, tmp_path, how, batches):
    import pyarrow as pa
    import pyarrow.parquet as pq

    os.makedirs(tmp_path / "input")
    for file in range(3):
        ids = pa.array(range(file * 100, file * 100 + 100), pa.int64())
        path = tmp_path / "input" / f"{file}.parquet"
        pq.write_table(pa.table({"id": ids}), path)
        os.utime(path, (1_700_000_000 + file,) * 2)  # Spark reads the oldest file first

    def rows() -> list[int]:
        return sorted(DeltaTable(str(tmp_path / "table")).to_pyarrow_table()["id"].to_pylist())

    killed = subprocess.run(
        [sys.executable, "-c", DRIVER, str(tmp_path), how],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "done" not in killed.stdout
    assert rows() == list(range(100 * batches)), killed.stderr[-2000:]
    # The repeated batch has other tasks; if it was committed, it is in the table already.
    query = (
        spark.readStream.schema("id long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "input"))
        .repartition(3)
        .writeStream.format("ottla_lake")
        .option("path", str(tmp_path / "table"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    assert rows() == list(range(300))
    assert DeltaTable(str(tmp_path / "table")).transaction_version(str(query.id)) == 2
