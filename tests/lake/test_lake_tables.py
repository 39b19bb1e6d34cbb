"""Round trips of every type, and schema evolution."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema

EVERYTHING = (
    "i8 byte, i16 short, i32 int, i64 long, f float, d double, b boolean, s string, bin binary, day date, "
    "at timestamp, local timestamp_ntz, small decimal(9,2), large decimal(38,10), "
    "st struct<a: int, in: struct<b: string>>, list array<int>, deep array<struct<x: array<string>>>, "
    "m map<string, struct<v: double>>"
)
ROW = {
    "i8": -7,
    "i16": 300,
    "i32": -70000,
    "i64": 2**62,
    "f": 0.5,
    "d": 0.1,
    "b": True,
    "s": "grüß 🐟",
    "bin": b"\x00\xff",
    "day": date(2026, 2, 28),
    "at": datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
    "local": datetime(1969, 12, 31, 23, 59, 59, 1),
    "small": Decimal("-12.30"),
    "large": Decimal("1234567890123456789012345678.0123456789"),
    "st": {"a": 1, "in": {"b": "x"}},
    "list": [1, None, 3],
    "deep": [{"x": ["a"]}, {"x": None}],
    "m": [("k", {"v": 1.5})],
}


def test_round_trip_of_every_type(lake):
    query = lake(EVERYTHING)
    nothing = dict.fromkeys(ROW)
    query.run(0, [ROW, nothing])
    assert sorted(query.rows(), key=lambda row: row["i8"] is None) == [ROW, nothing]
    # The same with a reader that does not use pyarrow and uses the statistics.
    scanned = pa.table(
        query.table().scan(predicate="small < 0 and s > 'gr' and i64 > 5 and at < '2027-01-01'")
    )
    assert scanned.num_rows == 1
    assert scanned["large"].to_pylist() == [ROW["large"]]
    kinds = {field["name"]: field["type"] for field in json.loads(query.table().schema().to_json())["fields"]}
    assert kinds["at"] == "timestamp"
    assert kinds["local"] == "timestamp_ntz"
    assert kinds["large"] == "decimal(38,10)"


def test_unsupported_types_are_refused(lake):
    with pytest.raises(
        ValueError, match=r"'a\.b' has type interval day to second, which Delta does not support"
    ):
        lake("a struct<b: interval day to second>").writer()
    with pytest.raises(ValueError, match=r"'v\.element' has type void"):
        lake("v array<void>").writer()
    with pytest.raises(ValueError, match="'s' is a struct without fields"):
        lake("s struct<>").writer()
    with pytest.raises(ValueError, match="'id' and 'Id' have the same name"):
        lake("id int, Id long").writer()


def test_new_columns_are_added(lake):
    first = lake("id long, st struct<a: int>, l array<struct<p: int>>")
    first.run(0, [{"id": 1, "st": {"a": 1}, "l": [{"p": 1}]}])
    wider = lake("id long, st struct<a: int, b: string>, l array<struct<p: int, q: int>>, extra date", "q-2")
    day = date(2026, 1, 1)
    wider.run(0, [{"id": 2, "st": {"a": 2, "b": "x"}, "l": [{"p": 2, "q": 3}], "extra": day}])
    narrower = lake("id long", "q-3")
    narrower.run(0, [{"id": 3}])
    first.run(1, [{"id": 4, "st": {"a": 4}, "l": None}])
    rows = {row["id"]: row for row in first.rows()}
    assert rows[1] == {"id": 1, "st": {"a": 1, "b": None}, "l": [{"p": 1, "q": None}], "extra": None}
    assert rows[2] == {"id": 2, "st": {"a": 2, "b": "x"}, "l": [{"p": 2, "q": 3}], "extra": day}
    assert rows[3] == {"id": 3, "st": None, "l": None, "extra": None}
    assert rows[4]["extra"] is None


def test_new_columns_need_merge_schema(lake):
    query = lake("id long")
    query.run(0, [{"id": 1}])
    wider = lake("id long, more struct<x: int>", "q-2")
    wider.options["mergeSchema"] = "false"
    with pytest.raises(ValueError, match=r"the table has no column 'more': .* set the option 'mergeSchema'"):
        wider.writer()
    assert query.table().schema().to_json().count('"name"') == 1


def test_type_mismatch(lake):
    lake("id long, st struct<a: int>").run(0, [{"id": 1, "st": None}])
    with pytest.raises(ValueError, match="column 'id' is bigint in the table and string in the query"):
        lake("id string").writer()
    with pytest.raises(ValueError, match=r"column 'st\.a' is int in the table and bigint in the query"):
        lake("id long, st struct<a: long>").writer()
    with pytest.raises(ValueError, match="'st' is struct<a:int> in the table and int in the query"):
        lake("id long, st int").writer()


def test_table_changed_during_the_query(lake):
    late = lake("id long, x string", "late")
    messages = late.tasks(0, [[{"id": 1, "x": "a"}]])
    lake("id long, x int").run(0, [{"id": 2, "x": 5}])
    with pytest.raises(ValueError, match="'x' is int in the table and string in the query"):
        late.writer().commit(messages, 0)
    assert late.column("id") == [2]


def test_column_names_are_case_insensitive(lake):
    lake("Id long, day string").run(0, [{"Id": 1, "day": "a"}])
    other = lake("ID long, Day string", "q-2")
    other.run(0, [{"ID": 2, "Day": "b"}])
    assert sorted((row["Id"], row["day"]) for row in other.rows()) == [(1, "a"), (2, "b")]


def test_struct_field_names_are_case_sensitive(lake):
    lake("st struct<Inner: int>").run(0, [{"st": {"Inner": 1}}])
    with pytest.raises(ValueError, match=r"'st\.inner' is spelled 'Inner' in the table"):
        lake("st struct<inner: int>").writer()


def made_elsewhere(query, fields: list[dict], **configuration: str) -> None:
    schema = Schema.from_json(json.dumps({"type": "struct", "fields": fields}))
    DeltaTable.create(query.path, schema, configuration=configuration)


def field(name: str, kind: str, nullable: bool = True, **metadata: str) -> dict:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def test_not_null_columns(lake):
    query = lake("id long, name string")
    made_elsewhere(query, [field("id", "long", False), field("name", "string")])
    query.run(0, [{"id": 1, "name": None}])
    with pytest.raises(ValueError, match="'id' is NOT NULL in the table, but the query has nulls"):
        query.run(1, [{"id": 2, "name": "x"}, {"id": None, "name": "y"}])
    without = lake("name string", "q-2")
    with pytest.raises(ValueError, match="'id' is NOT NULL in the table, but missing in the query"):
        without.run(0, [{"name": "x"}])
    assert query.column("id") == [1]


def test_tables_with_unsupported_features(lake):
    query = lake("id long")
    made_elsewhere(query, [field("id", "long", **{"delta.invariants": '{"expression":"x"}'})])
    with pytest.raises(ValueError, match=r"'id' of .* has an invariant"):
        query.writer()
    appended = lake("id long", table="appended")
    made_elsewhere(appended, [field("id", "long")], **{"delta.appendOnly": "true"})
    appended.run(0, [{"id": 1}])
    with pytest.raises(ValueError, match="append-only"):
        appended.append([{"id": 2}], overwrite=True)
    checked = lake("id long", table="checked")
    made_elsewhere(checked, [field("id", "long")])
    checked.table().alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(ValueError, match=r"the constraint 'delta\.constraints\.positive'"):
        checked.writer()


def test_batch_writes(lake):
    query = lake("id long")
    query.append([{"id": 1}], [{"id": 2}])
    assert query.table().version() == 1
    query.append([{"id": 3}])
    assert query.column("id") == [1, 2, 3]
    query.append([{"id": 4}], overwrite=True)
    assert query.column("id") == [4]
    query.append([], overwrite=True)
    assert query.column("id") == []
    query.options |= {"txnAppId": "nightly", "txnVersion": "7"}
    query.append([{"id": 5}])
    query.append([{"id": 5}])
    query.options["txnVersion"] = "8"
    query.append([{"id": 6}])
    assert query.column("id") == [5, 6]
    with pytest.raises(ValueError, match="are for batch writes"):
        query.writer()


def test_target_file_size(lake):
    query = lake("id long, text string")
    query.options["targetFileSize"] = "20k"
    rows = [{"id": number, "text": f"{number * 7919 % 100_003:040d}"} for number in range(4000)]
    identity_batches = [query.arrow(rows[first : first + 100]) for first in range(0, 4000, 100)]
    message = query.batch_writer().write(iter(identity_batches))
    query.batch_writer().commit([message])
    assert len(message.files) > 2
    assert all(file.size_bytes > 15_000 for file in message.files[:-1])
    assert all(file.size_bytes < 60_000 for file in message.files)
    assert query.column("id") == list(range(4000))


def test_idle_stream_makes_no_commits(lake):
    query = lake("id long")
    query.run(0, [], [])
    version = query.table().version()
    query.run(1, [])
    query.writer().commit([], 2)
    assert query.table().version() == version == 0
    query.run(3, [{"id": 1}])
    assert query.column("id") == [1]
