"""Spark without Spark: a driver that calls writers as Spark does, and can be killed between any two steps."""

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
from pyspark_ottla.sink.exactly_once import commit_log, task_writer
from tests.support.waiting import wait_until

SCHEMA = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])


class KilledError(Exception):
    """Stands for SIGKILL: nothing after it runs."""


def rows(numbers: Iterable[int]) -> list[pa.RecordBatch]:
    values = [b"%d" % number for number in numbers]
    column = pa.array(values, pa.binary())
    return [pa.record_batch({"key": column, "value": column})]


class Stage:
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
        self.task_id: task_writer.TaskId | None = None
        monkeypatch.setattr(writers, "stream_task_id", lambda: self.task_id)
        self.start()

    def start(self) -> None:
        """A new driver with new workers: nothing is remembered but what is in the cluster."""
        self.run = str(uuid.uuid4())
        self.forget()

    def forget(self) -> None:
        commit_log._marker_writers.clear()
        task_writer._last_batches.clear()
        task_writer._slots.clear()
        task_writer._worker_pid = -1

    def writer(self) -> writers.OttlaStreamWriter:
        return writers.OttlaStreamWriter(self.options, SCHEMA)

    def task(self, batch: int, partition: int, numbers: Iterable[int], attempt: int = 0) -> Any:
        """One attempt of a task; what it tells goes over the wire."""
        self.task_id = task_writer.TaskId(self.query, self.run, batch, partition, attempt)
        return pickle.loads(pickle.dumps(self.writer().write(iter(rows(numbers)))))

    def tasks(self, batch: int, numbers: range, parallelism: int = 2) -> list[Any]:
        return [
            self.task(batch, partition, numbers[partition::parallelism]) for partition in range(parallelism)
        ]

    def batch(self, batch: int, numbers: range, parallelism: int = 2) -> None:
        """A batch as it should be."""
        self.commit(self.tasks(batch, numbers, parallelism), batch)

    def commit(self, messages: list[Any], batch: int) -> None:
        """As Spark: a commit that raises is followed by an abort with the same messages."""
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
        """Each number is there exactly once, and no transaction is left that would hold readers up."""
        wanted = sorted(numbers)
        wait_until(lambda: self.seen() == wanted, self.seen, 10)
        assert self.open_ids() == []

    def open_ids(self) -> list[str]:
        return SyncTransactions(shared_cluster(self.servers)).open_ids(f"ottla-spark/{self.query}/")
