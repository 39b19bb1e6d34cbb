"""The examples, run as they are, and the command itself in a process of its own."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pipelines need pyspark: pip install ottla[pipeline]")

from ottla.cli.pipeline_run import _prepare, run_in
from ottla.cli.pipeline_view import View
from ottla.client import read_arrow, write_arrow
from ottla.pipeline.checks import validate
from ottla.pipeline.document import Problems
from ottla.testing import Cluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def own_cluster():
    """The examples have fixed names of topics."""
    with Cluster() as cluster:
        yield cluster


def load_example(name: str):
    spec = importlib.util.spec_from_file_location(name.replace("/", "_"), EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def once(spark, path: Path, **settings: str) -> int:
    pipeline, problems = validate(str(path), settings)
    assert pipeline is not None and not problems.errors, problems.errors
    found = Problems()
    asyncio.run(_prepare(pipeline, found))
    assert not found.errors
    return run_in(spark.newSession(), pipeline, View(pipeline), once=True)


def rows_of(topic: str, servers: str) -> list[dict]:
    return read_arrow(topic, bootstrap_servers=servers).read_all().to_pylist()


def test_orders(spark, own_cluster, tmp_path, capsys):
    deltalake = pytest.importorskip("deltalake")
    servers = own_cluster.bootstrap_servers
    generate = load_example("orders/generate")
    asyncio.run(generate.generate(servers, 0, 600, seed=7))
    data = str(tmp_path)
    assert once(spark, EXAMPLES / "orders" / "pipeline.yaml", bootstrap=servers, data=data) == 0
    shown = capsys.readouterr().out
    assert "orders.top-customers: batch 0" in shown and "name=Ada" in shown

    enriched = [json.loads(row["value"]) for row in rows_of("orders-enriched", servers)]
    letters = rows_of("orders-dead-letter", servers)
    assert len(enriched) + len(letters) == 600 and letters
    assert all(row["name"] for row in enriched)
    assert len({row["order_id"] for row in enriched}) == len(enriched)
    revenue = {row["key"]: json.loads(row["value"]) for row in rows_of("revenue-per-minute", servers)}
    assert sum(row["orders"] for row in revenue.values()) == len(enriched)
    table = deltalake.DeltaTable(os.path.join(data, "lake", "orders")).to_pyarrow_table()
    assert table.num_rows == len(enriched)


def click(number: int, visitor: str, page: str, second: int) -> dict:
    at = datetime(2026, 1, 31, 12, tzinfo=UTC) + timedelta(seconds=second)
    return {"click_id": f"k{number}", "visitor": visitor, "page": page, "clicked_at": at.isoformat()}


CLICKS = [
    click(1, "ada", "/", 0),
    click(2, "ada", "/shop/lamps/17", 10),
    click(2, "ada", "/shop/lamps/17", 10),
    click(3, "ada", "/shop/lamps/17", 20),
    click(4, "bob", "nowhere", 30),
    click(5, "eve", "/help/", 2000),
]


def test_clicks_by_the_command_itself(own_cluster, tmp_path):
    """`ottla pipeline run` in a process of its own: runs until SIGTERM, then finishes and says so."""
    servers = own_cluster.bootstrap_servers
    own_cluster.create_topic("t.clicks")
    values = [json.dumps(row).encode() for row in CLICKS]
    write_arrow(pa.table({"value": values}), "t.clicks", bootstrap_servers=servers)
    command = [
        sys.executable,
        "-P",
        "-m",
        "ottla",
        "pipeline",
        "run",
        str(EXAMPLES / "clicks" / "pipeline.yaml"),
    ]
    for setting in (f"bootstrap={servers}", f"checkpoint={tmp_path}", "prefix=t."):
        command += ["--set", setting]
    process = subprocess.Popen(
        [*command, "--master", "local[2]", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 600
        topics = ("t.visits", "t.sections", "t.alarms", "t.clicks-dead-letter")
        wanted = dict(zip(topics, (2, 4, 1, 1), strict=True))
        found: dict[str, int] = {}
        while found != wanted and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.5)
            try:
                found = {topic: len(rows_of(topic, servers)) for topic in topics}
            except Exception:
                continue  # a topic that is not there yet
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=200)
    finally:
        process.kill()
        process.wait()
    assert found == wanted, err
    assert process.returncode == 0, err
    events = [json.loads(line) for line in out.splitlines()]
    assert [each["event"] for each in events if each["event"] in ("started", "stopping", "stopped")] == [
        "started",
        "stopping",
        "stopped",
    ]
    last = {each["query"]: each for each in events if each["event"] == "progress"}
    assert last["visits"]["rows"] == 6 and last["visits"]["lag"] == {"t.clicks": 0}
    assert last["dead-letters-paths"]["dead_letters"] == 1
    assert (tmp_path / "spark.log").exists()
    visits = [json.loads(row["value"]) for row in rows_of("t.visits", servers)]
    assert sorted((row["visitor"], row["clicks"]) for row in visits) == [("ada", 3), ("bob", 1)]
    (alarm,) = rows_of("t.alarms", servers)
    assert json.loads(alarm["value"]) == {"visitor": "ada", "page": "/shop/lamps/17", "times": 3}
