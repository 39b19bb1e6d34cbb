"""The cache of table sources against a real broker: recreated topics, retention."""

from __future__ import annotations

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from ottla.client import Admin, write_arrow
from ottla.pipeline.queries import table_source
from ottla.pipeline.queries.table_source import TableReader
from ottla.testing.topics import run_in_thread
from pyspark_ottla.reader.columns import schema_of


class Table:
    def __init__(self, cluster, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic}

    def write(self, rows: dict[str, str]) -> None:
        keys = pa.array([key.encode() for key in rows], pa.binary())
        values = pa.array([value.encode() for value in rows.values()], pa.binary())
        table = pa.table({"key": keys, "value": values})
        write_arrow(table, self.topic, bootstrap_servers=self.cluster.bootstrap_servers)

    def read(self) -> dict[str, str]:
        """Read as the tasks of one micro-batch do, in one worker."""
        columns = {"columns": "key,value,offset"}
        reader = TableReader({**self.options, **columns}, schema_of(columns))
        rows = [
            row for share in reader.partitions() for rows in reader.read(share) for row in rows.to_pylist()
        ]
        found = {row["key"].decode(): row["value"].decode() for row in rows}
        assert len(found) == len(rows)
        return found

    def admin(self, act) -> None:
        async def run() -> None:
            async with Admin(self.cluster.bootstrap_servers) as admin:
                await act(admin)

        run_in_thread(run)


@pytest.fixture
def table(ottla_cluster, ottla_topic, monkeypatch):
    monkeypatch.setattr(table_source, "_cache", {})
    return Table(ottla_cluster, ottla_topic)


def test_newer_records_replace_cached_rows(table):
    table.write({"a": "1", "b": "1"})
    assert table.read() == {"a": "1", "b": "1"}
    assert table.read() == {"a": "1", "b": "1"}
    table.write({"a": "2", "c": "2"})
    assert table.read() == {"a": "2", "b": "1", "c": "2"}


def test_rows_of_a_deleted_topic_are_not_in_its_successor(table):
    table.write({"a": "old", "b": "old"})
    assert table.read() == {"a": "old", "b": "old"}
    table.admin(lambda admin: admin.delete_topics([table.topic]))
    table.cluster.create_topic(table.topic, 1)
    # At least as long as the old log, so that its end does not give the new topic away.
    table.write({"c": "new", "d": "new", "e": "new"})
    assert table.read() == {"c": "new", "d": "new", "e": "new"}
    assert len(table_source._cache) == 1  # the rows of the old topic use no memory


def test_rows_below_the_log_start_are_dropped(table):
    table.write({"a": "1", "b": "1", "c": "1"})
    assert table.read() == {"a": "1", "b": "1", "c": "1"}
    table.write({"a": "2"})
    table.admin(lambda admin: admin.delete_records(table.topic, {0: 2}))
    assert table.read() == {"a": "2", "c": "1"}
    # Everything is gone, and there is nothing new.
    table.admin(lambda admin: admin.delete_records(table.topic, {0: 4}))
    assert table.read() == {}
    table.write({"d": "3"})
    assert table.read() == {"d": "3"}
