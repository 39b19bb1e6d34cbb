"""Durations, schemas and references to code."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ottla.pipeline.definition.code_lookup import find_code_problem
from ottla.pipeline.definition.schemas import SchemaError, column_names
from ottla.pipeline.definition.syntax import (
    CodeReference,
    is_remote,
    parse_code_reference,
    spark_duration,
)
from pyspark_ottla.option_values import parse_duration_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30 seconds", 30_000),
        ("500ms", 500),
        ("1 hour 30 minutes", 5_400_000),
        ("2d", 172_800_000),
        ("10", None),
        ("soon", None),
        ("", None),
        ("5 parsecs", None),
        ("-1 second", None),
    ],
)
def test_durations(text, expected):
    assert parse_duration_ms(text) == expected


def test_spark_duration():
    assert spark_duration("2 minutes") == "120000 milliseconds"


@pytest.mark.parametrize(
    ("ddl", "names"),
    [
        ("id BIGINT", ["id"]),
        ("Id bigint NOT NULL, `odd name` string COMMENT 'so'", ["id", "odd name"]),
        ("a: int, b array<struct<x: int, y map<string, double>>>", ["a", "b"]),
        ("d DECIMAL(10, 2), v VARCHAR(5), t TIMESTAMP_NTZ", ["d", "v", "t"]),
    ],
)
def test_schemas(ddl, names):
    assert column_names(ddl) == names
    assert column_names(ddl, decoded=True) == names


@pytest.mark.parametrize(
    ("ddl", "offset", "message"),
    [
        ("a INT, v VOID", 9, "values cannot be decoded into type VOID"),
        ("a ARRAY<VARIANT>", 8, "values cannot be decoded into type VARIANT"),
        ("i INTERVAL DAY TO SECOND NOT NULL", 2, "values cannot be decoded into type INTERVAL"),
        ("s STRUCT<t: TIME(6)>", 12, "values cannot be decoded into type TIME"),
        ("m MAP<INT, STRING>", 6, "map keys must be strings"),
        ("s STRUCT<>", 2, "a struct must have fields"),
    ],
)
def test_types_that_sources_cannot_decode(ddl, offset, message):
    """Validation and the data source report the same error."""
    assert column_names(ddl)
    with pytest.raises(SchemaError, match=message) as error:
        column_names(ddl, decoded=True)
    assert error.value.offset == offset
    pytest.importorskip("pyspark")
    from pyspark_ottla.schema.spark_types import parse_ddl

    with pytest.raises(ValueError, match=message):
        parse_ddl(ddl)


def test_validation_does_not_import_pyspark():
    code = "import sys, ottla.pipeline.definition.validation; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("ddl", "offset", "message"),
    [
        ("", 0, "the schema is empty"),
        ("id", 2, "expected a type"),
        ("id BIGNIT", 3, "unknown type 'BIGNIT'; did you mean 'BIGINT'?"),
        ("id INT name STRING", 7, "expected ','"),
        ("id INT, ID STRING", 8, "duplicate column 'ID'"),
        ("a ARRAY<INT", 11, "expected '>'"),
        ("a INT, ", 7, "expected a column name"),
        ("a INT; b INT", 5, "unexpected character ';'"),
        ("a DECIMAL(39)", 2, "the precision is 1 to 38"),
        ("a DECIMAL(5, x)", 13, "expected a number"),
    ],
)
def test_invalid_schemas(ddl, offset, message):
    with pytest.raises(SchemaError) as error:
        column_names(ddl)
    assert message in str(error.value)
    assert error.value.offset == offset


def test_code_references():
    assert parse_code_reference("steps.py:clean") == CodeReference("steps.py", "clean")
    assert parse_code_reference("shop.steps:clean") == CodeReference("shop.steps", "clean")
    assert parse_code_reference("clean") is None
    assert parse_code_reference("steps.py:") is None
    assert parse_code_reference("not a module:f") is None


def test_code_is_found_without_running_it(tmp_path):
    (tmp_path / "steps.py").write_text("raise SystemExit('I was run')\ndef clean(row): ...\n")
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "inner.py").write_text("Counter = 1\n")
    directory = str(tmp_path)
    assert find_code_problem(CodeReference("steps.py", "clean"), directory) is None
    assert find_code_problem(CodeReference("steps", "clean"), directory) is None
    assert find_code_problem(CodeReference("pack.inner", "Counter"), directory) is None
    assert find_code_problem(CodeReference("json", "dumps"), directory) is None
    assert find_code_problem(CodeReference("json.decoder", "JSONDecoder"), directory) is None
    found = find_code_problem(CodeReference("steps.py", "claen"), directory)
    assert found == "steps.py has no 'claen'; did you mean 'clean'?"
    assert find_code_problem(CodeReference("nothing.py", "f"), directory) == "no such file: nothing.py"
    assert (
        find_code_problem(CodeReference("no_such_module", "f"), directory) == "no such module: no_such_module"
    )
    assert find_code_problem(CodeReference("json.nowhere", "f"), directory) == "no such module: json.nowhere"
    assert "line 1" in (find_code_problem(CodeReference("broken.py", "f"), directory) or "")


def test_remote_paths():
    assert is_remote("s3://bucket/x") and is_remote("file:/x") and not is_remote("../x")
