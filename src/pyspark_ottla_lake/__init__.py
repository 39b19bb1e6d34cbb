"""The Spark sink `ottla_lake`: exactly-once writes to Delta tables, without a jar.

    query = (
        orders.writeStream.format("ottla_lake")
        .option("path", "/data/lake/orders")
        .option("partitionBy", "day")
        .option("checkpointLocation", "/data/checkpoints/orders")
        .start()
    )

Spark registers the sink by itself, by the name of this package. `docs/LAKE.md` lists options and guarantees.
"""

from __future__ import annotations

from pyspark_ottla_lake.data_source import LakeDataSource

DefaultSource = LakeDataSource

__all__ = ["DefaultSource", "LakeDataSource"]
