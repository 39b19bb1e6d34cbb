"""The query plans of a pipeline: groups, checkpoints and options. Nothing here needs Spark.

There is one query per sink, and one more for each source with values that can fail to decode and for each
`map` step: these write to the dead-letter topic. Every query has its own checkpoint and consumer group, so
queries can be added and removed independently.
"""

from __future__ import annotations

import os
import posixpath
import socket
from collections.abc import Mapping
from typing import NamedTuple

from ottla.pipeline.definition.graph import Graph
from ottla.pipeline.definition.model import Pipeline, Sink, Source, Step
from ottla.pipeline.definition.parser import AS_SOON_AS_POSSIBLE
from ottla.pipeline.definition.syntax import is_remote
from ottla.pipeline.session.shipping import BASE_DEPENDENCIES, DEPENDENCIES
from pyspark_ottla.option_values import parse_duration_ms

GROUP_PREFIX = "ottla-pipeline"
DEAD_LETTERS = "dead-letters"
# The names of Spark's observed metrics that count dead letters and dropped records.
DEAD_LETTER_METRIC = "dead_letters"
DROPPED_METRIC_PREFIX = "dropped_"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
MEMORY = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


class QueryPlan(NamedTuple):
    """One streaming query. Without a sink it writes the dead letters of the source or step `input`."""

    name: str
    input: str
    sink: Sink | None
    output: str
    group: str
    checkpoint: str
    trigger_ms: int

    @property
    def is_dead_letters(self) -> bool:
        return self.sink is None


def queries_of(pipeline: Pipeline) -> list[QueryPlan]:
    """Return the plans in the order of the file, dead letters last."""
    graph = Graph(pipeline)
    plans = []
    needed: dict[str, None] = {}
    for sink in pipeline.sinks.values():
        name = graph.find(sink.input)
        assert name is not None, "a plan needs a valid pipeline"
        needed.update(dict.fromkeys(graph.needed_by(sink)))
        plans.append(_plan(pipeline, str(sink.name), name, sink))
    bad = [name for name in needed if has_dead_letters(pipeline, pipeline.named(name))]
    return plans + [_plan(pipeline, f"{DEAD_LETTERS}-{name}", name, None) for name in bad]


def has_dead_letters(pipeline: Pipeline, named: Source | Step | None) -> bool:
    if isinstance(named, Source):
        return named.can_be_bad and named.on_bad_record == "dead-letter"
    return named is not None and named.can_fail_on_a_row and pipeline.options.on_bad_record == "dead-letter"


def _plan(pipeline: Pipeline, name: str, input_name: str, sink: Sink | None) -> QueryPlan:
    trigger = (sink.trigger if sink is not None else None) or pipeline.options.trigger
    return QueryPlan(
        name=name,
        input=input_name,
        sink=sink,
        output=sink.output if sink is not None else "append",
        group=group_of(pipeline.name, name),
        checkpoint=checkpoint_of(pipeline, name),
        trigger_ms=0 if trigger == AS_SOON_AS_POSSIBLE else parse_duration_ms(trigger) or 0,
    )


def group_of(pipeline: str, query: str) -> str:
    return f"{GROUP_PREFIX}.{pipeline}.{query}"


def parse_group(group: str) -> tuple[str, str] | None:
    """Return the pipeline and query of a consumer group; None if it belongs to no pipeline."""
    parts = group.split(".")
    return (parts[1], parts[2]) if len(parts) == 3 and parts[0] == GROUP_PREFIX else None


def checkpoint_of(pipeline: Pipeline, query: str) -> str:
    base = pipeline.resolved(pipeline.options.checkpoint)
    return posixpath.join(base, query) if is_remote(base) else f"{base}/{query}"


def connection_options(pipeline: Pipeline) -> dict[str, str]:
    found = {f"kafka.{name}": value for name, value in pipeline.kafka.items()}
    return found | {"kafka.bootstrap.servers": pipeline.bootstrap}


def source_options(pipeline: Pipeline, source: Source, group: str | None) -> dict[str, str]:
    """Return the options of the data source; `group` is None for tables, which commit no offsets."""
    options = connection_options(pipeline) | {"subscribe": ",".join(source.topics)}
    if group is not None:
        options |= {
            "startingOffsets": source.start,
            "kafka.group.id": group,
            "commitOffsetsToGroup": "true",
            "commitOffsetsMetadata": driver_location(pipeline),
        }
        if source.start == "group":
            options["startingOffsetsByGroupStrategy"] = "earliest"
    if source.format != "raw":
        options["valueFormat"] = source.format
        options["badRecords"] = "fail" if source.on_bad_record == "fail" else "columns"
    if source.schema is not None:
        options["valueSchema"] = source.schema.strip()
    if source.with_headers:
        options["includeHeaders"] = "true"
    if source.rows_max is not None:
        options["maxOffsetsPerTrigger"] = str(source.rows_max)
    return options | dict(source.options)


def driver_location(pipeline: Pipeline) -> str:
    """Return the host and process of the driver and the master, which `ottla pipeline list` shows."""
    return f"{socket.gethostname()} pid {os.getpid()}, {pipeline.options.master}"


def sink_options(pipeline: Pipeline, sink: Sink) -> dict[str, str]:
    if sink.kind == "topic":
        options = connection_options(pipeline) | {"topic": str(sink.target), "mode": sink.mode}
    else:
        options = {"path": pipeline.resolved(sink.target)}
        if sink.partition_by:
            options["partitionBy"] = ",".join(sink.partition_by)
    return options | dict(sink.options)


def executor_dependencies(pipeline: Pipeline) -> tuple[str, ...]:
    """Return the packages that executors import for this pipeline."""
    if any(step.code is not None for step in pipeline.steps.values()):
        return DEPENDENCIES  # user code may import any of them
    needed: tuple[str, ...] = BASE_DEPENDENCIES
    formats = [source.format for source in pipeline.sources.values()]
    formats += [sink.format for sink in pipeline.sinks.values()]
    if "avro" in formats:
        needed = (*needed, "fastavro")
    # To a local directory executors write with pyarrow; only the driver, which commits, needs deltalake.
    if any(sink.kind == "lake" and is_remote(sink.target) for sink in pipeline.sinks.values()):
        needed = (*needed, "deltalake")
    return needed


def spark_conf(pipeline: Pipeline) -> Mapping[str, str]:
    """Return the configuration of the session; `options: spark:` in the file overrides the defaults."""
    options = pipeline.options
    return {
        "spark.sql.shuffle.partitions": str(options.shuffle_partitions),
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB
        if options.state_store == "rocksdb"
        else MEMORY,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        # Without ANSI mode a failed cast is null and does not fail the query.
        "spark.sql.ansi.enabled": "true" if options.ansi else "false",
        # Queries share the cores instead of queueing behind each other's batches.
        "spark.scheduler.mode": "FAIR",
        **options.spark,
    }
