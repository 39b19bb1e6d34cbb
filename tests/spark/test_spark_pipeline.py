"""Pipelines in a real Spark: every kind of step and sink."""

from __future__ import annotations

import json
import textwrap
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pipelines need pyspark: pip install ottla[pipeline]")

from ottla.cli.main import main
from ottla.cli.pipelines import run as pipeline_run
from ottla.client import read_arrow, write_arrow
from ottla.pipeline.definition.document import Problems
from ottla.pipeline.definition.model import Pipeline
from ottla.pipeline.definition.validation import validate
from ottla.pipeline.plan import queries_of
from ottla.pipeline.queries.builder import BuildError
from ottla.pipeline.queries.runner import PipelineFailed, RunningPipeline
from ottla.pipeline.queries.state_store import choose, operators, queries_with, read_state
from ottla.testing.topics import run_in_thread

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(1200),
    # Py4J does not close its sockets; PySpark warns about new versions of pandas.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)

STEPS = """
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql import Row


def halves(row):
    if row["amount"] == 13:
        raise ValueError("thirteen")
    return [{"id": row["id"], "half": row["amount"] / 2}]


def cheap(orders):
    return orders.where("amount < 10").select("id", "amount")


class Totals(StatefulProcessor):
    def init(self, handle):
        self.total = handle.getValueState("total", "sum DOUBLE")

    def handleInputRows(self, key, rows, timerValues):
        total = self.total.get()[0] if self.total.exists() else 0.0
        total += sum(row.amount for row in rows)
        self.total.update((total,))
        yield Row(customer=key[0], total=total)

    def close(self):
        pass
"""


class Shop:
    """The topics and pipelines of one test."""

    def __init__(self, cluster: Any, spark: Any, tmp_path: Path, prefix: str) -> None:
        self.cluster = cluster
        self.spark = spark
        self.tmp_path = tmp_path
        self.prefix = prefix
        (tmp_path / "steps.py").write_text(STEPS)

    def write(self, topic: str, rows: list[dict | bytes | None], keys: list[str] | None = None) -> None:
        values = [json.dumps(row, default=str).encode() if isinstance(row, dict) else row for row in rows]
        names = [None] * len(rows) if keys is None else [key.encode() for key in keys]
        table = pa.table({"key": pa.array(names, pa.binary()), "value": pa.array(values, pa.binary())})
        write_arrow(table, f"{self.prefix}.{topic}", bootstrap_servers=self.cluster.bootstrap_servers)

    def read(self, topic: str) -> list[dict[str, Any]]:
        """Return the decoded values and keys of all records, ordered by value."""
        servers = self.cluster.bootstrap_servers
        rows = read_arrow(f"{self.prefix}.{topic}", bootstrap_servers=servers).read_all().to_pylist()
        found = [{**row, "value": _decoded(row["value"])} for row in rows]
        return sorted(found, key=lambda row: json.dumps(row["value"], default=str))

    def values(self, topic: str) -> list[Any]:
        return [row["value"] for row in self.read(topic)]

    def load(self, *parts: str) -> Pipeline:
        path = self.tmp_path / "pipeline.yaml"
        head = f"""\
            pipeline: shop
            bootstrap: {self.cluster.bootstrap_servers}
            variables: {{p: {self.prefix}}}
            """
        path.write_text("".join(textwrap.dedent(part) for part in (head, *parts)))
        pipeline, problems = validate(str(path))
        assert pipeline is not None and not problems.errors, problems.errors
        return pipeline

    def start(self, pipeline: Pipeline, *, once: bool, **more: Any) -> RunningPipeline:
        prepare(pipeline)
        running = RunningPipeline(self.spark.newSession(), pipeline, once=once, **more)
        running.start()
        return running

    def once(self, pipeline: Pipeline) -> RunningPipeline:
        running = self.start(pipeline, once=True)
        running.watch()
        return running


def _decoded(value: bytes | None) -> Any:
    try:
        return None if value is None else json.loads(value)
    except ValueError:
        return value


def prepare(pipeline: Pipeline) -> None:
    problems = Problems()

    async def act() -> None:
        await pipeline_run._prepare(pipeline, problems)

    run_in_thread(act)
    assert not problems.errors


@pytest.fixture
def shop(ottla_cluster, ottla_topic, spark, tmp_path) -> Shop:
    return Shop(ottla_cluster, spark, tmp_path, ottla_topic[-20:].strip("-"))


