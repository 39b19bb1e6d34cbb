"""`map` functions, tables from topics and failure texts, without a Spark session."""

from __future__ import annotations

import json
import math

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from ottla.pipeline.queries.row_map import RowMapper
from ottla.pipeline.queries.table_source import newest_per_key

SCHEMA = pa.schema(
    [("n", pa.int32()), ("_offset", pa.int64()), ("_error", pa.string()), ("_row", pa.string())]
)


def mapped(function, rows: list[dict]) -> list[dict]:
    mapper = RowMapper(function, SCHEMA, ["_offset"])
    return [row for batch in mapper(iter([pa.RecordBatch.from_pylist(rows)])) for row in batch.to_pylist()]


def test_function_returns_one_row_several_or_none():
    def function(row):
        if row["kind"] == "none":
            return None
        if row["kind"] == "two":
            return [{"n": 1}, {"n": 2}]
        return {"n": 0}

    rows = [{"kind": kind, "_offset": 7} for kind in ("one", "none", "two")]
    assert [(row["n"], row["_offset"]) for row in mapped(function, rows)] == [(0, 7), (1, 7), (2, 7)]


def test_error_affects_only_its_row():
    def function(row):
        return {"n": 10 // row["by"]}

    good, bad = mapped(function, [{"by": 5, "_offset": 1}, {"by": 0, "_offset": 2}])
    assert good["n"] == 2 and good["_error"] is None
    assert bad["_error"] == "ZeroDivisionError: integer division or modulo by zero"
    assert json.loads(bad["_row"]) == {"by": 0, "_offset": 2}
    assert bad["_offset"] == 2


def test_dead_letter_is_valid_json():
    """JSON has no NaN and no infinity: they are written as text, as Spark does and our source reads."""

    def function(row):
        raise ValueError

    def refuse(text):
        raise AssertionError(f"{text} is not JSON")

    row = {"x": math.nan, "y": [math.inf, 1.5], "z": {"v": -math.inf}, "m": [("k", math.nan)], "_offset": 1}
    text = RowMapper(function, SCHEMA, ["_offset"]).apply(row)[0]["_row"]
    assert json.loads(text, parse_constant=refuse) == {
        "x": "NaN",
        "y": ["Infinity", 1.5],
        "z": {"v": "-Infinity"},
        "m": [["k", "NaN"]],
        "_offset": 1,
    }


def test_schema_mismatch_affects_only_its_row():
    values = iter([{"n": 1}, {"n": "many"}, {"n": 2**40}, 5, {"n": 3}])
    rows = mapped(lambda row: next(values), [{"_offset": number} for number in range(5)])
    assert [row["n"] for row in rows] == [1, None, None, None, 3]
    assert [row["_error"] is None for row in rows] == [True, False, False, False, True]


def test_latest_row_of_each_key():
    rows = pa.table(
        {
            "key": [b"a", b"b", None, b"a", b"b", b"c"],
            "value": ["1", "2", "3", "4", None, "6"],
            "offset": [0, 1, 2, 3, 4, 5],
            "error": [None, None, None, None, None, "bad"],
        }
    )
    found = {row["key"]: row["value"] for row in newest_per_key(rows).to_pylist()}
    assert found == {b"a": "4", b"b": None}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Traceback:\n  File x\nshop.errors.NoSuchShop: number 7\n", "NoSuchShop: number 7"),
        ("pyspark.errors.PythonException: \nKeyError: 'a'\n  at org.apache.spark", "KeyError: 'a'"),
        ("KeyError: 1\n=== Streaming Query ===\nIdentifier: q", "KeyError: 1"),
        ("requirement failed: no\norg.apache.spark.X: y", "requirement failed: no"),
    ],
)
def test_failure_text(text, expected):
    from ottla.pipeline.queries.runner import failure_text

    assert failure_text(Exception(text)) == expected


def test_workers_use_the_installed_pyspark(tmp_path):
    import subprocess
    import sys

    from ottla.pipeline.session.worker_python import write_script

    script = write_script(str(tmp_path), sys.executable)
    path = "/spark/python/lib/pyspark.zip:/spark/python/lib/py4j-0.10.9.9-src.zip:/own code:/more"
    program = "import os, sys; print(os.environ['PYTHONPATH'], sys.argv[1:])"
    shown = subprocess.run(
        [script, "-c", program, "a b"], env={"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert shown.stdout == "/own code:/more ['a b']\n"
