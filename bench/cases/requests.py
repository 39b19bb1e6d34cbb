"""Broker CPU per produce request with one record: the fixed cost of a request."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice

from bench.batches import ONE_RECORD, VALUE_BYTES, librdkafka_batches
from bench.broker import BenchError, Broker, Launch
from bench.figures import Figure, figure_of
from bench.meter import CpuMeter, one_core, ready_page_cache
from bench.sizes import Sizes
from bench.wire import Wire, joined, produce_exchanges

TOPIC = "bench"
DISTINCT = 512
GROUP = 16  # requests per send
IN_FLIGHT = 64


def alone(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    """Each request waits for the previous response."""
    with one_core():
        figure = _measure(launch, sizes, "produce one record, alone", 25, group=1, in_flight=1)
    yield figure


def pipelined(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    yield _measure(launch, sizes, "produce one record, pipelined", 8, group=GROUP, in_flight=IN_FLIGHT)


def _measure(
    launch: Launch, sizes: Sizes, name: str, goal_us: float, *, group: int, in_flight: int
) -> Figure:
    with Broker(launch) as broker, Wire(broker) as wire:
        batches = librdkafka_batches(broker, wire, ONE_RECORD, DISTINCT * VALUE_BYTES)
        wire.create_topic(TOPIC)
        exchanges = joined(produce_exchanges(wire, TOPIC, batches), group)
        sends = max(1, sizes.requests // group)
        window = max(1, in_flight // group)
        wire.run(islice(cycle(exchanges), max(1, sends // 4)), window)
        meter = CpuMeter(broker)
        before = wire.log_end_offset(TOPIC)
        for _ in range(sizes.rounds):
            ready_page_cache(broker.directory, sends * group * len(batches[0]) * 2, len(batches[0]))
            meter.begin()
            wire.run(islice(cycle(exchanges), sends), window)
            meter.end()
        appended = wire.log_end_offset(TOPIC) - before
        if appended != sizes.rounds * sends * group:
            raise BenchError(f"{appended} records were appended, not {sizes.rounds * sends * group}")
    note = f"{in_flight} in flight, acks=1, {meter.system_note}"
    return figure_of(
        name,
        [used_s / (sends * group) * 1e6 for used_s in meter.total_s],
        "CPU us per request",
        goal_us,
        note,
    )
