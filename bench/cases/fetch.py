"""Broker CPU for fetches from the page cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import cycle, islice

from bench.batches import (
    BATCH_SIZES,
    ONE_RECORD,
    POOL_BYTES,
    QUIET,
    VALUE_BYTES,
    librdkafka_batches,
)
from bench.broker import BenchError, Broker, Launch
from bench.cases.floor import sent_file
from bench.figures import Figure, figure_of
from bench.meter import CpuMeter, one_core
from bench.sizes import Sizes
from bench.wire import Exchange, Wire, fetch, fetch_exchange, joined, produce_exchanges
from ottla.records.batch import iter_headers

TOPIC = "bench"
FETCH_SIZES: dict[str, tuple[int, float | None]] = {"1 MB": (1_048_576, 0.35), "64 KB": (65_536, None)}
SMALL_FETCH_BYTES = 1


def fetch_cached(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    """One fetch at a time, sequential, of a log that the same process has written.

    The size of batches may matter, because the page cache stores small writes in small folios.
    """
    with one_core():
        yield from _fetch_cached(launch, sizes, "16 KB", FETCH_SIZES)
        yield from _fetch_cached(launch, sizes, "1 MB", {"1 MB": FETCH_SIZES["1 MB"]})


def _fetch_cached(
    launch: Launch, sizes: Sizes, batches: str, fetch_sizes: dict[str, tuple[int, float | None]]
) -> Iterator[Figure]:
    with Broker(launch) as broker, Wire(broker) as wire:
        _fill(broker, wire, BATCH_SIZES[batches], sizes.fetch_bytes)
        plans = {name: _plan(wire, max_bytes) for name, (max_bytes, _) in fetch_sizes.items()}
        for name, (_, goal) in fetch_sizes.items():
            meter = _read(broker, wire, plans[name], sizes.rounds)
            yield _per_gigabyte(f"fetch {name}, batches of {batches}", plans[name], meter, goal)
        # The same pages sent by the simplest server: their layout in memory has a large effect.
        path = os.path.join(broker.data_dir, f"{TOPIC}-0", f"{0:020d}.log")
        used = sent_file(path, os.path.getsize(path), sizes.rounds)
        yield figure_of(f"floor: send 1 MB of the same file, batches of {batches}", used, "CPU s per GB")
        broker.stop()
        broker.start()
        with Wire(broker) as after_restart:
            meter = _read(broker, after_restart, plans["1 MB"], 1, warm=False)
            name = f"fetch 1 MB, batches of {batches}, after a restart"
            yield _per_gigabyte(name, plans["1 MB"], meter, None)


def fetch_small(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    """Fetch batches of one record one by one."""
    with Broker(launch) as broker, Wire(broker) as wire:
        _fill(broker, wire, ONE_RECORD, min(sizes.requests * VALUE_BYTES, 5_000_000))
        plan = _plan(wire, SMALL_FETCH_BYTES)
        requests = max(1, sizes.requests // len(plan)) * len(plan)
        with one_core():
            os.sched_setaffinity(broker.pid, os.sched_getaffinity(0))
            meter = _read(broker, wire, list(islice(cycle(plan), requests)), sizes.rounds)
        os.sched_setaffinity(broker.pid, os.sched_getaffinity(0))
        yield _per_request("fetch one record, alone", requests, meter, "1 in flight")
        together = joined(plan, 16)
        requests = max(1, sizes.requests // len(plan)) * len(together) * 16
        meter = _read(broker, wire, list(islice(cycle(together), requests // 16)), sizes.rounds, in_flight=4)
        yield _per_request("fetch one record, pipelined", requests, meter, "64 in flight")


def fetch_librdkafka(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    with Broker(launch) as broker, Wire(broker) as wire:
        _fill(broker, wire, BATCH_SIZES["16 KB"], sizes.fetch_bytes)
        records = wire.log_end_offset(TOPIC)
        meter = CpuMeter(broker)
        for _ in range(sizes.rounds):
            consumer = Consumer(
                {
                    **QUIET,
                    "bootstrap.servers": broker.address,
                    "group.id": "bench",
                    "enable.auto.commit": False,
                    "check.crcs": False,
                }
            )
            meter.begin()
            consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
            left = records
            while left > 0:
                got = consumer.consume(min(left, 10_000), 10)
                if not got or got[0].error():
                    raise BenchError(f"librdkafka: {left} of {records} records did not arrive")
                left -= len(got)
            meter.end()
            consumer.close()
        gigabytes = records * VALUE_BYTES / 1e9
        yield figure_of(
            "fetch, librdkafka",
            [used_s / gigabytes for used_s in meter.total_s],
            "CPU s per GB",
            None,
            f"its defaults, {meter.system_note}",
        )


def _fill(broker: Broker, wire: Wire, batch_bytes: int, total_bytes: int) -> None:
    batches = librdkafka_batches(broker, wire, batch_bytes, min(total_bytes, POOL_BYTES))
    wire.create_topic(TOPIC)
    count = max(1, total_bytes // len(batches[0]))
    wire.run(islice(cycle(produce_exchanges(wire, TOPIC, batches)), count), 5)


def _plan(wire: Wire, max_bytes: int) -> list[Exchange]:
    """Return the fetches that read the whole topic, and the sizes of their responses."""
    plan = []
    offset, end = 0, wire.log_end_offset(TOPIC)
    while offset < end:
        records, answer_bytes = fetch(wire, TOPIC, offset, max_bytes)
        plan.append(fetch_exchange(TOPIC, offset, max_bytes, answer_bytes))
        for _, header in iter_headers(records):
            offset = header.next_offset
    return plan


def _read(
    broker: Broker, wire: Wire, plan: list[Exchange], rounds: int, *, in_flight: int = 1, warm: bool = True
) -> CpuMeter:
    if warm:
        wire.run(plan, in_flight)
    meter = CpuMeter(broker)
    for _ in range(rounds):
        meter.begin()
        wire.run(plan, in_flight)
        meter.end()
    return meter


def _per_gigabyte(name: str, plan: list[Exchange], meter: CpuMeter, goal: float | None) -> Figure:
    total_bytes = sum([exchange.answer_bytes for exchange in plan])
    note = f"answers of {total_bytes / len(plan) / 1000:.0f} kB, {meter.system_note}"
    return figure_of(
        name, [used_s / (total_bytes / 1e9) for used_s in meter.total_s], "CPU s per GB", goal, note
    )


def _per_request(name: str, requests: int, meter: CpuMeter, note: str) -> Figure:
    return figure_of(
        name,
        [used_s / requests * 1e6 for used_s in meter.total_s],
        "CPU us per request",
        None,
        f"{note}, {meter.system_note}",
    )
