"""`ottla lake`: text and JSON output, and errors in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from deltalake import DeltaTable

from ottla.cli.app import run
from ottla.cli.lake.table import type_text


@pytest.fixture
def orders(lake):
    """A table of six small files in two partitions, and a file left by a failed task."""
    query = lake("id long, day string, at struct<x: array<double>>", "orders-query")
    query.options["partitionBy"] = "day"
    for batch in range(3):
        query.run(batch, [{"id": batch * 2, "day": "mon"}, {"id": batch * 2 + 1, "day": "tue/wed"}])
    query.task(9, [{"id": 99, "day": "mon"}])
    return query


def test_describe_as_json(orders, capsys):
    assert run(["lake", "describe", orders.path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {name: found[name] for name in ("version", "rows", "files", "small_files", "partitions")} == {
        "version": 3,
        "rows": 6,
        "files": 6,
        "small_files": 6,
        "partitions": 2,
    }
    assert found["partition_columns"] == ["day"]
    assert found["transactions"] == [{"id": "orders-query", "version": 2}]
    assert found["bytes"] > 1000
    assert found["columns"][2] == {"name": "at", "type": "struct<x: array<double>>", "nullable": True}


def test_describe_as_text(orders, capsys):
    assert run(["lake", "describe", orders.path]) == 0
    shown = capsys.readouterr().out
    assert "version     3, last written 20" in shown
    assert "6 below 16 MiB: `ottla lake compact`" in shown
    assert "orders-query" in shown
    assert "2, by day" in shown


def test_describe_a_table_without_rows(lake, capsys):
    query = lake("id long")
    query.run(0, [])
    assert run(["lake", "describe", query.path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["files"], found["bytes"], found["transactions"]) == (0, 0, 0, [])


def test_compact_then_vacuum(orders, capsys):
    before = DeltaTable(orders.path).version()
    assert run(["lake", "compact", orders.path]) == 0
    assert capsys.readouterr().out.startswith("6 files (")
    assert DeltaTable(orders.path).version() == before + 1
    assert run(["lake", "compact", orders.path]) == 0
    assert capsys.readouterr().out == "nothing to compact\n"
    assert run(["lake", "vacuum", orders.path]) == 0
    assert capsys.readouterr().out == "0 files removed\n"
    assert run(["lake", "vacuum", orders.path, "--retention-hours", "0", "--dry-run"]) == 0
    assert "7 files would be removed" in capsys.readouterr().out
    assert run(["lake", "vacuum", orders.path, "--retention-hours", "0", "--force", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["files"]) == 7
    assert orders.column("id") == list(range(6))
    left = [name for _, _, names in os.walk(orders.path) for name in names if name.endswith(".parquet")]
    assert len(left) == 2


def test_compact_as_json(orders, capsys):
    assert run(["lake", "compact", orders.path, "--target-mb", "1", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["removed"], done["added"]) == (6, 2)
    assert done["removed_bytes"] > 0
    assert done["added_bytes"] > 0


def test_a_short_retention_needs_force(orders, capsys):
    assert run(["lake", "vacuum", orders.path, "--retention-hours", "0"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("ottla: 0 hours is less than the table's retention")
    assert "--force" in told
    assert len(told.splitlines()) == 1


def test_errors_in_one_line(tmp_path, capsys):
    assert run(["lake", "describe", str(tmp_path / "nowhere")]) == 1
    assert capsys.readouterr().err == f"ottla: {tmp_path / 'nowhere'}: no Delta table found\n"
    assert run(["lake", "compact", str(tmp_path), "--json"]) == 1
    assert "no Delta table" in json.loads(capsys.readouterr().err)["error"]
    assert run(["lake", "vacuum", str(tmp_path), "--storage", "nonsense"]) == 2


def test_unreadable_log(orders, capsys):
    with open(os.path.join(orders.path, "_delta_log", f"{3:020d}.json"), "w") as file:
        file.write("{broken")
    assert run(["lake", "describe", orders.path]) == 1
    told = capsys.readouterr().err
    assert told.startswith("ottla: ")
    assert len(told.splitlines()) == 1


def test_error_without_deltalake(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "deltalake", None)
    assert run(["lake", "describe", str(tmp_path)]) == 1
    assert "pip install 'ottla[pipeline]'" in capsys.readouterr().err


def test_other_commands_do_not_import_deltalake():
    program = "import sys, ottla.cli.app; print({'deltalake', 'pyarrow', 'pyspark'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "set()\n"


def test_type_names():
    assert type_text({"type": "map", "keyType": "string", "valueType": "long"}) == "map<string, long>"
