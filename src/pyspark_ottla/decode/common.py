"""What all decoders share: decoding by blocks and by rows, and conversion of Arrow types.

A decoder takes an array of binary values and returns an array of the same length. Nulls stay null: a
tombstone is not an error. A value that cannot be decoded becomes null, and the reason is returned for its
row.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

# A block with a bad record is halved until it has at most this many rows, which are decoded one by one.
ROW_BLOCK_MAX = 256
REASON_CHARS_MAX = 300


class Decoded(NamedTuple):
    """The decoded values, and the reason for each row that could not be decoded."""

    values: pa.Array
    errors: dict[int, str]


class NotDecodable(ValueError):
    """A value does not match the schema."""


Block = Callable[[pa.Array], pa.Array]
# Converts one value to what `pa.array` accepts; raises NotDecodable.
Row = Callable[[bytes], Any]


def decode_blocks(values: pa.Array, kind: pa.DataType, block: Block | None, rows: RowDecoder) -> Decoded:
    """Decode all values at once with `block`; where it raises ArrowInvalid, by halves and then by rows."""
    present = values.drop_null()
    if not len(present):
        return Decoded(pa.nulls(len(values), kind), {})
    pieces: list[pa.Array] = []
    errors: dict[int, str] = {}
    _decode_into(present, 0, block, rows, pieces, errors)
    found = pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)
    if not values.null_count:
        return Decoded(found, errors)
    # Put the decoded values back at the rows that had a value.
    valid = values.is_valid()
    before = pc.subtract(pc.cumulative_sum(valid.cast(pa.int32())), 1)
    spread = found.take(pc.if_else(valid, before, None))
    if errors:
        numbers = pc.indices_nonzero(valid)
        errors = {numbers[row].as_py(): reason for row, reason in errors.items()}
    return Decoded(spread, errors)


def _decode_into(
    values: pa.Array,
    first: int,
    block: Block | None,
    rows: RowDecoder,
    pieces: list[pa.Array],
    errors: dict[int, str],
) -> None:
    if block is not None:
        try:
            pieces.append(block(values))
            return
        except pa.ArrowInvalid:
            pass
    if block is None or len(values) <= ROW_BLOCK_MAX:
        decoded = rows.decode(values)
        pieces.append(decoded.values)
        errors.update({first + row: reason for row, reason in decoded.errors.items()})
        return
    middle = len(values) // 2
    _decode_into(values.slice(0, middle), first, block, rows, pieces, errors)
    _decode_into(values.slice(middle), first + middle, block, rows, pieces, errors)


class RowDecoder:
    """Decodes values one by one: slow, but reports what is wrong with each."""

    def __init__(self, read: Row, carrier: pa.DataType, kind: pa.DataType) -> None:
        self._read = read
        self._carrier = carrier
        self._kind = kind

    def decode(self, values: pa.Array) -> Decoded:
        """Decode values without nulls."""
        carried: list[Any] = []
        errors: dict[int, str] = {}
        for row, value in enumerate(values.to_pylist()):
            try:
                carried.append(self._read(value))
            except NotDecodable as error:
                carried.append(None)
                errors[row] = shortened(str(error))
        try:
            return Decoded(self._finished(carried), errors)
        except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
            pass
        return self._one_by_one(carried, errors)

    def _one_by_one(self, carried: Sequence[Any], errors: dict[int, str]) -> Decoded:
        nothing = pa.nulls(1, self._kind)
        pieces = []
        for row, value in enumerate(carried):
            try:
                pieces.append(nothing if value is None else self._finished([value]))
            except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError) as error:
                pieces.append(nothing)
                errors[row] = shortened(str(error))
        return Decoded(pa.concat_arrays(pieces), errors)

    def _finished(self, carried: Sequence[Any]) -> pa.Array:
        return convert(pa.array(carried, self._carrier), self._kind)


def decode_string(values: pa.Array) -> Decoded:
    """Decode UTF-8 text."""

    def read(value: bytes) -> str:
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise NotDecodable(f"invalid UTF-8: {error.reason} at byte {error.start}") from None

    rows = RowDecoder(read, pa.string(), pa.string())
    return decode_blocks(values, pa.string(), lambda block: block.cast(pa.string()), rows)


def shortened(reason: str) -> str:
    """Truncate a reason: it may contain a whole value."""
    return reason if len(reason) <= REASON_CHARS_MAX else reason[: REASON_CHARS_MAX - 3] + "..."


# Conversion from what a parser returns to the type of the schema: the nesting is the same, leaves may be
# text.


def carrier_of(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type with the same nesting and other leaf types."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, carrier_of(field.type, leaf)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, carrier_of(kind.value_type, leaf)))
    if pa.types.is_map(kind):
        key = pa.field(kind.key_field.name, carrier_of(kind.key_type, leaf), nullable=False)
        return pa.map_(key, pa.field(kind.item_field.name, carrier_of(kind.item_type, leaf)))
    return leaf(kind)


def convert(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert an array to a type of the same nesting. Raises ArrowInvalid for a value out of range."""
    if array.type.equals(kind):
        return array
    if pa.types.is_struct(kind):
        # flatten() applies the validity of the struct: children under a null may hold garbage.
        pairs = zip(array.flatten(), kind, strict=True)
        children = [_converted_field(child, field) for child, field in pairs]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if pa.types.is_list(kind):
        return _with_children(array, kind, [convert(array.values, kind.value_type)])
    if pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays(
            [convert(array.keys, kind.key_type), convert(array.items, kind.item_type)],
            fields=[kind.key_field, kind.item_field],
        )
        return _with_children(array, kind, [entries])
    if pa.types.is_string(array.type):
        return _from_text(array, kind)
    return array.cast(kind)


def _converted_field(array: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return convert(array, field.type)
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(f"field {field.name!r}: {error}") from None


def _with_children(array: pa.Array, kind: pa.DataType, children: list[pa.Array]) -> pa.Array:
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(kind, len(array), buffers, array.null_count, array.offset, children)


def _from_text(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return _timestamps(array, kind)
    if pa.types.is_binary(kind):
        return _from_base64(array)
    found = array.cast(kind)
    if pa.types.is_floating(kind) and pc.any(pc.is_inf(found)).as_py():
        # Accept Infinity if it is written, but not as the result of a number that is too large.
        written = pc.match_substring(array, "Inf")
        if kind == pa.float64() and pc.any(pc.and_(pc.is_inf(found), pc.invert(written))).as_py():
            raise pa.ArrowInvalid("number too large for a double")
    return found


def _timestamps(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parse ISO 8601. Without a zone it is UTC; digits beyond microseconds are dropped."""
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        pass
    array = pc.replace_substring_regex(array, r"(\.\d{6})\d{1,3}", r"\1")
    if kind.tz is None:
        return array.cast(kind)
    zoned = pc.match_substring_regex(array, r"[T ].*(Z|[+-]\d\d(:?\d\d)?)$")
    bare = pa.timestamp(kind.unit)
    with_zone = pc.if_else(zoned, array, None).cast(kind)
    without = pc.if_else(zoned, None, array).cast(bare).cast(kind)
    return pc.coalesce(with_zone, without)


def _from_base64(array: pa.Array) -> pa.Array:
    try:
        found = [
            None if text is None else base64.b64decode(text, validate=True) for text in array.to_pylist()
        ]
    except (binascii.Error, ValueError) as error:
        raise pa.ArrowInvalid(f"invalid base64: {error}") from None
    return pa.array(found, pa.binary())
