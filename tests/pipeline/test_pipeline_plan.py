"""Query plans and the progress of queries."""

from __future__ import annotations

import os

from ottla.pipeline.definition.graph import Graph
from ottla.pipeline.plan import (
    executor_dependencies,
    parse_group,
    queries_of,
    sink_options,
    source_options,
    spark_conf,
)
from ottla.pipeline.queries.progress import QueryProgress, lags
from ottla.pipeline.topics import wanted_topics

TEXT = """\
pipeline: shop
bootstrap: here:1
kafka: {client.id: shop}
sources:
  orders:
    topic: [orders, more-orders]
    schema: id BIGINT, customer STRING, at TIMESTAMP
    start: latest
    headers: true
    max_per_trigger: 100
    options: {minPartitions: 4}
  customers: {topic: customers, schema: customer STRING, table: true, on_bad_record: drop}
  lines: {topic: lines, format: raw}
  unused: {topic: unused, format: raw}
steps:
  named: {sql: SELECT * FROM orders JOIN customers USING (customer)}
  cleaned: {map: "steps.py:clean", from: named, schema: id BIGINT}
sinks:
  out: {from: cleaned, topic: out, mode: exactly-once, key: id, partitions: 3}
  totals: {from: lines, topic: totals, key: value, format: raw, compacted: true, trigger: 5 seconds}
  lake: {from: orders, lake: lake/orders, partition_by: [customer, id]}
options: {checkpoint: state, trigger: as soon as possible, spark: {spark.sql.shuffle.partitions: 7}}
"""


def shop(load, tmp_path):
    (tmp_path / "steps.py").write_text("def clean(row): return row\n")
    return load(TEXT)


def test_queries(load, tmp_path):
    pipeline = shop(load, tmp_path)
    plans = {plan.name: plan for plan in queries_of(pipeline)}
    assert list(plans) == ["out", "totals", "lake", "dead-letters-orders", "dead-letters-cleaned"]
    assert plans["out"].checkpoint == os.path.join(tmp_path, "state", "out")
    assert plans["out"].trigger_ms == 0 and plans["totals"].trigger_ms == 5000
    assert plans["dead-letters-cleaned"].is_dead_letters
    assert parse_group(plans["out"].group) == ("shop", "out")
    assert parse_group("someone.else") is None and parse_group("a.b.c") is None


def test_options_of_sources_and_sinks(load, tmp_path):
    pipeline = shop(load, tmp_path)
    found = source_options(pipeline, pipeline.sources["orders"], "g")
    assert found.pop("commitOffsetsMetadata").endswith(f"pid {os.getpid()}, local[*]")
    assert found == {
        "kafka.client.id": "shop",
        "kafka.bootstrap.servers": "here:1",
        "subscribe": "orders,more-orders",
        "kafka.group.id": "g",
        "commitOffsetsToGroup": "true",
        "startingOffsets": "latest",
        "valueFormat": "json",
        "valueSchema": "id BIGINT, customer STRING, at TIMESTAMP",
        "badRecords": "columns",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": "100",
        "minPartitions": "4",
    }
    table = source_options(pipeline, pipeline.sources["customers"], None)
    assert "kafka.group.id" not in table and "startingOffsets" not in table
    raw = source_options(pipeline, pipeline.sources["lines"], "g")
    assert "valueFormat" not in raw and "badRecords" not in raw
    assert sink_options(pipeline, pipeline.sinks["out"])["mode"] == "exactly-once"
    assert sink_options(pipeline, pipeline.sinks["lake"]) == {
        "path": os.path.join(tmp_path, "lake", "orders"),
        "partitionBy": "customer,id",
    }


def test_settings_of_spark(load, tmp_path):
    conf = spark_conf(shop(load, tmp_path))
    assert "RocksDB" in conf["spark.sql.streaming.stateStore.providerClass"]
    assert conf["spark.sql.ansi.enabled"] == "false"
    assert conf["spark.sql.shuffle.partitions"] == "7"


