"""Builds DataFrames and streaming queries from query plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import BinaryType, StringType, StructType

from ottla.pipeline.definition.document import Mark, Problems
from ottla.pipeline.definition.graph import Graph
from ottla.pipeline.definition.model import Pipeline, Source, Step, Watermark
from ottla.pipeline.definition.syntax import spark_duration
from ottla.pipeline.plan import (
    DEAD_LETTER_METRIC,
    DROPPED_METRIC_PREFIX,
    QueryPlan,
    connection_options,
    queries_of,
    sink_options,
    source_options,
)
from ottla.pipeline.queries import encoding
from ottla.pipeline.queries.code_loader import load_code

Result = TypeVar("Result")
# sink, batch, columns, rows
OnRows = Callable[[str, int, Sequence[str], Sequence[Sequence[Any]]], None]


class BuildError(Exception):
    """Spark or user code raised an error for a part of the file."""

    def __init__(self, mark: Mark, message: str) -> None:
        super().__init__(message)
        self.mark = mark


class Builder:
    """Builds the queries of one pipeline in one session. Sources and steps are temporary views in it."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline) -> None:
        self.spark = spark
        self.pipeline = pipeline
        self.graph = Graph(pipeline)
        if any(source.is_table for source in pipeline.sources.values()):
            from ottla.pipeline.queries.table_source import TableDataSource

            spark.dataSource.register(TableDataSource)

    def frame(self, plan: QueryPlan) -> DataFrame:
        """Build the DataFrame of a query. Raises BuildError."""
        found: DataFrame | None = None
        for name in self.graph.upstream(plan.input):
            last = name == plan.input
            found = self._named(name, plan, dead_letters=last and plan.is_dead_letters)
            if not (last and plan.is_dead_letters):
                found.createOrReplaceTempView(name)
        assert found is not None
        if plan.sink is not None and plan.sink.kind == "topic":
            sink = plan.sink
            return self._located(sink.name.mark, f"sink '{sink.name}'", lambda: encoding.records(found, sink))
        return found if plan.is_dead_letters else encoding.without_record_columns(found)

    def start(self, plan: QueryPlan, *, once: bool, on_rows: OnRows) -> StreamingQuery:
        """Start a query. Raises BuildError if Spark refuses it."""
        frame = self.frame(plan)
        writer = (
            frame.writeStream.queryName(f"{self.pipeline.name}.{plan.name}")
            .outputMode(plan.output)
            .option("checkpointLocation", plan.checkpoint)
        )
        if once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{plan.trigger_ms} milliseconds")
        sink = plan.sink
        if sink is None:
            options = connection_options(self.pipeline) | {"topic": str(self.pipeline.options.dead_letter)}
            writer = writer.format("ottla").options(**options)
        elif sink.kind == "console":
            writer = writer.foreachBatch(_ConsoleWriter(str(sink.name), sink.rows, on_rows))
        elif sink.kind == "topic" and plan.output == "update":
            # Spark does not support update mode for Python sinks. A repeated batch writes the same keys and
            # values again, so the latest value of every key is the same.
            writer = writer.foreachBatch(_UpdateWriter(sink_options(self.pipeline, sink)))
        else:
            kind = "ottla" if sink.kind == "topic" else "ottla_lake"
            writer = writer.format(kind).options(**sink_options(self.pipeline, sink))
        mark = sink.name.mark if sink is not None else self.pipeline.mark_of(plan.input)
        return self._located(mark, f"query '{plan.name}'", writer.start)

    def _located(self, mark: Mark, what: str, act: Callable[[], Result]) -> Result:
        """Call Spark or user code; errors become a BuildError with the position in the file."""
        try:
            return act()
        except BuildError:
            raise
        except PySparkException as error:
            raise BuildError(mark, f"{what}: {first_line(error)}") from error
        except Exception as error:
            raise BuildError(mark, f"{what}: {type(error).__name__}: {error}") from error

    # Sources.

    def _named(self, name: str, plan: QueryPlan, *, dead_letters: bool) -> DataFrame:
        source = self.pipeline.sources.get(name)
        if source is not None:
            return self._located(
                source.name.mark,
                f"source '{name}'",
                lambda: self._source(source, plan, dead_letters=dead_letters),
            )
        step = self.pipeline.steps[name]
        mark = (step.sql or step.code or step.name).mark
        return self._located(mark, f"step '{name}'", lambda: self._step(step, dead_letters=dead_letters))

    def _source(self, source: Source, plan: QueryPlan, *, dead_letters: bool) -> DataFrame:
        if source.is_table and not dead_letters:
            return self._table(source)
        options = source_options(self.pipeline, source, plan.group)
        frame = self.spark.readStream.format("ottla").options(**options).load()
        if dead_letters:
            found = encoding.source_dead_letters(frame, source.name, self.pipeline.name)
            return found.observe(DEAD_LETTER_METRIC, F.count(F.lit(1)).alias("rows"))
        if "error" in frame.columns and source.format != "raw" and source.on_bad_record != "fail":
            if source.on_bad_record == "drop":
                bad = F.count(F.col("error")).alias("rows")
                frame = frame.observe(f"{DROPPED_METRIC_PREFIX}{source.name}", bad)
            frame = frame.where("error IS NULL")
        return _with_watermark(frame.select(*_columns(source)), source.watermark)

    def _table(self, source: Source) -> DataFrame:
        """Build a table: the latest value of each key; a tombstone deletes the key."""
        from ottla.pipeline.queries.table_source import NAME

        options = source_options(self.pipeline, source, None)
        frame = self.spark.read.format(NAME).options(**options).load()
        # The reader returns the latest record of a key in each partition. A key is in two partitions only if
        # partitions were added: then the later record wins.
        row = F.struct(*(F.col(name) for name in frame.columns))
        latest = frame.groupBy("key").agg(F.max_by(row, F.struct("timestamp", "offset")).alias("latest"))
        return latest.select("latest.*").where("value IS NOT NULL").select(*_columns(source))

    # Steps.

    def _step(self, step: Step, *, dead_letters: bool) -> DataFrame:
        inputs = [self.spark.table(self.graph.find(name) or name) for name in step.inputs]
        if step.kind == "sql":
            assert step.sql is not None
            frame = self.spark.sql(step.sql.strip().rstrip(";"))
        elif step.kind == "python":
            frame = self._code(step)(*inputs)
            if not isinstance(frame, DataFrame):
                raise TypeError(f"{step.code} must return a DataFrame, not {type(frame).__name__}")
        elif step.kind == "dedup":
            frame = inputs[0].dropDuplicatesWithinWatermark([str(key) for key in step.keys])
        elif step.kind == "state":
            frame = self._stateful(step, inputs[0])
        else:
            frame = self._mapped(step, inputs[0], dead_letters=dead_letters)
        return frame if dead_letters else _with_watermark(frame, step.watermark)

    def _mapped(self, step: Step, frame: DataFrame, *, dead_letters: bool) -> DataFrame:
        from ottla.pipeline.queries.row_map import ERROR, ROW, map_rows

        mapped = map_rows(frame, self._code(step), self._schema(step))
        if dead_letters:
            found = encoding.step_dead_letters(mapped, step.name, self.pipeline.name)
            return found.observe(DEAD_LETTER_METRIC, F.count(F.lit(1)).alias("rows"))
        if self.pipeline.options.on_bad_record == "fail":
            raised = F.raise_error(F.concat(F.lit(f"step '{step.name}': "), F.col(ERROR)))
            mapped = mapped.where(F.when(F.col(ERROR).isNotNull(), raised.isNull()).otherwise(True))
        elif self.pipeline.options.on_bad_record == "drop":
            mapped = mapped.observe(
                f"{DROPPED_METRIC_PREFIX}{step.name}", F.count(F.col(ERROR)).alias("rows")
            )
        return mapped.where(F.col(ERROR).isNull()).drop(ERROR, ROW)

    def _stateful(self, step: Step, frame: DataFrame) -> DataFrame:
        processor = self._code(step)
        times = {"none": "None", "processing": "ProcessingTime", "event": "EventTime"}
        return frame.groupBy(*(F.expr(key) for key in step.keys)).transformWithState(
            statefulProcessor=processor() if isinstance(processor, type) else processor,
            outputStructType=self._schema(step),
            outputMode=step.output.capitalize(),
            timeMode=times[step.time],
            eventTimeColumnName=str(step.event_time or ""),
        )

    def _code(self, step: Step) -> Any:
        assert step.code is not None
        return load_code(step.code, self.pipeline.directory)

    def _schema(self, step: Step) -> StructType:
        assert step.schema is not None
        found = StructType.fromDDL(step.schema)
        assert isinstance(found, StructType), "validation has checked the schema"
        return found


