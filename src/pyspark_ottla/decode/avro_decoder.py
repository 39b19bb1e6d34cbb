"""Decoding of Avro values (single datums, not container files) into Arrow."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pyarrow as pa

from pyspark_ottla.decode.common import Decoded, NotDecodable, RowDecoder, decode_blocks
from pyspark_ottla.schema.avro import avro_type

PLAIN = "none"
CONFLUENT = "confluent"
WIRE_FORMATS = (PLAIN, CONFLUENT)
# A zero byte and the id of the schema in the registry.
_CONFLUENT_HEADER_BYTES = 5


class AvroDecoder:
    """Decodes values written with one schema. The constructor raises ValueError for an unusable schema."""

    def __init__(self, schema: str, wire_format: str = PLAIN) -> None:
        try:
            from fastavro import parse_schema, schemaless_reader
        except ImportError:
            raise ValueError("Avro needs the package fastavro: pip install fastavro") from None
        self._read = schemaless_reader
        self._skipped_bytes = _CONFLUENT_HEADER_BYTES if wire_format == CONFLUENT else 0
        found = avro_type(schema)
        self.kind: pa.DataType = found.kind
        try:
            self._schema = parse_schema(found.schema)
        except Exception as error:
            raise ValueError(f"invalid Avro schema: {error}") from None
        self._rows = RowDecoder(self._row, found.carrier, found.kind)

    def decode(self, values: pa.Array) -> Decoded:
        """Decode binary values into the type of the schema."""
        return decode_blocks(values, self.kind, None, self._rows)

    def _row(self, value: bytes) -> Any:
        stream = BytesIO(value)
        if self._skipped_bytes:
            header = stream.read(self._skipped_bytes)
            if len(header) < self._skipped_bytes or header[0]:
                raise NotDecodable(
                    "not in Confluent's wire format: the value does not start with a zero byte"
                )
        try:
            found = self._read(stream, self._schema, None)
        except Exception as error:  # arbitrary bytes can make the reader raise anything
            reason = str(error) or "unexpected end"
            raise NotDecodable(f"not Avro of this schema: {type(error).__name__}: {reason}") from None
        if stream.tell() != len(value):
            left = len(value) - stream.tell()
            raise NotDecodable(f"not Avro of this schema: {left} of {len(value)} bytes are left over")
        if found is None:
            raise NotDecodable("the value is null")
        return found
