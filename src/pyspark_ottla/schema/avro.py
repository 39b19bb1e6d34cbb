"""Avro schemas as Arrow types."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pyarrow as pa

from pyspark_ottla.schema.ddl import DECIMAL_DIGITS_MAX

_PRIMITIVES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
# Unions of number types, and the type that holds all of them.
_WIDER = (({"int", "long"}, "long"), ({"float", "double"}, "double"))
_NAMED = ("record", "error", "enum", "fixed")
_TIMES = {
    "timestamp-millis": ("ms", "UTC"),
    "timestamp-micros": ("us", "UTC"),
    "local-timestamp-millis": ("ms", None),
    "local-timestamp-micros": ("us", None),
}


class AvroType(NamedTuple):
    """The Arrow type of an Avro schema.

    `kind` is the type of the column. `carrier` is the type of values read with `schema`, which is the given
    schema without the logical types that are cheaper to convert column by column.
    """

    kind: pa.DataType
    carrier: pa.DataType
    schema: Any


def avro_type(text: str) -> AvroType:
    """Raises ValueError for an invalid schema, or one without an equivalent in Spark."""
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"invalid Avro schema: {error}") from None
    return _Reader().read(parsed, None, "the value")


class _Reader:
    def __init__(self) -> None:
        # By full name; None while the type is being read.
        self._named: dict[str, AvroType | None] = {}

    def read(self, schema: Any, namespace: str | None, path: str) -> AvroType:
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return AvroType(_PRIMITIVES[schema], _PRIMITIVES[schema], schema)
            return self._reference(schema, namespace, path)
        if isinstance(schema, list):
            return self._union(schema, namespace, path)
        if not isinstance(schema, dict) or "type" not in schema:
            raise ValueError(f"invalid Avro schema: {path} is {json.dumps(schema)}")
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.read(kind, namespace, path)
        if kind in _NAMED:
            return self._named_type(schema, namespace, path)
        if kind == "array":
            item = self.read(schema.get("items"), namespace, f"{path}[]")
            return AvroType(
                pa.list_(pa.field("element", item.kind)),
                pa.list_(pa.field("element", item.carrier)),
                {"type": "array", "items": item.schema},
            )
        if kind == "map":
            item = self.read(schema.get("values"), namespace, f"{path}[]")
            return AvroType(_map_of(item.kind), _map_of(item.carrier), {"type": "map", "values": item.schema})
        return self._logical(schema, namespace, path)

    def _logical(self, schema: dict[str, Any], namespace: str | None, path: str) -> AvroType:
        kind, logical = schema["type"], schema.get("logicalType")
        if kind == "long" and logical in _TIMES:
            unit, zone = _TIMES[logical]
            return AvroType(pa.timestamp("us", zone), pa.timestamp(unit, zone), "long")
        if kind == "int" and logical == "date":
            return AvroType(pa.date32(), pa.date32(), "int")
        if kind == "bytes" and logical == "decimal":
            decimal = _decimal(schema, path)
            return AvroType(decimal, decimal, schema)
        return self.read(kind, namespace, path)

    def _reference(self, name: str, namespace: str | None, path: str) -> AvroType:
        full = _full_name(name, namespace)
        if full not in self._named:
            raise ValueError(f"invalid Avro schema: {path} has the unknown type {name!r}")
        found = self._named[full]
        if found is None:
            raise ValueError(f"Avro type {name!r} is recursive, which Spark does not support")
        return AvroType(found.kind, found.carrier, full)

    def _named_type(self, schema: dict[str, Any], namespace: str | None, path: str) -> AvroType:
        name = schema.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"invalid Avro schema: {path} is a {schema['type']} without a name")
        full = _full_name(name, schema.get("namespace", namespace))
        inner = full.rpartition(".")[0] or None
        self._named[full] = None
        if schema["type"] == "enum":
            found = AvroType(pa.string(), pa.string(), {**schema, "name": full})
        elif schema["type"] == "fixed":
            decimal = schema.get("logicalType") == "decimal"
            kind = _decimal(schema, path) if decimal else pa.binary()
            plain = {"type": "fixed", "name": full, "size": schema.get("size")}
            found = AvroType(kind, kind, {**schema, "name": full} if decimal else plain)
        else:
            found = self._record(schema, full, inner, path)
        self._named[full] = found
        return found

    def _record(self, schema: dict[str, Any], full: str, namespace: str | None, path: str) -> AvroType:
        fields = schema.get("fields")
        if not isinstance(fields, list) or not fields:
            raise ValueError(f"invalid Avro schema: {path} is a record without fields")
        names, types = [], []
        for field in fields:
            if not isinstance(field, dict) or not isinstance(field.get("name"), str) or "type" not in field:
                raise ValueError(f"invalid Avro schema: {path} has the field {json.dumps(field)}")
            names.append(field["name"])
            types.append(self.read(field["type"], namespace, f"{path}.{field['name']}"))
        rows = [{"name": name, "type": each.schema} for name, each in zip(names, types, strict=True)]
        return AvroType(
            pa.struct([pa.field(name, each.kind) for name, each in zip(names, types, strict=True)]),
            pa.struct([pa.field(name, each.carrier) for name, each in zip(names, types, strict=True)]),
            {"type": "record", "name": full, "fields": rows},
        )

    def _union(self, branches: list[Any], namespace: str | None, path: str) -> AvroType:
        some = [branch for branch in branches if branch != "null"]
        if len(some) == 1:
            found = self.read(some[0], namespace, path)
        else:
            wide = [wide for names, wide in _WIDER if all(isinstance(b, str) and b in names for b in some)]
            if not some or not wide:
                raise ValueError(f"{path} is a union of several types, which Spark does not support")
            found = AvroType(_PRIMITIVES[wide[0]], _PRIMITIVES[wide[0]], wide[0])
            return found._replace(schema=branches)
        return found._replace(schema=[found.schema if branch != "null" else "null" for branch in branches])


def _map_of(kind: pa.DataType) -> pa.DataType:
    return pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", kind))


def _full_name(name: str, namespace: str | None) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _decimal(schema: dict[str, Any], path: str) -> pa.DataType:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if (
        not isinstance(precision, int)
        or not isinstance(scale, int)
        or not 0 <= scale <= precision <= DECIMAL_DIGITS_MAX
        or precision == 0
    ):
        raise ValueError(
            f"{path}: invalid decimal({precision}, {scale}): the precision is 1 to {DECIMAL_DIGITS_MAX}, "
            "the scale 0 to the precision"
        )
    return pa.decimal128(precision, scale)
