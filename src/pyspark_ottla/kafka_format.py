"""Lets queries that say `format("kafka")` run on this source, in a Spark without the jar of that name.

    import pyspark_ottla.kafka_format  # once, before the first query

Spark keeps the name "kafka" for its own connector, even where that is not installed, and takes no other
source by it. So the four classes of PySpark that are told a format hear "ottla" instead.
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


def _translated(original: Callable[[Any, str], Any], *, appends: bool) -> Callable[[Any, str], Any]:
    @functools.wraps(original)
    def format(self: Any, source: str) -> Any:
        if source.lower() != "kafka":
            return original(self, source)
        found = original(self, "ottla")
        # Spark's connector appends where nothing is said; of other sources Spark wants to be told.
        return found.mode("append") if appends else found

    return format


def _install() -> None:
    for module_name, class_name in _CLASSES:
        try:
            owner = getattr(import_module(module_name), class_name)
        except ImportError:
            continue  # Spark Connect has dependencies of its own, which need not be there
        owner.format = _translated(owner.format, appends=class_name == "DataFrameWriter")


_install()
