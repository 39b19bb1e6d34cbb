"""The Spark data source "ottla": topics of any Kafka-compatible cluster as DataFrames, without a jar.

    orders = (
        spark.read.format("ottla")
        .option("kafka.bootstrap.servers", "localhost:9092")
        .option("subscribe", "orders")
        .load()
    )

Spark registers the source by itself, by the name of this package. Options and columns are those of Spark's
Kafka connector; `docs/SPARK.md` lists them and the additions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark_ottla.data_source import OttlaDataSource

    DefaultSource = OttlaDataSource

__all__ = ["DefaultSource", "OttlaDataSource"]


def __getattr__(name: str) -> Any:
    """Import the source on first use: `pyspark_ottla.schema.ddl` must work without PySpark."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pyspark_ottla.data_source import OttlaDataSource

    return OttlaDataSource
