"""The driver JVM that PySpark starts: its process group and its log file."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ottla.pipeline.definition.model import Pipeline
from ottla.pipeline.definition.syntax import is_remote


@contextmanager
def detached_jvm(log_path: str | None) -> Iterator[None]:
    """Start the JVM and its Python workers in a process session of their own, with output to a log file.

    Ctrl-C in a terminal signals every process of the foreground group, which would kill the workers of a
    batch that is to be finished. The JVM still exits with this process, when its standard input closes.
    """
    import pyspark.java_gateway

    java_gateway: Any = pyspark.java_gateway
    original = java_gateway.Popen
    with open(log_path or os.devnull, "ab") as log:
        output = {} if log_path is None else {"stdout": log, "stderr": log}
        java_gateway.Popen = functools.partial(original, start_new_session=True, **output)
        try:
            yield
        finally:
            java_gateway.Popen = original


def spark_log_path(pipeline: Pipeline) -> str | None:
    """Return the path of Spark's log, in the checkpoint directory; None if that is not a local directory."""
    base = pipeline.resolved(pipeline.options.checkpoint)
    if is_remote(base):
        return None
    os.makedirs(base, exist_ok=True)
    return os.path.join(base, "spark.log")
