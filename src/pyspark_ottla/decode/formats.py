"""The options that decode keys and values, and the resulting columns.

valueFormat     json, avro or string; without it `value` is binary (keyFormat: the same for `key`)
valueSchema     Spark DDL, or a Spark or Avro schema as JSON (keySchema: the same for keys)
avroWireFormat  none, or confluent: values start with a zero byte and a schema id, which are skipped
badRecords      fail (default), null, or columns: adds `error` and `raw` for records that cannot be decoded
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from pyspark_ottla.decode.avro_decoder import PLAIN, WIRE_FORMATS, AvroDecoder
from pyspark_ottla.decode.common import Decoded, decode_string
from pyspark_ottla.decode.json_decoder import JsonDecoder
from pyspark_ottla.option_values import one_of
from pyspark_ottla.schema.avro import avro_type
from pyspark_ottla.schema.spark_types import nullable, parse_ddl

FORMATS = ("json", "avro", "string")
FAIL, NULL, COLUMNS = "fail", "null", "columns"
BAD_RECORDS = (FAIL, NULL, COLUMNS)
ERROR, RAW = "error", "raw"
ADDED_FIELDS = {ERROR: StructField(ERROR, StringType()), RAW: StructField(RAW, BinaryType())}


class BadRecord(ValueError):
    """A record does not match its schema, and `badRecords` is fail."""


class ColumnFormat(NamedTuple):
    """How `key` or `value` is decoded. It is hashable, and pickled to executors."""

    format: str
    schema: str = ""
    wire_format: str = PLAIN

    def spark_type(self) -> DataType:
        """Raises ValueError for an unusable schema."""
        return _spark_type(self)


class ValueFormats(NamedTuple):
    """The formats by column, `key` before `value`, and the handling of bad records."""

    columns: tuple[tuple[str, ColumnFormat], ...] = ()
    bad_records: str = FAIL

    @property
    def adds_columns(self) -> bool:
        return self.bad_records == COLUMNS

    def of(self, column: str) -> ColumnFormat | None:
        return dict(self.columns).get(column)


def value_formats(options: Mapping[str, str]) -> ValueFormats:
    """Raises ValueError for contradicting options and unusable schemas."""
    columns = []
    for column in ("key", "value"):
        found = _column_format(options, column)
        if found is not None:
            found.spark_type()
            columns.append((column, found))
    bad_records = one_of(options, "badRecords", BAD_RECORDS, FAIL)
    if not columns:
        for name in ("badRecords", "avroWireFormat"):
            if name.lower() in options:
                raise ValueError(f"option {name!r} needs valueFormat or keyFormat")
    return ValueFormats(tuple(columns), bad_records)


def _column_format(options: Mapping[str, str], column: str) -> ColumnFormat | None:
    format_name, schema_name = f"{column}Format", f"{column}Schema"
    schema = options.get(schema_name.lower(), "").strip()
    if format_name.lower() not in options:
        if schema:
            raise ValueError(f"option {schema_name!r} needs {format_name}")
        return None
    chosen = one_of(options, format_name, FORMATS, "")
    if chosen == "string":
        if schema:
            raise ValueError(f"option {schema_name!r} must not be set for {format_name}=string")
        return ColumnFormat(chosen)
    if not schema:
        example = '{"type": "record", ...}' if chosen == "avro" else "id bigint, name string"
        raise ValueError(f"option {schema_name!r} must be set for {format_name}={chosen}, such as {example}")
    wire_format = one_of(options, "avroWireFormat", WIRE_FORMATS, PLAIN)
    return ColumnFormat(chosen, schema, wire_format if chosen == "avro" else PLAIN)


@lru_cache(maxsize=64)
def _spark_type(of: ColumnFormat) -> DataType:
    if of.format == "string":
        return StringType()
    if of.format == "json":
        return schema_type(of.schema)
    if of.schema.startswith(("{", "[", '"')):
        return _from_avro(of.schema)
    raise ValueError(f"schema {of.schema!r}: format avro needs an Avro schema, which is JSON")


def schema_type(text: str) -> DataType:
    """Parse Spark DDL, Spark JSON (`df.schema.json()`) or Avro JSON. Raises ValueError."""
    if not text.lstrip().startswith("{"):
        return parse_ddl(text)
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"schema {text!r}: {error}") from None
    if parsed.get("type") != "struct":
        return _from_avro(text)
    try:
        return nullable(StructType.fromJson(parsed))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"schema {text!r}: not a Spark schema: {error!r}") from None


def _from_avro(text: str) -> DataType:
    found: DataType = from_arrow_type(avro_type(text).kind, prefer_timestamp_ntz=True)
    return found


class Decoder(Protocol):
    def decode(self, values: pa.Array) -> Decoded: ...


class _Strings:
    def decode(self, values: pa.Array) -> Decoded:
        return decode_string(values)


@lru_cache(maxsize=64)
def decoder_of(of: ColumnFormat) -> Decoder:
    """Return the decoder of a format, one per process. Raises ValueError."""
    if of.format == "string":
        return _Strings()
    if of.format == "avro":
        return AvroDecoder(of.schema, of.wire_format)
    return JsonDecoder(to_arrow_type(of.spark_type(), timezone="UTC"))


class DecodedRows:
    """The decoded columns of one batch of rows. The constructor raises BadRecord if `badRecords` is fail."""

    def __init__(self, rows: pa.RecordBatch, formats: ValueFormats, topic: str, partition: int) -> None:
        self.columns: dict[str, pa.Array] = {}
        self._rows = rows
        self._reasons: dict[int, str] = {}
        for column, of in formats.columns:
            decoded = decoder_of(of).decode(rows.column(column))
            self.columns[column] = decoded.values
            for row, reason in decoded.errors.items():
                text = f"{column}: {reason}"
                known = self._reasons.get(row)
                self._reasons[row] = text if known is None else f"{known}; {text}"
        if self._reasons and formats.bad_records == FAIL:
            row = min(self._reasons)
            offset = rows.column("offset")[row].as_py()
            raise BadRecord(
                f"topic {topic!r} partition {partition} offset {offset} cannot be decoded: "
                f"{self._reasons[row]}. To continue with bad records set the option badRecords to null or "
                "columns"
            )
        if formats.adds_columns:
            self.columns[ERROR], self.columns[RAW] = self._error(), self._raw()

    def _error(self) -> pa.Array:
        if not self._reasons:
            return pa.nulls(self._rows.num_rows, pa.string())
        return pa.array([self._reasons.get(row) for row in range(self._rows.num_rows)], pa.string())

    def _raw(self) -> pa.Array:
        if not self._reasons:
            return pa.nulls(self._rows.num_rows, pa.binary())
        picked = [row if row in self._reasons else None for row in range(self._rows.num_rows)]
        return self._rows.column("value").take(pa.array(picked, pa.int32()))
