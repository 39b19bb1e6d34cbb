"""Decoding of JSON values into Arrow, with a schema.

Missing fields are null, unknown fields are ignored, and names are case-sensitive. A field with another type
than in the schema makes the record bad. Numbers are not converted from text, nor text from numbers, except
that decimals may be either, and that floats may be "NaN", "Infinity" or "-Infinity", as Spark writes them:
JSON has no such numbers. Timestamps and dates are ISO 8601 text, binary is base64, maps are objects.

Arrow's parser decodes a block of values at once; a block that it rejects is decoded row by row. Both must
agree on everything that Arrow's parser accepts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from pyspark_ottla.decode.common import Decoded, NotDecodable, RowDecoder, carrier_of, convert, decode_blocks

# Arrow's parser accepts this as infinity; JSON and Python do not.
_SHORT_INFINITY = re.compile(rb"[:\[,\s]-?Inf[\s,\]}]")
# Arrow's parser rejects these for a number, so blocks with them are decoded row by row.
_NOT_FINITE = frozenset(("NaN", "Infinity", "-Infinity"))


class JsonDecoder:
    """Decodes values of one type; structs are fastest."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        rows = RowDecoder(_RowReader(kind).read, carrier_of(kind, _text_leaf), kind)
        self._rows = rows
        self._schema: pa.Schema | None = None
        if pa.types.is_struct(kind) and not _has_map(kind):
            self._schema = pa.schema(list(carrier_of(kind, _parsed_leaf)))

    def decode(self, values: pa.Array) -> Decoded:
        """Decode binary values into the type."""
        block = None if self._schema is None else self._block
        return decode_blocks(values, self._kind, block, self._rows)

    def _block(self, values: pa.Array) -> pa.Array:
        """Decode a block. Raises ArrowInvalid if a value may not be exactly one JSON object."""
        # Arrow's parser reads a stream of objects with any separator. Each value is exactly one of them,
        # because each starts and ends with a brace, none ends within a string (a line feed is not allowed
        # there), and there are as many objects as values.
        whole = pc.and_(pc.starts_with(values, b"{"), pc.ends_with(values, b"}"))
        if not pc.all(whole).as_py():
            raise pa.ArrowInvalid("a value is not an object")
        values.cast(pa.string())  # Arrow's parser does not check UTF-8
        joined = pc.binary_join(pa.ListArray.from_arrays([0, len(values)], values), b"\n")[0].as_buffer()
        view = memoryview(joined)
        if _contains(view, b"Inf") and _SHORT_INFINITY.search(view):
            raise pa.ArrowInvalid("Inf is not valid JSON")
        table = pj.read_json(
            pa.BufferReader(joined),
            pj.ReadOptions(use_threads=False, block_size=len(view) + 1),
            pj.ParseOptions(explicit_schema=self._schema, unexpected_field_behavior="ignore"),
        )
        if table.num_rows != len(values):
            raise pa.ArrowInvalid(f"{table.num_rows} objects in {len(values)} values")
        assert self._schema is not None
        columns = [_single(table.column(name)) for name in self._schema.names]
        fields = list(self._kind)
        arrays = [convert(array, field.type) for array, field in zip(columns, fields, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=fields)


def _single(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _contains(view: memoryview, text: bytes) -> bool:
    # Without a copy: memoryview has no find().
    return re.search(re.escape(text), view) is not None


def _has_map(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    return any(_has_map(kind.field(at).type) for at in range(kind.num_fields))


def _parsed_leaf(kind: pa.DataType) -> pa.DataType:
    """Return the type requested from Arrow's parser."""
    if pa.types.is_temporal(kind) or pa.types.is_binary(kind):
        return pa.string()
    return kind


def _text_leaf(kind: pa.DataType) -> pa.DataType:
    """Return the type of decoded rows before conversion: numbers stay text."""
    return kind if pa.types.is_boolean(kind) else pa.string()


class _Number(str):
    """The text of a number, distinguishable from a JSON string."""

    __slots__ = ()


_DECODER = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_Number)


class _RowReader:
    """Parses one value with Python's parser and checks it against the type."""

    def __init__(self, kind: pa.DataType) -> None:
        self._shape = _shape_of(kind)

    def read(self, value: bytes) -> Any:
        try:
            parsed = _DECODER.decode(value.decode())
        except UnicodeDecodeError as error:
            raise NotDecodable(f"invalid UTF-8: {error.reason} at byte {error.start}") from None
        except json.JSONDecodeError as error:
            raise NotDecodable(f"invalid JSON: {error}") from None
        except RecursionError:
            raise NotDecodable("invalid JSON: nested too deeply") from None
        if parsed is None:
            raise NotDecodable("the value is null")
        return self._shape(parsed, "")


Shape = Callable[[Any, str], Any]


def _shape_of(kind: pa.DataType) -> Shape:
    """Return a function that checks a parsed value at a path. It raises NotDecodable."""
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_list(kind):
        return _list(kind)
    if pa.types.is_map(kind):
        return _map(kind)
    if pa.types.is_boolean(kind):
        return lambda value, path: value if isinstance(value, bool) else _wrong(value, path, "true or false")
    if pa.types.is_floating(kind):
        return lambda value, path: (
            value
            if isinstance(value, _Number) or (isinstance(value, str) and value in _NOT_FINITE)
            else _wrong(value, path, "a number")
        )
    if pa.types.is_integer(kind):
        return lambda value, path: value if isinstance(value, _Number) else _wrong(value, path, "a number")
    if pa.types.is_decimal(kind):
        return lambda value, path: value if isinstance(value, str) else _wrong(value, path, "a number")
    return lambda value, path: (
        value if isinstance(value, str) and not isinstance(value, _Number) else _wrong(value, path, "text")
    )


def _struct(kind: pa.DataType) -> Shape:
    shapes = [(field.name, _shape_of(field.type)) for field in kind]

    def shape(value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            _wrong(value, path, "an object")
        found = {}
        for name, of in shapes:
            item = value.get(name)
            found[name] = None if item is None else of(item, f"{path}.{name}" if path else name)
        return found

    return shape


def _list(kind: pa.DataType) -> Shape:
    of = _shape_of(kind.value_type)

    def shape(value: Any, path: str) -> list[Any]:
        if not isinstance(value, list):
            _wrong(value, path, "an array")
        return [None if item is None else of(item, f"{path}[]") for item in value]

    return shape


def _map(kind: pa.DataType) -> Shape:
    of = _shape_of(kind.item_type)

    def shape(value: Any, path: str) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            _wrong(value, path, "an object")
        return [(key, None if item is None else of(item, f"{path}.{key}")) for key, item in value.items()]

    return shape


def _wrong(value: Any, path: str, expected: str) -> Any:
    found = json.dumps(value) if not isinstance(value, _Number) else str(value)
    if len(found) > 60:
        found = found[:57] + "..."
    where = f"field {path!r}" if path else "the value"
    raise NotDecodable(f"{where} is {found}, expected {expected}")
