"""JSON values into Arrow, by a schema.

Missing fields are null, unknown ones are ignored, names are told apart by case, and a field of another type
than the schema's makes the record a bad one. Numbers are never taken from text, nor text from numbers, except
that decimals may be either. Timestamps and dates are ISO 8601 text, binary is base64, maps are objects.

Arrow's parser reads a block of values at once; a block that it does not take is read row by row. Both must
agree on everything that the first accepts.
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

# Arrow's parser takes this for infinity, JSON and Python do not.
_SHORT_INFINITY = re.compile(rb"[:\[,\s]-?Inf[\s,\]}]")


class JsonDecoder:
    """For values of one type; reads a struct fastest."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        rows = RowDecoder(_RowReader(kind).read, carrier_of(kind, _text_leaf), kind)
        self._rows = rows
        self._schema: pa.Schema | None = None
        if pa.types.is_struct(kind) and not _has_map(kind):
            self._schema = pa.schema(list(carrier_of(kind, _parsed_leaf)))

    def decode(self, values: pa.Array) -> Decoded:
        """Values are binary; the answer has as many of the type."""
        block = None if self._schema is None else self._block
        return decode_blocks(values, self._kind, block, self._rows)

    def _block(self, values: pa.Array) -> pa.Array:
        """Raises ArrowInvalid where any of the values may not be one JSON object."""
        # Arrow's parser sees one stream of objects, whatever is in between. That each value is exactly one of
        # them follows from: each begins and ends with a brace, none ends within a string (a line feed is not
        # allowed there), and there are as many objects as values.
        whole = pc.and_(pc.starts_with(values, b"{"), pc.ends_with(values, b"}"))
        if not pc.all(whole).as_py():
            raise pa.ArrowInvalid("a value that is no object")
        values.cast(pa.string())  # the parser does not look whether it is UTF-8
        joined = pc.binary_join(pa.ListArray.from_arrays([0, len(values)], values), b"\n")[0].as_buffer()
        view = memoryview(joined)
        if _contains(view, b"Inf") and _SHORT_INFINITY.search(view):
            raise pa.ArrowInvalid("infinity is written out in JSON")
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
    # Without a copy: a memoryview has no find of its own.
    return re.search(re.escape(text), view) is not None


def _has_map(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    return any(_has_map(kind.field(at).type) for at in range(kind.num_fields))


def _parsed_leaf(kind: pa.DataType) -> pa.DataType:
    """What Arrow's parser is asked for."""
    if pa.types.is_temporal(kind) or pa.types.is_binary(kind):
        return pa.string()
    return kind


def _text_leaf(kind: pa.DataType) -> pa.DataType:
    """What the rows carry: numbers as they are written."""
    return kind if pa.types.is_boolean(kind) else pa.string()


class _Number(str):
    """A number as it is written, so that it is text for nobody by mistake."""

    __slots__ = ()


_DECODER = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_Number)


class _RowReader:
    """One value: parsed by Python, and checked against the type."""

    def __init__(self, kind: pa.DataType) -> None:
        self._shape = _shape_of(kind)

    def read(self, value: bytes) -> Any:
        try:
            parsed = _DECODER.decode(value.decode())
        except UnicodeDecodeError as error:
            raise NotDecodable(f"no UTF-8 text: {error.reason} at byte {error.start}") from None
        except json.JSONDecodeError as error:
            raise NotDecodable(f"no JSON: {error}") from None
        except RecursionError:
            raise NotDecodable("no JSON that can be read: nested too deeply") from None
        if parsed is None:
            raise NotDecodable("null, where a value was due")
        return self._shape(parsed, "")


Shape = Callable[[Any, str], Any]


def _shape_of(kind: pa.DataType) -> Shape:
    """A function of a parsed value and its path that gives what the rows carry. It raises NotDecodable."""
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_list(kind):
        return _list(kind)
    if pa.types.is_map(kind):
        return _map(kind)
    if pa.types.is_boolean(kind):
        return lambda value, path: value if isinstance(value, bool) else _wrong(value, path, "true or false")
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
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
