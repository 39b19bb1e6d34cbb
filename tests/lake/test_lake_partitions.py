"""Partitioned tables: escaped values, nulls, types, compaction and vacuum."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from pyspark_ottla_lake import files
from pyspark_ottla_lake.partitions import directory, split, value_text

STRANGE = [
    "a/b",
    "a b",
    "ü%25",
    "x=y",
    "..",
    "a:b?c#d",
    "[]{}^*'\"\\",
    "tab\there",
    "%",
    "+",
    "😀",
    "a%2Fb",
    "~&;@",
    "<`>|}",
    "\x7f\n",
]


def test_values_are_escaped_in_paths(lake):
    query = lake("k string, v int")
    query.options["partitionBy"] = "k"
    rows = [{"k": value, "v": number} for number, value in enumerate([*STRANGE, None])]
    query.run(0, rows[:7], rows[7:])
    expected = sorted(rows, key=lambda row: row["v"])
    assert sorted(query.rows(), key=lambda row: row["v"]) == expected
    scanned = pa.table(query.table().scan()).to_pylist()
    assert sorted(scanned, key=lambda row: row["v"]) == expected
    assert os.path.isdir(os.path.join(query.path, "k=a%2Fb"))
    assert os.path.isdir(os.path.join(query.path, "k=__HIVE_DEFAULT_PARTITION__"))
    one = query.table().to_pyarrow_table(filters=[("k", "=", "a/b")])
    assert one["v"].to_pylist() == [0]


def test_compaction_and_vacuum_with_escaped_paths(lake):
    query = lake("k string, v int")
    query.options["partitionBy"] = "k"
    rows = [{"k": value, "v": number} for number, value in enumerate([*STRANGE, None])]
    query.run(0, rows)
    table = query.table()
    assert table.vacuum(0, dry_run=True, enforce_retention_duration=False, full=True) == []
    query.run(1, [{"k": row["k"], "v": row["v"] + 100} for row in rows])
    metrics = query.table().optimize.compact()
    assert (metrics["numFilesRemoved"], metrics["numFilesAdded"]) == (2 * len(rows), len(rows))
    removed = query.table().vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    assert len(removed) == 2 * len(rows)
    assert query.column("v") == sorted(row["v"] + more for row in rows for more in (0, 100))


def test_empty_string_is_null(lake):
    query = lake("k string, v int")
    query.options["partitionBy"] = "k"
    query.run(0, [{"k": "", "v": 1}, {"k": None, "v": 2}, {"k": " ", "v": 3}])
    assert sorted((row["v"], row["k"]) for row in query.rows() if row["k"]) == [(3, " ")]
    assert [row["v"] for row in query.rows() if row["k"] is None] == [1, 2]


def test_partitions_of_every_type(lake):
    row = {
        "i": -5,
        "day": date(999, 1, 2),
        "at": datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
        "local": datetime(2026, 1, 2, 3, 4, 5),
        "b": True,
        "dec": Decimal("3.50"),
        "d": 1e-7,
        "v": "x",
    }
    query = lake(
        "i long, day date, at timestamp, local timestamp_ntz, b boolean, dec decimal(9,2), d double, v string"
    )
    query.options["partitionBy"] = "i, day, at, local, b, dec, d"
    query.run(0, [row, row, dict.fromkeys(row)])
    assert sorted(query.rows(), key=lambda found: found["v"] is None) == [row, row, dict.fromkeys(row)]
    assert sorted(pa.table(query.table().scan()).to_pylist(), key=lambda found: found["v"] is None)[0] == row


def test_partitioning_of_an_existing_table(lake):
    first = lake("K string, v int")
    first.options["partitionBy"] = "k"
    first.run(0, [{"K": "a", "v": 1}])
    assert first.table().metadata().partition_columns == ["K"]
    second = lake("k string, v int", "q-2")
    second.run(0, [{"k": "b", "v": 2}])
    assert sorted((row["K"], row["v"]) for row in second.rows()) == [("a", 1), ("b", 2)]
    second.options["partitionBy"] = "v"
    with pytest.raises(ValueError, match=r"'partitionBy' is \(v\), but table .* is partitioned by \(K\)"):
        second.writer()
    without = lake("v int", "q-3")
    with pytest.raises(ValueError, match="'partitionBy': no column 'K'; the columns are v"):
        without.writer()


@pytest.mark.parametrize(
    ("partition_by", "reason"),
    [
        ("x", "no column 'x'; the columns are k, s"),
        ("s", "column 's' has type struct<a:int>"),
        ("k,s", "column 's'"),
        ("k,K", "duplicate column"),
    ],
)
def test_invalid_partitioning(lake, partition_by, reason):
    query = lake("k string, s struct<a: int>")
    query.options["partitionBy"] = partition_by
    with pytest.raises(ValueError, match=reason):
        query.writer()


def test_partitioning_by_all_columns_is_refused(lake):
    query = lake("a int, b int")
    query.options["partitionBy"] = "a,b"
    with pytest.raises(ValueError, match="has every column"):
        query.writer()


def test_many_partitions_within_the_memory_limit(lake, monkeypatch):
    monkeypatch.setattr(files, "WAITING_BYTES_MAX", 2000)
    monkeypatch.setattr(files, "OPEN_FILES_MAX", 3)
    query = lake("k int, v int")
    query.options["partitionBy"] = "k"
    batches = [
        query.arrow([{"k": number % 20, "v": number} for number in range(first, first + 100)])
        for first in range(0, 2000, 100)
    ]
    message = query.batch_writer().write(iter(batches))
    query.batch_writer().commit([message])
    assert len(message.files) > 20
    assert query.column("v") == list(range(2000))
    assert all(row["v"] % 20 == row["k"] for row in query.rows())


def test_splitting_keeps_the_order_of_rows():
    rows = pa.table({"k": ["a", "b", "a", None, "b"], "v": [1, 2, 3, 4, 5]})
    parts = {values: part["v"].to_pylist() for values, part in split(rows, ["k"])}
    assert parts == {("a",): [1, 3], ("b",): [2, 5], (None,): [4]}
    assert next(iter(split(rows, [])))[1] is rows


def test_value_text():
    assert value_text(float("nan")) == "NaN"
    assert value_text(float("-inf")) == "-Infinity"
    assert value_text(Decimal("1E+3")) == "1000"
    assert value_text(False) == "false"
    assert value_text("") is None
    assert directory(["a=b", "c"], ["x", None]) == "a%3Db=x/c=__HIVE_DEFAULT_PARTITION__/"
