"""Record batches created by librdkafka: produced to a broker, read back, and prepared for sending."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count, islice
from typing import Any, Protocol

from bench.broker import BenchError, Broker
from bench.wire import Wire, fetch
from ottla.records.batch import NO_LEADER_EPOCH, iter_headers, stamp

VALUE_BYTES = 1024
# librdkafka would log every stop of a broker.
QUIET = {"log_level": 0}
FETCH_BYTES = 8 * 1024 * 1024
# Usual configuration values for "16 KB", "64 KB" and "1 MB" (librdkafka's own limit).
BATCH_SIZES = {"16 KB": 16_384, "64 KB": 65_536, "1 MB": 1_000_000}
ONE_RECORD = 1
POOL_BYTES = 32_000_000  # larger than the CPU caches, as real data is


class Servers(Protocol):
    @property
    def address(self) -> str: ...


def producer(servers: Servers, batch_bytes: int, **more: Any) -> Any:
    """A librdkafka producer on one connection that fills its batches; other options have their defaults."""
    from confluent_kafka import Producer

    config = {
        **QUIET,
        "bootstrap.servers": servers.address,
        "batch.size": max(batch_bytes, 2 * VALUE_BYTES),
        "batch.num.messages": 1 if batch_bytes == ONE_RECORD else 100_000,
        "linger.ms": 200,
        "queue.buffering.max.messages": 200_000,
        "queue.buffering.max.kbytes": 200_000,
    }
    return Producer({**config, **{name.replace("_", "."): value for name, value in more.items()}})


def values(distinct: int = 512, value_bytes: int = VALUE_BYTES) -> list[bytes]:
    """Return values; adjacent records have different ones."""
    return [os.urandom(value_bytes) for _ in range(distinct)]


def produce_records(client: Any, topic: str, pool: list[bytes], records: int) -> None:
    """Produce the records and wait until all are acknowledged."""
    produce, poll = client.produce, client.poll
    failures: list[str] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(str(error))

    for number in range(records):
        while True:
            try:
                produce(topic, pool[number % len(pool)], on_delivery=delivered)
                break
            except BufferError:  # a slow server may need several polls
                poll(0.1)
        if number % 1000 == 0:
            poll(0)
    if client.flush(120) or failures:
        raise BenchError(f"librdkafka: not all records were delivered: {failures[:1]}")


def librdkafka_batches(broker: Broker, wire: Wire, batch_bytes: int, total_bytes: int) -> list[bytes]:
    """Return distinct full batches of about `total_bytes` in total."""
    topic = f"pattern-{batch_bytes}"
    wire.create_topic(topic)
    client = producer(broker, batch_bytes)
    records = max(2, (total_bytes + 2 * batch_bytes) // VALUE_BYTES)
    produce_records(client, topic, values(records if batch_bytes == ONE_RECORD else 512), records)
    found = [bytes(batch) for batch in read_batches(wire, topic)]
    longest = max(map(len, found))
    # Skip the last batch and batches cut short by the linger time.
    return [batch for batch in found if len(batch) > 0.9 * longest]


def read_batches(wire: Wire, topic: str) -> Iterator[bytearray]:
    """Yield every batch of partition 0 as a producer would send it."""
    offset, end = 0, wire.log_end_offset(topic)
    while offset < end:
        records, _ = fetch(wire, topic, offset, FETCH_BYTES)
        for position, header in iter_headers(records):
            batch = bytearray(records[position : position + header.size_bytes])
            offset = header.next_offset
            stamp(batch, 0, 0, NO_LEADER_EPOCH)
            yield batch


def average_batch_bytes(broker: Broker, topic: str, batches_max: int = 2000) -> float:
    """Return the average size of batches in the log; the configured size is only an upper bound."""
    from ottla.records.batch import HEADER_BYTES, read_header

    sizes = []
    with open(os.path.join(broker.data_dir, f"{topic}-0", f"{0:020d}.log"), "rb") as log:
        position = 0
        for _ in islice(count(), batches_max):
            log.seek(position)
            head = log.read(HEADER_BYTES)
            if len(head) < HEADER_BYTES:
                break
            sizes.append(read_header(head).size_bytes)
            position += sizes[-1]
    return sum(sizes) / max(1, len(sizes))
