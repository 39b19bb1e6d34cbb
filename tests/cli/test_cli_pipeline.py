"""`ottla pipeline validate` and `list`, and how progress is shown."""

from __future__ import annotations

import json
import os

import pytest

from ottla.cli.main import main
from ottla.cli.pipelines.view import JsonView, View, cell, facts_of, queries_table
from ottla.pipeline.definition.validation import validate
from ottla.pipeline.queries.progress import QueryProgress

VALID = """\
pipeline: shop
variables: {topic: orders}
sources:
  orders: {topic: "${topic}", format: string}
sinks:
  out: {from: orders, console: true}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "shop.yaml"
    path.write_text(VALID)
    return path


def test_a_valid_file(file, capsys):
    assert main(["pipeline", "validate", str(file)]) == 0
    assert capsys.readouterr().out == "shop.yaml: valid, 1 source, 0 steps, 1 sink\n"


def test_errors_have_an_exit_code_and_a_position(file, capsys):
    file.write_text(VALID.replace("console: true", "consol: true").replace("topic:", "topics:"))
    assert main(["pipeline", "validate", str(file)]) == 1
    out = capsys.readouterr().out
    assert f"{file}:4:12: error: source 'orders': unknown key 'topics'; did you mean 'topic'?" in out
    assert "unknown key 'consol'; did you mean 'console'?" in out
    assert out.endswith("errors\n")


def test_errors_as_json(file, capsys):
    file.write_text(VALID.replace("from: orders", "from: order"))
    assert main(["pipeline", "validate", str(file), "--json", "--set", "topic=x"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert not document["valid"]
    problem = next(each for each in document["problems"] if each["severity"] == "error")
    assert (problem["line"], problem["column"]) == (6, 15)


def test_an_unset_variable(file, capsys):
    assert main(["pipeline", "validate", str(file), "--set", "topik=x"]) == 1
    assert "did you mean 'topic'?" in capsys.readouterr().out
    assert main(["pipeline", "validate", str(file), "--set", "topik"]) == 2


def test_run_and_state_reject_an_invalid_file(file, capsys):
    assert main(["pipeline", "state", str(file), "nothing"]) == 1
    assert "there is no step 'nothing'; the steps are none" in capsys.readouterr().err
    file.write_text(VALID.replace("sinks", "snks"))
    assert main(["pipeline", "run", str(file)]) == 1
    assert "unknown key 'snks'" in capsys.readouterr().err
    assert main(["pipeline", "state", str(file), "nothing"]) == 1


def test_run_reports_missing_requirements_at_once(file, ottla_cluster, capsys):
    servers = ottla_cluster.bootstrap_servers
    assert main(["pipeline", "run", str(file), "-b", servers, "--set", "topic=no-such-topic"]) == 1
    assert "topic 'no-such-topic' does not exist" in capsys.readouterr().err
    assert main(["pipeline", "run", str(file), "-b", "localhost:1"]) == 1


def test_list_without_pipelines_and_with_one(ottla_cluster, ottla_topic, capsys):
    from ottla.testing.topics import run_in_thread

    servers = ottla_cluster.bootstrap_servers
    name = f"p-{ottla_topic[-8:]}"

    async def commit() -> None:
        from ottla.client import Admin

        async with Admin(servers) as admin:
            await admin.alter_group_offsets(f"ottla-pipeline.{name}.out", {(ottla_topic, 0): 0})

    run_in_thread(commit)
    assert main(["pipeline", "list", "-b", servers, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["queries"]
    mine = [row for row in rows if row["pipeline"] == name]
    assert [(row["query"], row["topics"], row["lag"]) for row in mine] == [("out", [ottla_topic], 0)]
    assert main(["pipeline", "list", "-b", servers]) == 0
    assert name in capsys.readouterr().out


def seen() -> QueryProgress:
    query = QueryProgress("out")
    query.batch_id, query.rows, query.rows_per_second, query.batch_ms = 3, 40, 12.4, 80
    query.lag, query.state_rows, query.state_bytes, query.dead_letters = {"orders": 5}, 2, 2048, 1
    return query


def test_lines_and_tables(file, capsys):
    expected = "batch 3, 40 rows, 12 rows/s, 80 ms, lag orders=5, state 2 rows, 2.0 KiB, dead letters 1"
    assert facts_of(seen()) == expected
    assert queries_table([seen()]).row_count == 1
    assert cell(None) == "-" and cell(1234.5) == "1,234.50" and cell(b"x") == "x"
    pipeline, _ = validate(str(file))
    assert pipeline is not None
    view = View(pipeline)
    view.progress([seen()])
    view.progress([seen()])
    view.rows("out", 3, ["a", "b"], [(1, None)])
    lines = [line.split(" ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert lines == [f"shop.out: {expected}", "shop.out: batch 3", "  a=1  b=-"]
    json_view = JsonView(pipeline)
    json_view.progress([seen()])
    json_view.rows("out", 3, ["a"], [(1,)])
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first["event"], first["lag"], first["dead_letters"]) == ("progress", {"orders": 5}, 1)
    assert second["rows"] == [{"a": 1}]


def test_terminal_view(file):
    from rich.console import Console

    from ottla.cli.pipelines.view import LiveView

    pipeline, _ = validate(str(file))
    assert pipeline is not None
    view = LiveView(pipeline)
    view.rows("out", 3, ["name", "revenue"], [("Ada", 1234.5), (None, 2.0)])
    view.progress([seen(), QueryProgress("other")])
    console = Console(width=120, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    with console.file:
        console.print(view.whole())
    shown = console.export_text()
    assert "Pipeline shop" in shown and "Ada   1,234.50" in shown
    (line,) = [line.split() for line in shown.splitlines() if line.startswith("out ")]
    assert line == ["out", "starting", "3", "40", "12", "80", "orders", "5", "2", "(2.0", "KiB)", "1"]
