"""The columns of the source, the same as in Spark's Kafka connector, and their Arrow record batches."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_ottla.decode.formats import ADDED_FIELDS, DecodedRows, ValueFormats, value_formats
from pyspark_ottla.option_values import flag

HEADERS_TYPE = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
FIELDS = {
    "key": StructField("key", BinaryType()),
    "value": StructField("value", BinaryType()),
    "topic": StructField("topic", StringType()),
    "partition": StructField("partition", IntegerType()),
    "offset": StructField("offset", LongType()),
    "timestamp": StructField("timestamp", TimestampType()),
    "timestampType": StructField("timestampType", IntegerType()),
    "headers": StructField("headers", HEADERS_TYPE),
}
_ARROW_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_ARROW_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", _ARROW_HEADER)),
}
# In microseconds it is a 64-bit number.
TIMESTAMP_MS_MAX = (2**63 - 1) // 1000
_READ_NAMES = {"timestampType": "timestamp_type"}


def schema_of(options: Mapping[str, str]) -> StructType:
    """Return the columns of a query: all of them, or those in the option `columns`."""
    with_headers = flag(options, "includeHeaders", default=False)
    formats = value_formats(options)
    fields = dict(FIELDS)
    for name, of in formats.columns:
        fields[name] = StructField(name, of.spark_type())
    if formats.adds_columns:
        fields |= ADDED_FIELDS
    chosen = options.get("columns")
    if chosen is None:
        return StructType([field for name, field in fields.items() if name != "headers" or with_headers])
    by_lower = {name.lower(): name for name in fields}
    names = [name.strip().lower() for name in chosen.split(",") if name.strip()]
    unknown = [name for name in names if name not in by_lower]
    if unknown or not names:
        raise ValueError(f"option 'columns' is {chosen!r}: expected some of {', '.join(fields)}")
    if formats.adds_columns:
        names += ADDED_FIELDS  # badRecords=columns requests them
    return StructType([fields[by_lower[name]] for name in dict.fromkeys(names)])


class SparkColumns:
    """Converts record batches of the client to the exact schema that Spark expects."""

    def __init__(self, schema: StructType, formats: ValueFormats | None = None) -> None:
        formats = formats or ValueFormats()
        names = list(schema.names)
        if not formats.adds_columns:
            # Columns that are not selected need not be decoded.
            formats = formats._replace(columns=tuple(row for row in formats.columns if row[0] in names))
        self._names = names
        self._formats = formats
        decoded = [name for name, _ in formats.columns] + list(ADDED_FIELDS)
        self._schema = pa.schema(
            [
                pa.field(name, _spark_arrow(schema[name].dataType) if name in decoded else _ARROW_TYPES[name])
                for name in names
            ]
        )

    @property
    def read_names(self) -> list[str]:
        """The columns to request from `read_range`; always with the offset, to track the position."""
        wanted = [name for name in self._names if name not in ADDED_FIELDS]
        wanted += [name for name, _ in self._formats.columns]
        if self._formats.adds_columns:
            wanted.append("value")
        return list(dict.fromkeys([*(_READ_NAMES.get(name, name) for name in wanted), "offset"]))

    def apply(self, rows: pa.RecordBatch, topic: str, partition: int) -> pa.RecordBatch:
        """Raises BadRecord."""
        decoded: dict[str, pa.Array] = {}
        if self._formats.columns:
            decoded = DecodedRows(rows, self._formats, topic, partition).columns
        arrays = [decoded[name] if name in decoded else self._column(rows, name) for name in self._names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, rows: pa.RecordBatch, name: str) -> pa.Array:
        array = rows.column(_READ_NAMES.get(name, name))
        if name == "timestamp":
            return _microseconds(array)
        if name == "headers":
            return _null_where_empty(array)
        return array


def _microseconds(array: pa.Array) -> pa.Array:
    """Convert timestamps; those beyond Spark's range (292,000 years from 1970) become null.

    A producer can write any number, and one record must not stop all queries on its topic.
    """
    try:
        return array.cast(_ARROW_TYPES["timestamp"])
    except pa.ArrowInvalid:
        fits = pc.less_equal(
            pc.abs(pc.max_element_wise(array.cast(pa.int64()), -TIMESTAMP_MS_MAX - 1)), TIMESTAMP_MS_MAX
        )
        return pc.if_else(fits, array, pa.scalar(None, array.type)).cast(_ARROW_TYPES["timestamp"])


def _spark_arrow(kind: DataType) -> pa.DataType:
    return to_arrow_type(kind, timezone="UTC")


def _null_where_empty(headers: pa.Array) -> pa.Array:
    """Replace empty header lists by null, as Spark's Kafka connector does."""
    if len(headers) == 0:
        return headers.cast(_ARROW_TYPES["headers"])
    empty = pc.equal(pc.list_value_length(headers), 0)
    if pc.all(empty).as_py():
        return pa.nulls(len(headers), _ARROW_TYPES["headers"])
    # Adding 0 copies the offsets: ListArray.from_arrays takes no mask with sliced offsets.
    offsets = pc.add(headers.offsets, 0)
    values = headers.values.cast(_ARROW_HEADER)
    return pa.ListArray.from_arrays(offsets, values, type=_ARROW_TYPES["headers"], mask=empty)
