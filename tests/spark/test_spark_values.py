"""Decoding of keys and values. Spark is not started."""

from __future__ import annotations

import json
import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip(
    "pyspark", reason="the tests of the Spark data source need pyspark: pip install ottla[spark]"
)

from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type
from pyspark.sql.types import StructType

from ottla.client import write_arrow
from ottla.client.blocking.arrow_read import OffsetRange
from pyspark_ottla.decode import common
from pyspark_ottla.decode.avro_decoder import AvroDecoder
from pyspark_ottla.decode.common import decode_string
from pyspark_ottla.decode.formats import BadRecord, ColumnFormat, schema_type, value_formats
from pyspark_ottla.decode.json_decoder import JsonDecoder
from pyspark_ottla.reader.batch import OttlaReader
from pyspark_ottla.reader.columns import schema_of
from pyspark_ottla.reader.range_reader import RangePartition
from pyspark_ottla.schema.spark_types import parse_ddl


def decoder(ddl: str) -> JsonDecoder:
    return JsonDecoder(to_arrow_type(parse_ddl(ddl), timezone="UTC"))


def binary(*values: bytes | str | None) -> pa.Array:
    return pa.array([value.encode() if isinstance(value, str) else value for value in values], pa.binary())


def one(ddl: str, text: str | bytes):
    """Return the decoded value of a JSON text, or the reason for the failure."""
    found = decoder(ddl).decode(binary(text))
    return found.errors.get(0, found.values[0].as_py())


# Schemas.


@pytest.mark.parametrize(
    ("ddl", "expected"),
    [
        ("a int", "struct<a:int>"),
        ("A BIGINT NOT NULL COMMENT 'it, is', `b c` string", "struct<A:bigint,b c:string>"),
        ("a: double, b array<map<string, struct<x: decimal(5,2), y date>>>", None),
        ("a decimal, b numeric(7), c varchar(3), d timestamp_ntz", None),
        ("array<int>", "array<int>"),
        ("struct<a int>", "struct<a:int>"),
        ("bigint", "bigint"),
    ],
)
def test_ddl_schemas(ddl, expected):
    if expected is None:
        expected = {
            "a:": "struct<a:double,b:array<map<string,struct<x:decimal(5,2),y:date>>>>",
            "a ": "struct<a:decimal(10,0),b:decimal(7,0),c:string,d:timestamp_ntz>",
        }[ddl[:2]]
    found = parse_ddl(ddl)
    assert found.simpleString() == expected
    if isinstance(found, StructType):
        assert schema_type(found.json()) == found


@pytest.mark.parametrize(
    ("ddl", "words"),
    [
        ("", ["schema is empty"]),
        ("a", ["a type", "the end"]),
        ("a intt", ["unknown type 'intt'", "character 3"]),
        ("a int b int", ["expected ',' before b", "character 7"]),
        ("a array<int", ["'>'", "the end"]),
        ("a map<int, string>", ["map keys must be strings"]),
        ("a int, A string", ["duplicate column 'A'"]),
        ("a decimal(39)", ["1 to 38"]),
    ],
)
def test_invalid_schemas(ddl, words):
    with pytest.raises(ValueError) as caught:
        parse_ddl(ddl)
    for word in words:
        assert word in str(caught.value)


