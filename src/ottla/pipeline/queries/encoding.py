"""Encodes the columns of a step as record keys and values, and bad records as dead letters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)
from pyspark.sql.types import BinaryType, StringType

from ottla.pipeline.definition.model import Sink
from ottla.pipeline.queries.row_map import ERROR, ROW

# Null fields are written, so that readers of the topic see every column.
_JSON_OPTIONS = {"ignoreNullFields": "false"}


class EncodeError(Exception):
    """The columns cannot be encoded in the format of the sink."""


def records(frame: DataFrame, sink: Sink) -> DataFrame:
    """Return the columns `value` and, if the sink has a key, `key`. Raises EncodeError."""
    value = _value(frame, sink)
    if sink.delete_when is not None:
        value = F.when(F.expr(sink.delete_when), F.lit(None)).otherwise(value)
    columns = [value.alias("value")]
    if sink.key:
        columns.append(_key(frame, sink).alias("key"))
    return frame.select(*columns)


def without_record_columns(frame: DataFrame) -> DataFrame:
    """Drop the columns that start with an underscore, which are not written to lake and console sinks."""
    return frame.select(*(_column(name) for name in _own(frame)))


def _own(frame: DataFrame) -> list[str]:
    own = [name for name in frame.columns if not name.startswith("_")]
    if not own:
        raise EncodeError("no column to write: columns that start with _ are not written")
    return own


def _value(frame: DataFrame, sink: Sink) -> Column:
    own = _own(frame)
    if sink.format == "json":
        return F.to_json(F.struct(*(_column(name) for name in own)), _JSON_OPTIONS)
    if sink.format == "avro":
        return _avro(F.struct(*(_column(name) for name in own)), sink.schema or "")
    if sink.value is None and len(own) != 1:
        raise EncodeError(
            f"format {sink.format} writes one column, but the input has {', '.join(own)}: set 'value' to "
            "one of them"
        )
    chosen = F.expr(sink.value) if sink.value is not None else _column(own[0])
    return chosen.cast(StringType() if sink.format == "string" else BinaryType())


def _key(frame: DataFrame, sink: Sink) -> Column:
    """Encode one key column as text (binary is unchanged), several as a JSON object."""
    if len(sink.key) > 1:
        named = [F.expr(text).alias(_name(text)) for text in sink.key]
        return F.to_json(F.struct(*named), _JSON_OPTIONS)
    only = F.expr(sink.key[0])
    kind = frame.select(only.alias("key")).schema["key"].dataType
    if isinstance(kind, BinaryType | StringType):
        return only
    if kind.typeName() in ("struct", "map", "array"):
        return F.to_json(only, _JSON_OPTIONS)
    return only.cast(StringType())


def _name(text: str) -> str:
    return text.strip().strip("`").rsplit(".", 1)[-1]


def _column(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def _avro(row: Column, schema: str) -> Column:
    parsed = json.loads(schema)
    # A lambda without annotations: Spark would interpret them as the types of the UDF.
    return F.udf(lambda value: avro_bytes(value.asDict(recursive=True), parsed), BinaryType())(row)


def avro_bytes(row: Mapping[str, Any], schema: Any) -> bytes:
    import io

    from fastavro import schemaless_writer

    buffer = io.BytesIO()
    schemaless_writer(buffer, schema, row)
    return buffer.getvalue()


# Dead letters.


def source_dead_letters(frame: DataFrame, source: str, pipeline: str) -> DataFrame:
    """Return records that could not be decoded, with their original value; headers have origin and reason."""
    headers = _headers(
        {
            "topic": F.col("topic"),
            "partition": F.col("partition"),
            "offset": F.col("offset"),
            "reason": F.col("error"),
            "source": F.lit(source),
            "pipeline": F.lit(pipeline),
        }
    )
    bad = frame.where("error IS NOT NULL")
    return bad.select("key", F.col("raw").alias("value"), headers.alias("headers"))


def step_dead_letters(frame: DataFrame, step: str, pipeline: str) -> DataFrame:
    """Return rows on which a step failed, as JSON; headers have the reason and the origin, if known."""
    origin = {
        name: F.col(f"_{name}") for name in ("topic", "partition", "offset") if f"_{name}" in frame.columns
    }
    headers = _headers(origin | {"reason": F.col(ERROR), "step": F.lit(step), "pipeline": F.lit(pipeline)})
    key = F.col("_key") if "_key" in frame.columns else F.lit(None).cast(StringType())
    return frame.where(F.col(ERROR).isNotNull()).select(
        key.alias("key"), F.col(ROW).alias("value"), headers.alias("headers")
    )


def _headers(values: Mapping[str, Column]) -> Column:
    return F.array(
        *(
            F.struct(F.lit(name).alias("key"), value.cast(StringType()).cast(BinaryType()).alias("value"))
            for name, value in values.items()
        )
    )