def test_topics_to_create(load, tmp_path):
    found = wanted_topics(shop(load, tmp_path))
    assert list(found) == ["out", "totals", "shop.dead-letter"]
    assert found["out"].partitions == 3
    assert found["totals"].configs == {"cleanup.policy": "compact"}


def test_the_order_of_steps(load, tmp_path):
    graph = Graph(shop(load, tmp_path))
    assert graph.upstream("cleaned") == ["orders", "customers", "named", "cleaned"]
    assert graph.find("CLEANED") == "cleaned"
    facts = graph.facts("named")
    assert facts.is_stream and not facts.joins_streams and not facts.stateful


def report(batch: int, rows: int, **more) -> dict:
    return {
        "batchId": batch,
        "timestamp": f"2026-01-01T00:00:{batch:02}.000Z",
        "numInputRows": rows,
        "processedRowsPerSecond": 50.0,
        "durationMs": {"triggerExecution": 120},
        "sources": [
            {
                "endOffset": {"orders": {"0": 5, "1": 7}, "@initial": {"orders": {"0": 0}}},
                "latestOffset": '{"orders": {"0": 8, "1": 7}, "new": {"0": 2}}',
            },
            {"endOffset": None, "latestOffset": None},
        ],
        "stateOperators": [{"numRowsTotal": 3, "memoryUsedBytes": 10}, {"numRowsTotal": 4}],
        **more,
    }


def test_progress_counts_every_batch_once():
    progress = QueryProgress("q")
    first = report(0, 10, observedMetrics={"dead_letters": {"rows": 2}})
    assert progress.update([first])
    assert not progress.update([first])
    assert progress.update([first, report(1, 5, observedMetrics={"dropped_orders": {"rows": 1}})])
    assert (progress.batch_id, progress.rows, progress.dead_letters, progress.dropped) == (1, 15, 2, 1)
    assert (progress.batch_ms, progress.rows_per_second) == (120, 50.0)
    assert (progress.state_rows, progress.state_bytes) == (7, 10)
    assert progress.lag == {"orders": 3, "new": 2}


def test_no_lag_for_other_sources():
    assert lags([{"endOffset": "5", "latestOffset": "not json"}, {"latestOffset": {"a": 5}}]) == {}


def test_progress_reports_of_spark_connect():
    """Spark Connect reports no totals over sources, and observed rows with their schema."""
    schema = {"type": "struct", "fields": [{"name": "rows", "type": "long"}]}
    observed = {"dead_letters": {"values": [3], "schema": schema}}
    told = report(0, 0, observedMetrics=observed)
    del told["numInputRows"], told["processedRowsPerSecond"]
    told["sources"][0] |= {"numInputRows": 4, "processedRowsPerSecond": 20.0}
    told["sources"][1] |= {"numInputRows": 5, "processedRowsPerSecond": 5.0}
    progress = QueryProgress("q")
    assert progress.update([told])
    assert (progress.rows, progress.rows_per_second, progress.dead_letters) == (9, 25.0, 3)


def test_executor_dependencies(load):
    text = "pipeline: p\nsources: {a: {topic: a, schema: x INT}}\n"
    text += "sinks: {s: {from: a, topic: b}, t: {from: a, lake: /data/t}}\n"
    always = ("pyarrow", "cramjam", "crc32c", "pyyaml")
    assert executor_dependencies(load(text)) == always
    # User code may import anything.
    code = "steps: {b: {map: 'json:loads', from: a, schema: x INT}}\n"
    assert executor_dependencies(load(text + code)) == (*always, "deltalake", "fastavro", "pandas")
    avro = '{"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]}'
    text = f"pipeline: p\nsources: {{a: {{topic: a, format: avro, schema: '{avro}'}}}}\n"
    text += "sinks: {t: {from: a, lake: 's3://bucket/t'}}\n"
    assert executor_dependencies(load(text)) == (*always, "fastavro", "deltalake")