def order(number: int, amount: float, customer: str = "a", second: int = 0) -> dict:
    at = (NOON + timedelta(seconds=second)).isoformat()
    return {"id": number, "customer": customer, "amount": amount, "at": at}


ORDERS = """
sources:
  orders:
    topic: ${p}.orders
    schema: id BIGINT, customer STRING, amount DOUBLE, at TIMESTAMP
    watermark: {column: at, delay: 5 seconds}
"""


VOCABULARY = """
steps:
  large: {sql: "SELECT id, amount, CAST(customer AS INT) AS no_number FROM orders WHERE amount > 10"}
  cheap: {python: "steps.py:cheap", from: orders}
  halves: {map: "steps.py:halves", from: orders, schema: "id BIGINT, half DOUBLE"}
  unique: {dedup: [id], from: orders}
  per_minute:
    sql: >
      SELECT window.start AS minute, sum(amount) AS amount
      FROM unique GROUP BY window(at, '1 minute')
  hops:
    sql: >
      SELECT window.start AS hop, count(*) AS n FROM orders
      GROUP BY window(at, '2 minutes', '1 minute')
  visits:
    sql: >
      SELECT customer, session_window.start AS begun, count(*) AS n FROM orders
      GROUP BY customer, session_window(at, '30 seconds')
  totals:
    state: steps.py:Totals
    from: orders
    keys: customer
    schema: customer STRING, total DOUBLE
    output: update
sinks:
  large: {from: large, topic: "${p}.large", key: id}
  cheap: {from: cheap, topic: "${p}.cheap"}
  halves: {from: halves, topic: "${p}.halves"}
  per-minute: {from: per_minute, topic: "${p}.minutes"}
  hops: {from: hops, topic: "${p}.hops", output: complete, mode: exactly-once, key: hop, compacted: true}
  visits: {from: visits, topic: "${p}.visits"}
  totals: {from: totals, topic: "${p}.totals", output: update, key: customer, delete_when: total < 2}
options: {dead_letter: "${p}.dead", shuffle_partitions: 1}
"""


def test_filters_windows_dedup_state_and_dead_letters(shop):
    shop.cluster.create_topic(f"{shop.prefix}.orders", 1)
    orders = [order(1, 5, "a", 0), order(2, 20, "b", 10), order(2, 20, "b", 10), order(3, 13, "a", 70)]
    orders += [order(4, 40, "a", 200), order(5, 1, "c", 400)]
    shop.write("orders", [*orders, b"{broken", b'{"id": "x"}'], keys=list("abcdefgh"))
    pipeline = shop.load(
        ORDERS,
        VOCABULARY,
    )
    running = shop.once(pipeline)

    large = shop.read("large")
    assert [(row["key"], row["value"]["id"]) for row in large] == [(b"2", 2), (b"2", 2), (b"3", 3), (b"4", 4)]
    # A failed cast is null and does not fail the query; nulls are written.
    assert large[0]["value"] == {"id": 2, "amount": 20.0, "no_number": None}
    assert shop.values("cheap") == [{"id": 1, "amount": 5.0}, {"id": 5, "amount": 1.0}]
    assert [row["half"] for row in shop.values("halves")] == [2.5, 10, 10, 20, 0.5]
    # Windows before the watermark are final; the duplicate is not counted.
    assert [(row["minute"][14:16], row["amount"]) for row in shop.values("minutes")] == [
        ("00", 25.0),
        ("01", 13.0),
        ("03", 40.0),
    ]
    hops = {row["key"]: row["value"]["n"] for row in shop.read("hops")}
    assert hops[b"2026-01-31 11:59:00"] == 3 and hops[b"2026-01-31 12:00:00"] == 4
    assert sorted((row["customer"], row["n"]) for row in shop.values("visits")) == [
        ("a", 1),
        ("a", 1),
        ("a", 1),
        ("b", 2),
    ]
    totals = {row["key"]: row["value"] for row in shop.read("totals")}
    assert totals[b"a"] == {"customer": "a", "total": 58.0} and totals[b"c"] is None

    check_dead_letters(shop, running)
    check_state(shop, pipeline)

    # A second run resumes where the first one ended.
    shop.write("orders", [order(9, 50, "a", 401)], keys=["z"])
    few = {name: sink for name, sink in pipeline.sinks.items() if name in ("large", "totals")}
    again = shop.once(pipeline._replace(sinks=few))
    assert [row["value"]["id"] for row in shop.read("large")] == [2, 2, 3, 4, 9]
    assert {row["key"]: row["value"] for row in shop.read("totals")}[b"b"]["total"] == 40.0
    assert max(row["total"] for row in shop.values("totals") if row) == 108.0
    assert again.progress["large"].rows == 1


