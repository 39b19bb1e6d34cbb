"""A Spark driver to be killed, in a child process: copies one topic to another, exactly once.

python -m tests.support.spark.sink_driver '{"servers": ..., "source": ..., "target": ..., ...}'

Prints one line of JSON for every batch, so that the test knows its progress.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def main() -> int:
    from pyspark.sql import SparkSession

    wanted = json.loads(sys.argv[1])
    spark = (
        # Up to four attempts of a task, so that a killed worker does not fail the query.
        SparkSession.builder.master(f"local[{wanted.get('cores', 2)},4]")
        .appName("ottla sink test")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", wanted["checkpoint"] + "-warehouse")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel(wanted.get("log", "OFF"))
    query = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", wanted["servers"])
        .option("subscribe", wanted["source"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(wanted.get("rows", 200)))
        .option("minPartitions", str(wanted.get("tasks", 2)))
        .load()
        .selectExpr("key", "value")
        .writeStream.format("ottla")
        .option("kafka.bootstrap.servers", wanted["servers"])
        .option("topic", wanted["target"])
        .option("mode", "exactly-once")
        .option("checkpointLocation", wanted["checkpoint"])
        .options(**wanted.get("options", {}))
        .start()
    )
    gateway: Any = spark.sparkContext._gateway
    print(json.dumps({"jvm": gateway.proc.pid, "query": query.id}), flush=True)
    seen = -1
    while query.isActive:
        progress = query.lastProgress
        if progress is not None and progress["batchId"] != seen:
            seen = progress["batchId"]
            print(json.dumps({"batch": seen, "rows": progress["numInputRows"]}), flush=True)
        time.sleep(0.02)
    failure = query.exception()
    print(json.dumps({"failed": str(failure)[:20_000] if failure is not None else None}), flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