# JSON.


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("int", "1", 1),
        ("int", "-0", 0),
        ("bigint", "9223372036854775807", 2**63 - 1),
        ("double", "1", 1.0),
        ("double", "1e3", 1000.0),
        ("double", "-Infinity", -math.inf),
        # As Spark writes them, because JSON has no such numbers.
        ("double", '"Infinity"', math.inf),
        ("double", '"-Infinity"', -math.inf),
        ("float", '"-Infinity"', -math.inf),
        ("array<double>", '[1, "Infinity"]', [1.0, math.inf]),
        ("map<string,float>", '{"x": "Infinity"}', [("x", math.inf)]),
        ("float", "0.1", struct.unpack("f", struct.pack("f", 0.1))[0]),
        ("string", '"\\u00e4\\n"', "ä\n"),
        ("boolean", "true", True),
        ("decimal(5,2)", "1.5", Decimal("1.50")),
        ("decimal(5,2)", '"-1.25"', Decimal("-1.25")),
        ("date", '"2026-02-28"', date(2026, 2, 28)),
        ("timestamp", '"2026-01-02T03:04:05Z"', datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("timestamp", '"2026-01-02T03:04:05+02:00"', datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)),
        ("timestamp", '"2026-01-02 03:04:05.123456789"', datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)),
        ("timestamp", '"2026-01-02"', datetime(2026, 1, 2, tzinfo=UTC)),
        ("timestamp_ntz", '"2026-01-02T03:04:05.5"', datetime(2026, 1, 2, 3, 4, 5, 500_000)),
        ("binary", '"AQI="', b"\x01\x02"),
        ("array<int>", "[1, null, 3]", [1, None, 3]),
        ("map<string,int>", '{"x": 1, "y": null}', [("x", 1), ("y", None)]),
        (
            "struct<b: string, c: array<struct<d: date>>>",
            '{"c": [{}, null]}',
            {"b": None, "c": [{"d": None}, None]},
        ),
        ("int", "null", None),
    ],
)
def test_valid_json(kind, text, expected):
    found = one(f"a {kind}", f'{{"more": [{{}}], "a": {text}}}')
    assert found == {"a": expected}
    assert one(f"a {kind}", "{}") == {"a": None}
    if text != "null":
        assert one(kind, text) == expected


@pytest.mark.parametrize("text", ["NaN", '"NaN"'])
@pytest.mark.parametrize("kind", ["float", "double"])
def test_json_nan(kind, text):
    found = one(f"a {kind}, b int", f'{{"a": {text}, "b": 1}}')
    assert math.isnan(found["a"]) and found["b"] == 1


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("int", "1.0", ["'a'", "1.0"]),
        ("int", '"1"', ["'a'", '"1"', "number"]),
        ("int", "true", ["'a'", "true", "number"]),
        ("tinyint", "128", ["'a'", "128"]),
        ("int", "Infinity", ["Infinity"]),
        ("double", "Inf", ["invalid JSON"]),
        ("double", "1e400", ["too large"]),
        ("double", '"1.5"', ["'a'", '"1.5"', "number"]),
        ("double", '"Inf"', ["'a'", "number"]),
        ("double", '"nan"', ["'a'", "number"]),
        ("double", '"+Infinity"', ["'a'", "number"]),
        ("int", '"NaN"', ["'a'", "number"]),
        ("decimal(3,1)", '"NaN"', ["NaN"]),
        ("string", "1", ["'a'", "text"]),
        ("string", '"\\ud800"', ["surrogates"]),
        ("boolean", "1", ["true or false"]),
        ("decimal(3,1)", "1.25", ["'a'"]),
        ("decimal(3,1)", '"much"', ["much"]),
        ("date", "1", ["text"]),
        ("date", '"2026-02-30"', ["2026-02-30"]),
        ("timestamp", "1767225600", ["text"]),
        ("timestamp", '"noon"', ["noon"]),
        ("timestamp_ntz", '"2026-01-02T03:04:05Z"', ["zone"]),
        ("binary", '"?"', ["base64"]),
        ("array<int>", "{}", ["array"]),
        ("array<int>", '[1, "2"]', ["'a[]'"]),
        ("map<string,int>", "[]", ["object"]),
        ("struct<b: int>", '{"b": "x"}', ["'a.b'"]),
        ("int", "1} {", ["Extra data"]),
        ("int", '1, "a', ["Unterminated"]),
        ("int", "+1", ["invalid JSON"]),
    ],
)
def test_invalid_json(kind, text, words):
    found = one(f"a {kind}", f'{{"a": {text}}}')
    assert isinstance(found, str), found
    for word in words:
        assert word in found


