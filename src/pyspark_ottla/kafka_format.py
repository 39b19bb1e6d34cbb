"""Run queries that use `format("kafka")` on this data source, without Spark's Kafka jar.

    import pyspark_ottla.kafka_format  # once, before the first query

Spark reserves the name "kafka" for its own connector, even where the jar is missing, and accepts no other
source under it. Importing this module patches the reader and writer classes of PySpark to use "ottla"
instead.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

_CLASSES = (
    ("pyspark.sql.readwriter", "DataFrameReader"),
    ("pyspark.sql.readwriter", "DataFrameWriter"),
    ("pyspark.sql.streaming.readwriter", "DataStreamReader"),
    ("pyspark.sql.streaming.readwriter", "DataStreamWriter"),
    ("pyspark.sql.connect.readwriter", "DataFrameReader"),
    ("pyspark.sql.connect.readwriter", "DataFrameWriter"),
    ("pyspark.sql.connect.streaming.readwriter", "DataStreamReader"),
    ("pyspark.sql.connect.streaming.readwriter", "DataStreamWriter"),
)


def _redirected(original: Callable[[Any, str], Any], *, appends: bool) -> Callable[[Any, str], Any]:
    @functools.wraps(original)
    def format(self: Any, source: str) -> Any:
        if source.lower() != "kafka":
            return original(self, source)
        redirected = original(self, "ottla")
        # Spark's connector appends by default; for other sources the save mode must be set.
        return redirected.mode("append") if appends else redirected

    return format


def _install() -> None:
    for module_name, class_name in _CLASSES:
        try:
            owner = getattr(import_module(module_name), class_name)
        except ImportError:
            continue  # Spark Connect has optional dependencies
        owner.format = _redirected(owner.format, appends=class_name == "DataFrameWriter")


_install()