def check_dead_letters(shop: Shop, running: RunningPipeline) -> None:
    letters = shop.read("dead")
    headers = [{h["key"]: h["value"].decode() for h in row["headers"]} for row in letters]
    by_offset = {one["offset"]: (one, row) for one, row in zip(headers, letters, strict=True)}
    assert sorted(by_offset) == ["3", "6", "7"]
    one, row = by_offset["6"]
    assert (one["topic"], one["partition"], one["source"]) == (f"{shop.prefix}.orders", "0", "orders")
    assert (row["key"], row["value"]) == (b"g", b"{broken") and one["reason"]
    one, row = by_offset["3"]
    assert (one["step"], one["reason"], row["value"]["id"]) == ("halves", "ValueError: thirteen", 3)
    counted = {name: progress.dead_letters for name, progress in running.progress.items()}
    assert counted["dead-letters-orders"] == 2 and counted["dead-letters-halves"] == 1


def check_state(shop: Shop, pipeline: Pipeline) -> None:
    """Check the state store."""
    session = shop.spark.newSession()
    (plan,) = queries_with(pipeline, "totals")
    operator = choose(pipeline.steps["totals"], operators(session, plan), None)
    rows = read_state(session, plan, operator, variable=None, side=None).collect()
    assert {row.customer: row.sum for row in rows} == {"a": 58.0, "b": 40.0, "c": 1.0}
    (plan,) = queries_with(pipeline, "hops")
    operator = choose(pipeline.steps["hops"], operators(session, plan), None)
    assert "count" in read_state(session, plan, operator, variable=None, side=None).columns


def test_streams_join_and_formats(shop):
    for topic in ("orders", "payments", "lines"):
        shop.cluster.create_topic(f"{shop.prefix}.{topic}", 1)
    shop.write("orders", [order(1, 5, "a", 0), order(2, 6, "b", 10), order(3, 7, "c", 300)])
    paid = [
        {"id": number, "paid_at": (NOON + timedelta(seconds=at)).isoformat()}
        for number, at in ((1, 4), (3, 301))
    ]
    shop.write("payments", paid)
    shop.write("lines", [b"one", b"two", b"\xff"])
    avro = '{"type": "record", "name": "line", "fields": [{"name": "value", "type": "string"}]}'
    pipeline = shop.load(
        ORDERS,
        f"""
          payments:
            topic: ${{p}}.payments
            schema: id BIGINT, paid_at TIMESTAMP
            watermark: {{column: paid_at, delay: 5 seconds}}
          lines: {{topic: "${{p}}.lines", format: string, on_bad_record: drop}}
          bytes: {{topic: "${{p}}.lines", format: raw, key_format: raw, headers: true}}
        steps:
          paid:
            sql: >
              SELECT o.id, p.id IS NOT NULL AS paid FROM orders o LEFT JOIN payments p
              ON o.id = p.id AND p.paid_at BETWEEN o.at AND o.at + INTERVAL 20 SECONDS
        sinks:
          paid: {{from: paid, topic: "${{p}}.paid"}}
          upper: {{from: lines, topic: "${{p}}.avro", format: avro, schema: '{avro}'}}
          copy: {{from: bytes, topic: "${{p}}.copy", format: raw}}
        options: {{dead_letter: "${{p}}.dead", shuffle_partitions: 1}}
        """,
    )
    running = shop.once(pipeline)
    assert shop.values("paid") == [{"id": 1, "paid": True}, {"id": 2, "paid": False}, {"id": 3, "paid": True}]
    assert sorted(shop.values("copy")) == [b"one", b"two", b"\xff"]
    assert sorted(shop.values("avro")) == [b"\x06one", b"\x06two"]
    assert running.progress["upper"].dropped == 1
    assert "dead-letters-lines" not in [plan.name for plan in queries_of(pipeline)]


def until(what: Callable[[], bool], running: RunningPipeline, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert running.poll(), "the queries ended"
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)


