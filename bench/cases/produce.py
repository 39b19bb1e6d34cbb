"""Broker CPU per gigabyte of 1 KB records, by batch size."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice

from bench.batches import (
    BATCH_SIZES,
    POOL_BYTES,
    VALUE_BYTES,
    average_batch_bytes,
    librdkafka_batches,
    produce_records,
    producer,
    values,
)
from bench.broker import BenchError, Broker, Launch
from bench.figures import Figure, figure_of
from bench.meter import CpuMeter, ready_page_cache
from bench.sizes import Sizes
from bench.wire import Wire, produce_exchanges

GOALS = {"16 KB": 1.4, "64 KB": 0.8, "1 MB": 0.8}
TOPIC = "bench"
IN_FLIGHT = 5  # default of the Java client; librdkafka allows more


def produce_librdkafka(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    """A librdkafka producer with its defaults on one connection, as the goal is stated."""
    records = sizes.produce_bytes // VALUE_BYTES
    pool = values()
    for name, batch_bytes in BATCH_SIZES.items():
        with Broker(launch) as broker, Wire(broker) as wire:
            wire.create_topic(TOPIC)
            client = producer(broker, batch_bytes)
            produce_records(client, TOPIC, pool, max(10, records // 4))  # connect and warm up
            meter = CpuMeter(broker)
            for _ in range(sizes.produce_rounds):
                ready_page_cache(broker.directory, sizes.produce_bytes * 2, batch_bytes)
                meter.begin()
                produce_records(client, TOPIC, pool, records)
                meter.end()
            average = average_batch_bytes(broker, TOPIC)
        gigabytes = records * VALUE_BYTES / 1e9
        note = f"batches of {average / 1000:.1f} kB, {meter.system_note}"
        yield figure_of(
            f"produce {name}, librdkafka",
            [used_s / gigabytes for used_s in meter.total_s],
            "CPU s per GB",
            GOALS[name],
            note,
        )


def produce_wire(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    """The same batches as prepared frames on a raw socket, so that the client is not the bottleneck."""
    for name, batch_bytes in BATCH_SIZES.items():
        with Broker(launch) as broker, Wire(broker) as wire:
            pool_bytes = min(POOL_BYTES, sizes.produce_bytes)
            batches = librdkafka_batches(broker, wire, batch_bytes, pool_bytes)
            wire.create_topic(TOPIC)
            exchanges = produce_exchanges(wire, TOPIC, batches)
            per_round = max(1, sizes.produce_bytes // len(batches[0]))
            wire.run(islice(cycle(exchanges), per_round // 4), IN_FLIGHT)
            meter = CpuMeter(broker)
            for _ in range(sizes.produce_rounds):
                ready_page_cache(broker.directory, sizes.produce_bytes * 2, batch_bytes)
                meter.begin()
                wire.run(islice(cycle(exchanges), per_round), IN_FLIGHT)
                meter.end()
            if wire.log_end_offset(TOPIC) < sizes.produce_rounds * per_round:
                raise BenchError("not every batch was appended")
            average = sum(map(len, batches)) / len(batches)
        gigabytes = per_round * average / 1e9
        note = f"{IN_FLIGHT} in flight, batches of {average / 1000:.1f} kB, {meter.system_note}"
        yield figure_of(
            f"produce {name}, wire",
            [used_s / gigabytes for used_s in meter.total_s],
            "CPU s per GB",
            GOALS[name],
            note,
        )
