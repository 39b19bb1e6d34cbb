"""The Spark data source "ottla": topics of any Kafka-compatible cluster as DataFrames, without a jar.

    orders = (
        spark.read.format("ottla")
        .option("kafka.bootstrap.servers", "localhost:9092")
        .option("subscribe", "orders")
        .load()
    )

Spark finds it by the name of this package and registers it by itself. Options and columns are those of
Spark's own Kafka connector; `docs/SPARK.md` lists them, and what is there beyond them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark_ottla.data_source import OttlaDataSource

    DefaultSource = OttlaDataSource

__all__ = ["DefaultSource", "OttlaDataSource"]


def __getattr__(name: str) -> Any:
    """The source, when it is asked for: schemas are read, by `schema_text`, where there is no PySpark."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pyspark_ottla.data_source import OttlaDataSource

    return OttlaDataSource
