"""The clicks example, run with `ottla pipeline run`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pipelines need pyspark: pip install ottla[pipeline]")

from ottla.client import write_arrow
from tests.support.spark.examples import EXAMPLES, FAST_JAVA, rows_of

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


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


def test_clicks_example_from_the_command_line(ottla_cluster, tmp_path):
    """`ottla pipeline run` in a child process: it runs until SIGTERM, then finishes its batches."""
    servers = ottla_cluster.bootstrap_servers
    ottla_cluster.create_topic("t.clicks")
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
        env=os.environ | FAST_JAVA,
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
                continue  # the topic does not exist yet
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