@pytest.mark.parametrize(
    "text", ["", " ", "[]", "1", "null", '{"a": 1}x', '\ufeff{"a": 1}', b'{"b": "\xff"}']
)
def test_values_that_are_not_objects(text):
    assert isinstance(one("a int", text), str)
    assert one("a int", ' {"a": 1} ') == {"a": 1}


def test_bad_record_does_not_affect_others():
    values = [b'{"a": %d}' % number for number in range(5000)]
    # Joined, these parse as as many objects as there are values.
    values[10], values[11], values[4000] = b'{"a": 1}{"a": 2}', b"", None
    values[3000] = b'{"a": "x"}'
    found = decoder("a int").decode(binary(*values))
    assert sorted(found.errors) == [10, 11, 3000]
    expected = [{"a": number} for number in range(5000)]
    for row in (10, 11, 3000, 4000):
        expected[row] = None
    assert found.values.to_pylist() == expected


SCALARS = {
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False),
    "string": st.text(st.characters(exclude_categories=["Cs"])),
    "boolean": st.booleans(),
}
KINDS = st.recursive(
    st.sampled_from(sorted(SCALARS)),
    lambda inner: st.one_of(
        inner.map(lambda kind: f"array<{kind}>"),
        inner.map(lambda kind: f"map<string,{kind}>"),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: f"struct<{','.join(f'f{at}:{kind}' for at, kind in enumerate(kinds))}>"
        ),
    ),
    max_leaves=6,
)


def values_of(kind) -> st.SearchStrategy:
    """JSON values of an Arrow type."""
    if pa.types.is_struct(kind):
        fields = {field.name: st.none() | values_of(field.type) for field in kind}
        return st.fixed_dictionaries({}, optional=fields)
    if pa.types.is_list(kind):
        return st.lists(st.none() | values_of(kind.value_type), max_size=3)
    if pa.types.is_map(kind):
        return st.dictionaries(SCALARS["string"], st.none() | values_of(kind.item_type), max_size=3)
    names = {pa.int64(): "bigint", pa.float64(): "double", pa.string(): "string", pa.bool_(): "boolean"}
    return SCALARS[names[kind]]


