"""The cost of transactions of 100 ms for a producer at full speed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

from bench.batches import BATCH_SIZES, QUIET, VALUE_BYTES, values
from bench.broker import BenchError, Broker, Launch
from bench.figures import Figure, figure_of
from bench.meter import CpuMeter, ready_page_cache
from bench.sizes import Sizes
from bench.txn_stream import Stream
from bench.wire import Wire

TOPIC = "bench"
BATCH = "64 KB"
TRANSACTION_SECONDS = 0.1
GOAL = 1 / 0.9
WAIT_SECONDS = 60
LOOK_EVERY = 100  # records between two reads of the clock
QUEUE_KBYTES = 1_024  # enough for five batches in flight; a commit waits for all of it


class Load:
    """A librdkafka producer that counts delivered records."""

    def __init__(self, broker: Broker, transactional_id: str | None) -> None:
        from confluent_kafka import Producer

        config: dict[str, Any] = {
            **QUIET,
            "bootstrap.servers": broker.address,
            "batch.size": BATCH_SIZES[BATCH],
            "enable.idempotence": True,
            "queue.buffering.max.kbytes": QUEUE_KBYTES,
        }
        if transactional_id is not None:
            config["transactional.id"] = transactional_id
        self._producer = Producer(config)
        self._transactional = transactional_id is not None
        self._failures: list[str] = []
        self.transactions = 0
        if self._transactional:
            self._producer.init_transactions(WAIT_SECONDS)

    def run(self, seconds: float, pool: list[bytes]) -> float:
        """Return the delivered and committed megabytes per second."""
        began_s = time.perf_counter()
        records = 0
        while time.perf_counter() - began_s < seconds:
            records += self._one(min(TRANSACTION_SECONDS, seconds), pool)
        if not self._transactional and self._producer.flush(WAIT_SECONDS):
            raise BenchError("librdkafka: not all records were delivered")
        if self._failures:
            raise BenchError(f"librdkafka: {self._failures[0]}")
        return records * VALUE_BYTES / 1e6 / (time.perf_counter() - began_s)

    def _one(self, seconds: float, pool: list[bytes]) -> int:
        if self._transactional:
            self._producer.begin_transaction()
        end_s = time.perf_counter() + seconds
        records = 0
        while time.perf_counter() < end_s:
            for value in pool[:LOOK_EVERY]:
                self._produce(value)
            records += LOOK_EVERY
            self._producer.poll(0)
        if self._transactional:
            self._producer.commit_transaction(WAIT_SECONDS)
            self.transactions += 1
        return records

    def _produce(self, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(TOPIC, value, partition=0, on_delivery=self._delivered)
                return
            except BufferError:
                self._producer.poll(0.001)

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._failures.append(str(error))


def produce(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    """Alternate, so that other load on the machine affects both."""
    pool = values(LOOK_EVERY)
    with Broker(launch) as broker, Wire(broker) as wire:
        wire.create_topic(TOPIC)
        loads = {"idempotent": Load(broker, None), "transactional": Load(broker, "bench")}
        speeds: dict[str, list[float]] = {name: [] for name in loads}
        meters = {name: CpuMeter(broker) for name in loads}
        for load in loads.values():
            load.run(sizes.txn_seconds / 4, pool)
        for _ in range(sizes.txn_rounds):
            for name, load in loads.items():
                ready_page_cache(broker.directory, int(sizes.txn_seconds * 500_000_000), BATCH_SIZES[BATCH])
                meters[name].begin()
                speeds[name].append(load.run(sizes.txn_seconds, pool))
                meters[name].end()
        transactions = loads["transactional"].transactions
    plain, within = speeds["idempotent"], speeds["transactional"]
    medians = f"medians {statistics.median(within):.0f} of {statistics.median(plain):.0f} MB/s"
    # Other load can only slow a round down, so the best rounds show the effect of transactions.
    yield Figure(
        "produce in transactions of 100 ms, slower by",
        max(plain) / max(within),
        "times",
        GOAL,
        f"librdkafka, {BATCH}, best of {len(within)} rounds: {max(within):.0f} of {max(plain):.0f} MB/s; "
        f"{medians}; {transactions} transactions",
    )
    cpu = {}
    for name, meter in meters.items():
        rounds = zip(meter.total_s, speeds[name], strict=True)
        cpu[name] = [used_s / (speed * sizes.txn_seconds / 1000) for used_s, speed in rounds]
    yield figure_of(
        "produce in transactions of 100 ms",
        cpu["transactional"],
        "CPU s per GB",
        None,
        f"idempotent: {statistics.median(cpu['idempotent']):.2f}",
    )


def produce_bare(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    """The same with raw requests: the cost of the broker without that of a client."""
    with Broker(launch) as broker, Wire(broker) as wire:
        wire.create_topic(TOPIC)
        streams = {"idempotent": Stream(broker, TOPIC, None), "transactional": Stream(broker, TOPIC, "bench")}
        speeds: dict[str, list[float]] = {name: [] for name in streams}
        for stream in streams.values():
            stream.run(sizes.txn_seconds / 4, TRANSACTION_SECONDS)
        before = wire.log_end_offset(TOPIC)
        transactions = streams["transactional"].transactions
        records = 0
        for _ in range(sizes.txn_rounds):
            for name, stream in streams.items():
                ready_page_cache(broker.directory, int(sizes.txn_seconds * 500_000_000), BATCH_SIZES[BATCH])
                speeds[name].append(stream.run(sizes.txn_seconds, TRANSACTION_SECONDS))
                records += stream.sent_records
        transactions = streams["transactional"].transactions - transactions
        appended = wire.log_end_offset(TOPIC) - before
        if appended != records + transactions:
            raise BenchError(f"{records} records and {transactions} markers used {appended} offsets")
        for stream in streams.values():
            stream.close()
    plain, within = speeds["idempotent"], speeds["transactional"]
    yield figure_of(
        "produce in transactions of 100 ms, bare requests, slower by",
        [one / other for one, other in zip(plain, within, strict=True)],
        "times",
        GOAL,
        f"64 KB, {statistics.median(within):.0f} of {statistics.median(plain):.0f} MB/s; "
        f"{transactions} transactions",
    )