def pipelines(servers: str) -> list[dict[str, Any]]:
    from ottla.cli.pipelines.registry import list_queries
    from ottla.client import Admin

    found: list[dict[str, Any]] = []

    async def act() -> None:
        async with Admin(servers) as admin:
            found.extend(await list_queries(admin))

    run_in_thread(act)
    return found


def test_table_is_current_in_every_batch(shop):
    for topic, partitions in (("orders", 1), ("customers", 2)):
        shop.cluster.create_topic(f"{shop.prefix}.{topic}", partitions)
    shop.write("customers", [{"customer": "a", "name": "Ada"}, {"customer": "b", "name": "Bob"}], ["a", "b"])
    pipeline = shop.load(
        ORDERS,
        """
          customers: {topic: "${p}.customers", schema: "customer STRING, name STRING", table: true}
        steps:
          named: {sql: "SELECT id, name FROM orders LEFT JOIN customers USING (customer)"}
        sinks:
          shown: {from: named, console: true}
        options: {dead_letter: "${p}.dead", shuffle_partitions: 1, trigger: as soon as possible}
        """,
    )
    seen: dict[int, str | None] = {}

    def on_rows(sink, batch_id, columns, rows) -> None:
        assert (sink, list(columns)) == ("shown", ["id", "name"])
        seen.update(rows)

    running = shop.start(pipeline, once=False, on_rows=on_rows)
    try:
        shop.write("orders", [order(1, 5, "a"), order(2, 5, "c")])
        until(lambda: len(seen) == 2, running)
        # Changed, added, deleted and undecodable: the last one keeps the earlier value.
        shop.write(
            "customers", [{"customer": "a", "name": "Eve"}, {"customer": "c", "name": "Cy"}], ["a", "c"]
        )
        shop.write("customers", [None, b"{broken"], ["b", "c"])
        shop.write("orders", [order(3, 5, "a"), order(4, 5, "b"), order(5, 5, "c")])
        until(lambda: len(seen) == 5, running)
        until(lambda: running.progress["dead-letters-customers"].dead_letters == 1, running)
    finally:
        running.request_stop()
        running.watch()
    assert seen == {1: "Ada", 2: None, 3: "Eve", 4: None, 5: "Cy"}
    assert running.progress["shown"].state == "stopped"
    assert running.progress["shown"].lag == {f"{shop.prefix}.orders": 0}
    # Lag tools show the query.
    listed = {
        row["query"]: row for row in pipelines(shop.cluster.bootstrap_servers) if row["pipeline"] == "shop"
    }
    assert f"{shop.prefix}.orders" in listed["shown"]["topics"] and "pid" in listed["shown"]["where"]
    # Stopped between two batches: the next start repeats nothing.
    assert shop.once(pipeline).progress["shown"].rows == 0


def test_spark_errors_have_a_position(shop, monkeypatch, capsys):
    shop.cluster.create_topic(f"{shop.prefix}.orders", 1)
    pipeline = shop.load(
        ORDERS,
        """
        steps:
          wrong:
            sql: |
              SELECT amuont FROM orders
        sinks: {out: {from: wrong, console: true}}
        """,
    )
    path = str(shop.tmp_path / "pipeline.yaml")
    assert main(["pipeline", "validate", path]) == 0
    capsys.readouterr()
    # `--deep` starts and stops a session; here it gets the shared one.
    stopped: list[Any] = []

    def stop(session: Any) -> None:
        stopped.append(session)

    monkeypatch.setattr(pipeline_run, "quiet_spark", lambda *_, **__: shop.spark.newSession())
    monkeypatch.setattr(type(shop.spark), "stop", stop)
    assert main(["pipeline", "validate", path, "--deep", "--json"]) == 1
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert "step 'wrong': [UNRESOLVED_COLUMN" in problem["message"] and "amuont" in problem["message"]
    assert len(stopped) == 1
    with pytest.raises(BuildError, match=r"step 'wrong': \[UNRESOLVED_COLUMN.*amuont") as error:
        shop.start(pipeline, once=True)
    lines = (shop.tmp_path / "pipeline.yaml").read_text().splitlines()
    assert lines[error.value.mark.line - 1].strip() == lines[problem["line"] - 1].strip() == "sql: |"

    shop.write("orders", [b"{broken"])
    text = ORDERS + "    on_bad_record: fail\nsinks: {out: {from: orders, console: true}}\n"
    with pytest.raises(PipelineFailed, match=r"query 'out' failed: .*offset 0"):
        shop.once(shop.load(text))