def plain(value, kind):
    """Return the Arrow value of a JSON value."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: plain(value.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind):
        return [plain(item, kind.value_type) for item in value]
    if pa.types.is_map(kind):
        return [(key, plain(item, kind.item_type)) for key, item in value.items()]
    return value


@given(st.data())
def test_json_matches_python(data):
    kind = to_arrow_type(parse_ddl(data.draw(KINDS.map(lambda kind: f"a {kind}, b bigint"))), timezone="UTC")
    texts = data.draw(
        st.lists(
            st.none()
            | values_of(kind).map(lambda value: json.dumps(value | {"u": 1}))
            | st.sampled_from(
                ["", "{", '{"b": "x"}', '{"b": 1}{"b": 2}', '{"b": 1.5}', '{"b": 1', "\n}", "[]"]
            ),
            max_size=12,
        )
    )
    expected, bad = [], []
    for row, text in enumerate(texts):
        try:
            value = None if text is None else json.loads(text)
            good = value is None or (isinstance(value, dict) and not isinstance(value.get("b"), str | float))
        except json.JSONDecodeError:
            good = False
        if not good:
            bad.append(row)
        expected.append(plain(value, kind) if good else None)
    found = JsonDecoder(kind).decode(binary(*texts))
    assert found.values.to_pylist() == expected
    assert sorted(found.errors) == bad
    found.values.validate(full=True)
    assert found.values.type == kind


# Field values about which parsers may disagree.
TRICKY_TEXT = """1 -0 -0.0 0.5 1e2 1E+2 1.50 01 +1 .5 1. 1e400 1e39 NaN Inf -Inf Infinity -Infinity true null
[] {} "" "x" "1" "1.5" ".5" "1e1" "\\u00e4" "\\ud800" "2026-01-01" "2026-01-01T00:00Z"
"2026-01-01T00:00:00.1234567" "2026-01-01T00:00:00+01" 128 2147483648
{"a":1} [1] 1}{"a":2 "x} "x","q":"y" 1/**/"""
TRICKY = TRICKY_TEXT.split()
FIELDS = st.tuples(st.sampled_from("abdsftu"), st.sampled_from(TRICKY))
OBJECTS = st.lists(FIELDS, max_size=2).map(
    lambda fields: "{" + ", ".join(f'"{name}": {value}' for name, value in fields) + "}"
)


@given(st.lists(OBJECTS | st.sampled_from(["{}", " {}", "{}{}", "", '{"s":"', '"}']), min_size=1, max_size=3))
def test_block_and_row_parsers_agree(texts):
    each = decoder("a double, b int, d decimal(4,1), s string, f float, t timestamp")
    values = binary(*texts)
    try:
        fast = each._block(values)
    except pa.ArrowInvalid:
        return
    slow = each._rows.decode(values)
    assert slow.errors == {}
    assert repr(fast.to_pylist()) == repr(slow.values.to_pylist())


@given(st.lists(st.none() | st.binary(max_size=6), max_size=10))
def test_strings(values):
    found = decode_string(binary(*values))
    for row, value in enumerate(values):
        try:
            expected = None if value is None else value.decode()
            assert row not in found.errors
        except UnicodeDecodeError:
            expected = None
            assert "UTF-8" in found.errors[row]
        assert found.values[row].as_py() == expected


# Avro.

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "OLD"]}},
        {"name": "before", "type": ["null", "State"]},
        {"name": "tags", "type": {"type": "map", "values": ["null", "double"]}},
        {"name": "sums", "type": {"type": "array", "items": ["int", "long"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
    ],
}
ORDERS = st.fixed_dictionaries(
    {
        "id": SCALARS["bigint"],
        "name": st.none() | SCALARS["string"],
        "at": st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)).map(
            lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000, tzinfo=UTC)
        ),
        "day": st.dates(date(1900, 1, 1), date(2200, 1, 1)),
        "price": st.integers(-999_999_999, 999_999_999).map(lambda cents: Decimal(cents).scaleb(-2)),
        "state": st.sampled_from(["NEW", "OLD"]),
        "before": st.sampled_from([None, "NEW"]),
        "tags": st.dictionaries(SCALARS["string"], st.none() | SCALARS["double"], max_size=2),
        "sums": st.lists(st.integers(-(2**40), 2**40), max_size=3),
        "hash": st.binary(min_size=2, max_size=2),
    }
)


def avro(value, schema=ORDER) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


@given(st.lists(st.none() | ORDERS, max_size=5), st.sampled_from(["none", "confluent"]))
def test_avro_matches_fastavro(orders, wire_format):
    head = b"\0\0\0\0\7" if wire_format == "confluent" else b""
    values = [None if order is None else head + avro(order) for order in orders]
    each = AvroDecoder(json.dumps(ORDER), wire_format)
    found = each.decode(binary(*values))
    assert found.errors == {}
    expected = [order and order | {"tags": list(order["tags"].items())} for order in orders]
    assert found.values.to_pylist() == expected
    assert ColumnFormat("avro", json.dumps(ORDER)).spark_type() == schema_type(json.dumps(ORDER))
    assert to_arrow_type(schema_type(json.dumps(ORDER)), timezone="UTC") == each.kind


def test_invalid_avro():
    schema = {"type": "record", "name": "R", "fields": [{"name": "s", "type": "string"}]}
    good = avro({"s": "x"}, schema)
    found = AvroDecoder(json.dumps(schema)).decode(binary(good, b"", good + b"x", b"\xff", None, b"\x02\xff"))
    assert sorted(found.errors) == [1, 2, 3, 5]
    assert "1 of 3 bytes are left over" in found.errors[2]
    assert found.values.to_pylist() == [{"s": "x"}, None, None, None, None, None]
    found = AvroDecoder(json.dumps(schema), "confluent").decode(binary(good, b"\0\0"))
    assert all("zero byte" in found.errors[row] for row in (0, 1))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("{", ["invalid Avro schema"]),
        ('{"type": "record"}', ["without a name"]),
        ('{"type": "record", "name": "R", "fields": []}', ["without fields"]),
        ('{"type": "array", "items": "nothing"}', ["unknown type 'nothing'"]),
        ('["int", "string"]', ["union of several types"]),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}',
            ["'R' is recursive"],
        ),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 50}', ["decimal(50, 0)"]),
    ],
)
def test_unusable_avro_schemas(schema, words):
    with pytest.raises(ValueError) as caught:
        AvroDecoder(schema)
    for word in words:
        assert word in str(caught.value)


