"""`ottla pipeline run`: find Java, create topics, start Spark and the queries, handle signals."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ottla.cli.output import CONNECT_TIMEOUT_MS, RETRY_TIMEOUT_MS, fail
from ottla.cli.pipelines.view import View, view_for
from ottla.client import ClusterClient
from ottla.client.errors import ClientError
from ottla.pipeline.definition.document import Problems
from ottla.pipeline.definition.model import Pipeline
from ottla.pipeline.plan import executor_dependencies, spark_conf
from ottla.pipeline.topics import prepare_topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXIT_OK = 0
EXIT_FAILED = 1


def run_file(pipeline: Pipeline, *, once: bool, as_json: bool) -> int:
    """Run the pipeline; return the exit code: 0 completed or stopped by a signal, 1 failed."""
    view = view_for(pipeline, as_json=as_json)
    problems = Problems()
    try:
        created = asyncio.run(_prepare(pipeline, problems))
    except ClientError as error:
        fail(str(error), as_json=as_json)
    for each in problems:
        print(each.shown(pipeline.path), file=sys.stderr)
    if problems.errors:
        return EXIT_FAILED
    for topic in created:
        view.emit("topic-created", f"created topic {topic}", topic=topic)
    view.emit("starting", f"starting Spark ({pipeline.options.master})", master=pipeline.options.master)
    spark = quiet_spark(pipeline, as_json=as_json)
    try:
        return run_in(spark, pipeline, view, once=once)
    finally:
        spark.stop()


def run_in(spark: SparkSession, pipeline: Pipeline, view: View, *, once: bool) -> int:
    """Run the queries in a session until they end or a signal arrives."""
    from ottla.pipeline.definition.document import Problem
    from ottla.pipeline.queries.builder import BuildError
    from ottla.pipeline.queries.runner import PipelineFailed, RunningPipeline
    from ottla.pipeline.session.jvm import spark_log_path

    running = RunningPipeline(spark, pipeline, once=once, on_rows=view.rows)

    def request_stop() -> None:
        view.emit("stopping", "stopping after the running batches")
        running.request_stop()

    with stopped_by_signals(request_stop):
        try:
            with view:
                view.progress(list(running.progress.values()))
                running.start(view.progress)
                names = [plan.name for plan in running.plans]
                view.emit("started", f"{len(names)} queries running; Ctrl-C stops them", queries=names)
                running.watch(view.progress)
        except BuildError as error:
            view.fail(Problem(error.mark, str(error)).shown(pipeline.path))
            return EXIT_FAILED
        except PipelineFailed as error:
            log_path = spark_log_path(pipeline)
            view.fail(f"{error}; Spark's log: {log_path}" if log_path else str(error), query=error.query)
            return EXIT_FAILED
    view.finished(list(running.progress.values()))
    return EXIT_OK


async def _prepare(pipeline: Pipeline, problems: Problems) -> list[str]:
    cluster = ClusterClient(
        pipeline.bootstrap,
        client_id="ottla-pipeline",
        connect_timeout_ms=CONNECT_TIMEOUT_MS,
        retry_timeout_ms=RETRY_TIMEOUT_MS,
    )
    async with cluster:
        await cluster.any_connection()
        return await prepare_topics(cluster, pipeline, problems)


def quiet_spark(pipeline: Pipeline, *, as_json: bool = False, local: bool = False) -> SparkSession:
    """Start a Spark session that does not write to the terminal; exit with a message if Java or PySpark is
    missing."""
    try:
        import pyspark
    except ImportError:
        fail("pipelines need Spark: pip install 'ottla[pipeline]'", as_json=as_json)
    del pyspark
    from ottla.pipeline.session.java import JavaNotFound, use_java
    from ottla.pipeline.session.jvm import detached_jvm, spark_log_path
    from ottla.pipeline.session.spark_session import SessionError, create_session
    from ottla.pipeline.session.worker_python import use_fast_python

    # PySpark warns about every newer version of pandas.
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    # PySpark logs Spark's errors with a stack trace; they are reported with the line in the pipeline instead.
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        **spark_conf(pipeline),
    }
    master = "local[1]" if local else pipeline.options.master
    use_fast_python(master)
    try:
        if not master.startswith("sc://"):
            use_java()
        with detached_jvm(spark_log_path(pipeline)):
            return create_session(
                master, str(pipeline.name), conf, dependencies=executor_dependencies(pipeline)
            )
    except (JavaNotFound, SessionError) as error:
        fail(str(error), as_json=as_json)


@contextmanager
def stopped_by_signals(request_stop: Any) -> Iterator[None]:
    """Stop on SIGTERM and SIGINT; a second signal stops at once."""
    count = 0

    def handle(number: int, frame: object) -> None:
        nonlocal count
        count += 1
        if count > 1:
            raise KeyboardInterrupt
        request_stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
