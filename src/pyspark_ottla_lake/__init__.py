"""The Spark sink `ottla_lake`: Delta tables, exactly once, without a jar.

    query = (
        orders.writeStream.format("ottla_lake")
        .option("path", "/data/lake/orders")
        .option("partitionBy", "day")
        .option("checkpointLocation", "/data/checkpoints/orders")
        .start()
    )

Spark finds it by the name of this package. `docs/LAKE.md` lists the options and says what is promised.
"""

from __future__ import annotations

from pyspark_ottla_lake.data_source import LakeDataSource

DefaultSource = LakeDataSource

__all__ = ["DefaultSource", "LakeDataSource"]