def analyse(spark: SparkSession, pipeline: Pipeline, problems: Problems) -> None:
    """Let Spark analyse every query without starting it, and add its errors to the problems."""
    builder = Builder(spark, pipeline)
    for plan in queries_of(pipeline):
        try:
            builder.frame(plan)
        except BuildError as error:
            problems.add(error.mark, str(error))


def _columns(source: Source) -> list[Column | str]:
    """Return the columns of a source as steps see them: those of the value, then those of the record."""
    key = F.col("key").cast(StringType() if source.key_format == "string" else BinaryType())
    columns: list[Column | str] = ["value" if source.format in ("string", "raw") else "value.*"]
    columns += [
        key.alias("_key"),
        F.col("topic").alias("_topic"),
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("timestamp").alias("_timestamp"),
    ]
    if source.with_headers:
        columns.append(F.col("headers").alias("_headers"))
    return columns


def _with_watermark(frame: DataFrame, watermark: Watermark | None) -> DataFrame:
    if watermark is None:
        return frame
    return frame.withWatermark(str(watermark.column), spark_duration(watermark.delay))


def first_line(error: BaseException) -> str:
    """Return the first line of a Spark error, without the plan and the stack trace."""
    text = str(error).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


class _UpdateWriter:
    """Writes every batch of a topic sink in update mode, with foreachBatch."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        frame.write.format("ottla").options(**self._options).mode("append").save()


class _ConsoleWriter:
    """Passes the first rows of every batch of a console sink to a callback."""

    def __init__(self, sink: str, rows_max: int, on_rows: OnRows) -> None:
        self._sink = sink
        self._rows_max = rows_max
        self._on_rows = on_rows

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        rows = [tuple(row) for row in frame.limit(self._rows_max).collect()]
        if rows:
            self._on_rows(self._sink, batch_id, frame.columns, rows)
