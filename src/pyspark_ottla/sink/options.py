"""The options of the sink. They are checked when a query is planned, and pickled to executors."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType

from pyspark_ottla.client_options import (
    client_parameters,
    cluster_options,
    refuse,
    writer_options,
)
from pyspark_ottla.option_values import one_of, whole_number, write_identity

RECORD_COLUMNS = ("key", "value", "headers", "topic", "partition")
AT_LEAST_ONCE = "at-least-once"
EXACTLY_ONCE = "exactly-once"
MODES = (AT_LEAST_ONCE, EXACTLY_ONCE)
COMMIT_TOPIC = "__ottla_spark_commits"
# The default maximum of brokers: a task must have written all its rows within this time.
TRANSACTION_TIMEOUT_MS = 900_000
UNSUPPORTED_SINK_OPTIONS = {
    "transactional.id": "with mode=exactly-once the sink chooses the transactional ids",
    "interceptor.classes": "interceptors may break the query",
    "partitioner.class": "rows are partitioned as by the Java client, or by the column 'partition'",
}


class SinkOptions:
    """The constructor raises ValueError for invalid options."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        given = client_parameters(options)
        refuse(given, UNSUPPORTED_SINK_OPTIONS)
        self.cluster = cluster_options(options)
        self.writer = writer_options(options)
        self.topic = options.get("topic")
        self.dead_letter_topic = options.get("deadlettertopic")
        self.mode = one_of(options, "mode", MODES, AT_LEAST_ONCE)
        if self.mode == EXACTLY_ONCE:
            self._check_exactly_once(given)
        self.commit_topic = options.get("committopic", COMMIT_TOPIC)
        self.transaction_timeout_ms = whole_number(
            "kafka.transaction.timeout.ms",
            given.get("transaction.timeout.ms", str(TRANSACTION_TIMEOUT_MS)),
            at_least=1,
        )
        lost = options.get("acceptlostbatch")
        self.accept_lost_batch = None if lost is None else whole_number("acceptLostBatch", lost)
        self.application, self.version = _write_identity(options)
        # A batch write with txnAppId may repeat any earlier version; a stream repeats its last batch only.
        self.skips_earlier = self.application is not None
        self.columns = check_schema(schema, self.topic)

    def records(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Select the columns that make up records, under the client's names."""
        return rows.select(self.columns).rename_columns([name.lower() for name in self.columns])

    def _check_exactly_once(self, given: Mapping[str, str]) -> None:
        if str(self.writer.acks) not in ("all", "-1"):
            raise ValueError(f"option 'kafka.acks' is {self.writer.acks!r}: mode=exactly-once needs all")
        if self.writer.idempotent is False:
            raise ValueError("option 'kafka.enable.idempotence' is false: mode=exactly-once needs true")


def _write_identity(options: Mapping[str, str]) -> tuple[str | None, int]:
    application, version = write_identity(options) or (None, 0)
    if application is not None and "/" in application:
        raise ValueError(f"option 'txnAppId' is {application!r}: expected a name without slashes")
    return application, version


def check_schema(schema: StructType, topic: str | None) -> list[str]:
    """Return the columns that make up records. Raises ValueError if one is missing or has the wrong type."""
    # Spark's column names are case-insensitive.
    by_lower = {field.name.lower(): field for field in schema.fields}
    if "value" not in by_lower:
        raise ValueError(f"the column 'value' is missing; the columns are {', '.join(schema.names)}")
    if topic is None and "topic" not in by_lower:
        raise ValueError("no topic to write to: set the option 'topic' or add a column 'topic'")
    for name in RECORD_COLUMNS:
        if name in by_lower and not _fits(name, by_lower[name].dataType):
            expected = {
                "headers": "array<struct<key:string,value:binary>>",
                "topic": "string",
                "partition": "int",
            }.get(name, "string or binary")
            found = by_lower[name].dataType.simpleString()
            raise ValueError(f"the column {name!r} must be {expected}, not {found}")
    return [by_lower[name].name for name in RECORD_COLUMNS if name in by_lower]


def _fits(name: str, kind: DataType) -> bool:
    if name in ("key", "value"):
        return isinstance(kind, StringType | BinaryType)
    if name == "topic":
        return isinstance(kind, StringType)
    if name == "partition":
        return isinstance(kind, IntegerType)
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = kind.elementType.fields
    return (
        [field.name.lower() for field in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, StringType)
        and isinstance(fields[1].dataType, BinaryType)
    )
