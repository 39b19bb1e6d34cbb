"""A million records with aborted transactions and the offset gaps of compaction."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip(
    "pyspark", reason="the tests of the Spark data source need pyspark: pip install ottla[spark]"
)

from ottla.client import ArrowWriter, SyncCluster, read_arrow
from ottla.records.batch import HEADER_BYTES, iter_headers, seal
from ottla.testing import Cluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

TOPIC = "million"
ROWS = 1_000_000
# Written first without transactions, and then compacted.
COMPACTED = 50_000
PER_TRANSACTION = 100_000
PRIME = 1_000_003


def numbers(first: int, count: int, partition: int | None = None) -> pa.RecordBatch:
    values = pa.array(range(first, first + count), pa.int64()).cast(pa.string()).cast(pa.binary())
    table = {"key": values, "value": values}
    if partition is not None:
        table["partition"] = pa.array([partition] * count, pa.int32())
    return pa.record_batch(table)


def record_slices(records: memoryview) -> Iterator[memoryview]:
    """Yield the records of an uncompressed batch: each starts with its size."""
    at = 0
    while at < len(records):
        size = shift = 0
        begin = at
        while True:
            byte = records[at]
            at += 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        at += (size >> 1) ^ -(size & 1)
        yield records[begin:at]


def compact(path: Path) -> None:
    """Remove two of three records and every third batch, as a log cleaner would."""
    data = path.read_bytes()
    kept = bytearray()
    for number, (at, header) in enumerate(iter_headers(data)):
        batch = memoryview(data)[at : at + header.size_bytes]
        if at + header.size_bytes == len(data):
            kept += batch  # the last batch is never cleaned
            continue
        if number % 3 == 1:
            continue
        some = list(record_slices(batch[HEADER_BYTES:]))[::3]
        thin = bytearray(batch[:HEADER_BYTES]) + b"".join(some)
        # The batch keeps its first and last offset.
        seal(thin, header._replace(records_count=len(some)))
        kept += thin
    path.write_bytes(kept)


class Written(NamedTuple):
    """The cluster and topic of the records, and their numbers."""

    servers: str
    numbers: np.ndarray


@pytest.fixture
def million() -> Iterator[Written]:
    """A topic of two partitions with gaps."""
    with Cluster() as brokers:
        brokers.create_topic(TOPIC, 2)
        cluster = SyncCluster(brokers.bootstrap_servers)
        # Small batches, so that there are many to compact.
        with ArrowWriter(cluster, TOPIC, batch_bytes=20_000) as writer:
            writer.write(numbers(0, COMPACTED, 0))
        cluster.close()
        brokers.stop()
        (log,) = Path(brokers.data_dir).glob(f"**/{TOPIC}-0/*.log")
        compact(log)
        for index in (*log.parent.glob("*.index"), *log.parent.glob("*.timeindex")):
            os.remove(index)
        brokers.start()
        cluster = SyncCluster(brokers.bootstrap_servers)
        left = read_arrow(TOPIC, bootstrap_servers=brokers.bootstrap_servers, columns=["value", "offset"])
        rows = left.read_all()
        pieces = [rows["offset"].to_numpy()]
        assert rows["value"].cast(pa.string()).cast(pa.int64()).to_numpy().tolist() == pieces[0].tolist()
        assert 0 < rows.num_rows < COMPACTED / 2
        pieces += in_transactions(cluster, ROWS - rows.num_rows)
        cluster.close()
        yield Written(brokers.bootstrap_servers, np.concatenate(pieces))


def in_transactions(cluster: SyncCluster, count: int) -> list[np.ndarray]:
    """Write `count` records in transactions, and others that are aborted. Returns the committed numbers."""
    pieces = []
    first = COMPACTED
    with ArrowWriter(cluster, TOPIC, transactional_id="million", compression="lz4") as writer:
        while count:
            aborted = len(pieces) % 3 == 1
            if aborted:
                writer.begin()
                writer.write(numbers(first, PER_TRANSACTION // 2))
                writer.abort()
                first += PER_TRANSACTION // 2
            some = min(PER_TRANSACTION, count)
            writer.begin()
            writer.write(numbers(first, some))
            writer.commit()
            pieces.append(np.arange(first, first + some))
            first, count = first + some, count - some
    return pieces


def test_million_records(spark, million):
    found = (
        spark.read.format("ottla")
        .option("kafka.bootstrap.servers", million.servers)
        .option("subscribe", TOPIC)
        .option("columns", "offset,value")
        # Splits within batches, gaps and transactions.
        .option("minPartitions", "7")
        .load()
        .selectExpr("cast(cast(value as string) as bigint) as n", "offset")
        .selectExpr(
            "count(*) as rows", "sum(n) as sum", f"sum(n * n % {PRIME}) as squares", "max(offset) as last"
        )
        .first()
    )
    expected = million.numbers
    assert (found.rows, found.sum) == (ROWS, int(expected.sum()))
    assert found.squares == int((expected * expected % PRIME).sum())
    assert found.last > ROWS / 2
