"""File statistics: readers skip files, but never one that has matching rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa

from pyspark_ottla_lake import stats


def written(query, *rows: dict) -> dict:
    (file,) = query.task(0, list(rows)).files
    return json.loads(file.stats)


def test_counts_and_bounds(lake):
    query = lake(
        "i int, s string, at timestamp, dec decimal(20,2), st struct<x: double, y: string>, l array<int>, "
        "bin binary"
    )
    at = datetime(2026, 1, 1, tzinfo=UTC)
    found = written(
        query,
        {
            "i": 3,
            "s": "b",
            "at": at,
            "dec": Decimal("1.50"),
            "st": {"x": 1.0, "y": "q"},
            "l": [1],
            "bin": b"x",
        },
        {
            "i": -3,
            "s": None,
            "at": at + timedelta(microseconds=1),
            "dec": Decimal("-2"),
            "st": None,
            "l": None,
        },
    )
    assert found == {
        "numRecords": 2,
        "minValues": {
            "i": -3,
            "s": "b",
            "at": "2026-01-01T00:00:00.000000Z",
            "dec": -2.0,
            "st": {"x": 1.0, "y": "q"},
        },
        "maxValues": {
            "i": 3,
            "s": "b",
            "at": "2026-01-01T00:00:00.000001Z",
            "dec": 1.5,
            "st": {"x": 1.0, "y": "q"},
        },
        "nullCount": {"i": 0, "s": 1, "at": 0, "dec": 0, "st": {"x": 1, "y": 1}, "bin": 1},
    }


def test_uncertain_bounds_are_omitted(lake):
    query = lake("nan double, inner struct<f: float>, inf double, b boolean, none int, far timestamp")
    far = pa.array([2**62, 2**62], pa.int64()).cast(pa.timestamp("us", "UTC"))
    rows = query.arrow(
        [
            {"nan": float("nan"), "inner": {"f": float("nan")}, "inf": float("inf"), "b": True},
            {"nan": 1.0, "inner": None, "inf": 1.0, "b": False},
        ]
    ).set_column(5, "far", far)
    message = query.batch_writer().write(iter([rows]))
    found = json.loads(message.files[0].stats)
    assert found["minValues"] == found["maxValues"] == {}
    assert found["nullCount"]["none"] == 2
    query.batch_writer().commit([message])
    assert pa.table(query.table().scan(predicate="inf > 5")).num_rows == 1


def test_bounds_of_long_strings_are_truncated(lake):
    query = lake("s string")
    found = written(query, {"s": "m" * 40}, {"s": "ä" * 33})
    assert found["minValues"]["s"] == "m" * 32
    assert found["maxValues"]["s"] == "ä" * 32 + "\U0010ffff"
    assert found["maxValues"]["s"] >= "ä" * 33
    worst = written(query, {"s": "z" * 32 + "\U0010ffff" + "a"})
    assert worst["maxValues"] == {}
    assert written(query, {"s": "x" * 10_000})["minValues"] == {}


def test_bounds_over_row_groups(lake):
    query = lake("id long, text string")
    query.options["targetFileSize"] = "1k"
    many = [
        query.arrow([{"id": n, "text": None if n < 100 else "t"} for n in range(f, f + 100)])
        for f in (0, 100)
    ]
    message = query.batch_writer().write(iter(many))
    for file in message.files:
        found = json.loads(file.stats)
        assert found["maxValues"]["id"] - found["minValues"]["id"] + 1 == found["numRecords"] == file.records


def test_readers_skip_files(lake):
    query = lake("id long, name string")
    for batch in range(3):
        query.run(batch, [{"id": batch * 10 + number, "name": f"{batch}{number}"} for number in range(10)])
    table = query.table()
    assert len(table.file_uris(file_pruning_predicate="id >= 20")) == 1
    actions = pa.table(table.get_add_actions(flatten=True)).sort_by("min.id").to_pylist()
    assert [(row["min.id"], row["max.id"], row["num_records"]) for row in actions] == [
        (0, 9, 10),
        (10, 19, 10),
        (20, 29, 10),
    ]
    assert pa.table(table.scan(predicate="id = 15"))["name"].to_pylist() == ["15"]


def test_only_the_first_columns_have_statistics(lake):
    names = [f"c{place}" for place in range(40)]
    query = lake(", ".join(f"{name} int" for name in names))
    found = written(query, dict.fromkeys(names, 1))
    assert list(found["minValues"]) == list(found["nullCount"]) == names[:32]


def test_leaves_in_parquet_order():
    schema = pa.schema(
        [
            (
                "a.b",
                pa.struct(
                    [("c", pa.int32()), ("d", pa.list_(pa.struct([("e", pa.int8()), ("f", pa.int8())])))]
                ),
            ),
            ("m", pa.map_(pa.string(), pa.struct([("v", pa.float32())]))),
            ("z", pa.float64()),
        ]
    )
    assert stats.leaves(schema) == [("a.b", "c"), None, None, None, None, ("z",)]
    assert stats.float_leaves(schema) == [("z",)]


def test_decimals_are_exact():
    assert stats.to_json({"a": {"b": Decimal("1E-10")}, "c": [1]}) == '{"a":{"b":0.0000000001},"c":[1]}'
