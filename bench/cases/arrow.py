"""The client's CPU for moving rows between a broker and Arrow tables, compared with librdkafka's
`consume()`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pyarrow as pa

from bench.broker import BenchError, Broker, Launch
from bench.figures import Figure, figure_of
from bench.sizes import Sizes
from bench.wire import Wire
from ottla.client import read_arrow, write_arrow
from ottla.records.compression import CODEC_NAMES

VALUE_BYTES = 100
UNIT = "CPU s per M rows"
# The goal is a fifth of the CPU time of librdkafka's consume(), measured in the same run.
FASTER_THAN_CONSUME = 5


def arrow(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    rows = max(10_000, sizes.fetch_bytes // VALUE_BYTES // 4)
    table = _table(rows)
    with Broker(launch) as broker, Wire(broker) as wire:
        for codec in CODEC_NAMES:
            topic = f"bench-{codec}"
            wire.create_topic(topic)
            began_s = time.process_time()
            written = write_arrow(table, topic, bootstrap_servers=broker.address, compression=codec)
            used_s = time.process_time() - began_s
            note = f"{written.size_bytes / rows:.0f} bytes per row"
            yield figure_of(f"write_arrow, {codec}", [used_s / rows * 1e6], UNIT, None, note)
        consume = _consume(broker, "bench-none", min(rows, 300_000))
        for codec in CODEC_NAMES:
            used = [_read(broker, f"bench-{codec}", rows) / rows * 1e6 for _ in range(sizes.rounds)]
            goal = consume / FASTER_THAN_CONSUME if codec == "none" else None
            yield figure_of(f"read_arrow, {codec}", used, UNIT, goal)
        yield figure_of("librdkafka consume(), none", [consume], UNIT)


def _table(rows: int) -> pa.Table:
    """Return a table whose values compress about as well as JSON."""
    half = [os.urandom(VALUE_BYTES // 4).hex().encode() for _ in range(1000)]
    values = [b"%s%0*d" % (half[row % 1000], VALUE_BYTES // 2, row) for row in range(rows)]
    return pa.table({"key": [b"key %d" % (row % 10_000) for row in range(rows)], "value": values})


def _read(broker: Broker, topic: str, rows: int) -> float:
    began_s = time.process_time()
    found = sum(batch.num_rows for batch in read_arrow(topic, bootstrap_servers=broker.address))
    if found != rows:
        raise BenchError(f"read_arrow: {found} of {rows} rows arrived")
    return time.process_time() - began_s


def _consume(broker: Broker, topic: str, rows: int) -> float:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    settings = {"bootstrap.servers": broker.address, "group.id": "bench", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    began_s = time.process_time()
    found = 0
    while found < rows:
        messages = consumer.consume(10_000, 10)
        if not messages or messages[0].error():
            raise BenchError(f"librdkafka: {found} of {rows} records arrived")
        found += len(messages)
    used_s = time.process_time() - began_s
    consumer.close()
    return used_s / found * 1e6