# Options and columns.


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"valueformat": "xml"}, ["valueFormat", "json, avro or string"]),
        ({"valueformat": "json"}, ["valueSchema", "must be set"]),
        ({"valueformat": "avro"}, ["valueSchema", "record"]),
        ({"valueformat": "avro", "valueschema": "a int"}, ["Avro schema"]),
        ({"valueformat": "string", "valueschema": "a int"}, ["valueSchema", "string"]),
        ({"valueschema": "a int"}, ["valueSchema", "needs valueFormat"]),
        ({"keyformat": "json", "keyschema": "a innt"}, ["innt"]),
        ({"valueformat": "string", "badrecords": "skip"}, ["badRecords", "fail, null or columns"]),
        ({"badrecords": "null"}, ["badRecords", "needs valueFormat"]),
        ({"avrowireformat": "confluent"}, ["avroWireFormat", "needs valueFormat"]),
    ],
)
def test_invalid_value_options(given, words):
    with pytest.raises(ValueError) as caught:
        value_formats(given)
    for word in words:
        assert word in str(caught.value)


def test_bad_records(ottla_cluster, ottla_topic, options):
    values = binary('{"id": 1}', "{", None, '{"id": "x"}', '{"id": 2}')
    keys = pa.array([b"a", b"b", b"\xff", b"d", None], pa.binary())
    write_arrow(
        pa.table({"key": keys, "value": values}),
        ottla_topic,
        bootstrap_servers=ottla_cluster.bootstrap_servers,
    )

    def rows(span=(0, 5), **more: str) -> list[dict]:
        given = options | {"valueformat": "json", "valueschema": "id int"} | more
        schema = schema_of(given)
        (batch,) = OttlaReader(given, schema).read(RangePartition(OffsetRange(ottla_topic, 0, *span)))
        assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))
        batch.validate(full=True)
        return batch.to_pylist()

    with pytest.raises(
        BadRecord, match=f"'{ottla_topic}' partition 0 offset 1 cannot be decoded: value: invalid JSON"
    ):
        rows()
    assert [row["value"] for row in rows(columns="value", badrecords="null")] == [
        {"id": 1},
        None,
        None,
        None,
        {"id": 2},
    ]
    found = rows(columns="key,value", badrecords="columns", keyformat="string")
    assert [row["raw"] for row in found] == [None, b"{", None, b'{"id": "x"}', None]
    assert [bool(row["error"]) for row in found] == [False, True, True, True, False]
    assert [row["key"] for row in found] == ["a", "b", None, "d", None]
    assert found[2]["error"].startswith("key: invalid UTF-8")
    assert found[3]["error"] == "value: field 'id' is \"x\", expected a number"
    assert rows((0, 1), badrecords="columns")[0]["error"] is None
    # Columns that are not selected are not decoded, unless their errors are.
    assert [row["offset"] for row in rows(columns="offset")] == [0, 1, 2, 3, 4]
    assert [row["error"] is None for row in rows(columns="offset", badrecords="columns")][:2] == [True, False]


def test_blocks_are_halved_at_bad_records(monkeypatch):
    looked_at: list[int] = []
    each = decoder("a int")
    monkeypatch.setattr(
        each._rows,
        "decode",
        lambda values, real=each._rows.decode: looked_at.append(len(values)) or real(values),
    )
    each.decode(binary(*[b'{"a": 1}'] * 9_999, b"x"))
    assert 0 < sum(looked_at) <= common.ROW_BLOCK_MAX
