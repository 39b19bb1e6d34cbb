"""A fake Spark driver that calls the writers as Spark does and can be killed between any two steps."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from ottla.client import SyncTransactions, read_arrow, shared_cluster
from ottla.testing import Cluster
from pyspark_ottla.sink import writers
from pyspark_ottla.sink.exactly_once import commit_log, task_writer, transactional_ids
from pyspark_ottla.sink.exactly_once.task_id import TaskId
from tests.support.waiting import wait_until

SCHEMA = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])


class KilledError(Exception):
    """Stands for SIGKILL."""


def rows(numbers: Iterable[int]) -> list[pa.RecordBatch]:
    values = [b"%d" % number for number in numbers]
    column = pa.array(values, pa.binary())
    return [pa.record_batch({"key": column, "value": column})]


class SinkHarness:
    """One streaming query and its output topic."""

    def __init__(self, cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch, **options: str) -> None:
        self.servers = cluster.bootstrap_servers
        self.topic = topic
        self.options = {
            "kafka.bootstrap.servers": self.servers,
            "topic": topic,
            "mode": "exactly-once",
            "committopic": f"commits-{uuid.uuid4().hex[:8]}",
            **{name.lower(): value for name, value in options.items()},
        }
        self.query = str(uuid.uuid4())
        self.run = ""
        self.task_id: TaskId | None = None
        monkeypatch.setattr(writers, "stream_task_id", lambda: self.task_id)
        self.start()

    def start(self) -> None:
        """Start a new driver with new workers, without any state of earlier ones."""
        self.run = str(uuid.uuid4())
        self.forget()

    def forget(self) -> None:
        commit_log._marker_writers.clear()
        task_writer._last_batches.clear()
        transactional_ids._workers.clear()

    def writer(self) -> writers.OttlaStreamWriter:
        return writers.OttlaStreamWriter(self.options, SCHEMA)

    def task(self, batch: int, partition: int, numbers: Iterable[int], attempt: int = 0) -> Any:
        """Run one attempt of a task. Returns its pickled and unpickled message."""
        self.task_id = TaskId(self.query, self.run, batch, partition, attempt)
        return pickle.loads(pickle.dumps(self.writer().write(iter(rows(numbers)))))

    def tasks(self, batch: int, numbers: range, parallelism: int = 2) -> list[Any]:
        return [
            self.task(batch, partition, numbers[partition::parallelism]) for partition in range(parallelism)
        ]

    def batch(self, batch: int, numbers: range, parallelism: int = 2) -> None:
        """Run and commit a batch."""
        self.commit(self.tasks(batch, numbers, parallelism), batch)

    def commit(self, messages: list[Any], batch: int) -> None:
        """Commit as Spark does: if the commit raises, abort with the same messages."""
        try:
            self.writer().commit(messages, batch)
        except KilledError:
            raise
        except Exception:
            self.writer().abort(messages, batch)
            raise

    def seen(self) -> list[int]:
        table = read_arrow(self.topic, bootstrap_servers=self.servers).read_all()
        return sorted(int(value) for value in table["value"].to_pylist())

    def check(self, numbers: Iterable[int]) -> None:
        """Check that each number is in the topic once, and that no transaction is open."""
        wanted = sorted(numbers)
        wait_until(lambda: self.seen() == wanted, self.seen, 10)
        assert self.open_ids() == []

    def open_ids(self) -> list[str]:
        return SyncTransactions(shared_cluster(self.servers)).open_ids(f"ottla-spark/{self.query}/")
