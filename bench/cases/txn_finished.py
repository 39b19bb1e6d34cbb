"""Finished transactions: neither memory nor the cost of writes and reads grows with their number."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from bench.batches import VALUE_BYTES
from bench.broker import Broker, Launch
from bench.figures import Figure, figure_of
from bench.meter import CpuMeter, rss_bytes
from bench.sizes import Sizes
from bench.txn_wire import TxnProducer, coordinator_of, transactional_batch
from bench.wire import CLIENT_ID, Exchange, Wire, fetch_message, joined, produce_exchanges
from ottla.protocol.frames import encode_request
from ottla.protocol.messages.fetch_response import FetchResponse
from ottla.records.build import build_batch

TOPIC = "bench"
FEW = 10
GROUP = 10
IN_FLIGHT = 4
FETCH_VERSION = 12
GROWTH_GOAL = 1.2
MEMORY_GOAL_MB = 8.0
WINDOW = 64


def finished(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    """Use one producer and one partition; abort every second transaction."""
    many = sizes.finished_transactions
    with Broker(launch) as broker, Wire(broker) as wire:
        coordinator_of(wire, "bench")
        wire.create_topic(TOPIC, 1)
        producer = TxnProducer(wire, wire, "bench", TOPIC, [transactional_batch(1, 64)])
        _run(producer, FEW)
        _costs(broker, wire, sizes)  # warm
        few = _costs(broker, wire, sizes)
        # Memory that Python allocates for its first thousands of objects does not count.
        _run(producer, many // 10)
        before_mb = rss_bytes(broker) / 1e6
        _run(producer, many - many // 10)
        grown_mb = rss_bytes(broker) / 1e6 - before_mb
        after = _costs(broker, wire, sizes)
    name = f"{many:,} finished transactions"
    note = f"from {many // 10:,} on; every second one aborted; {grown_mb * 1e6 / many:.0f} bytes each"
    yield Figure(f"{name}: memory, growth", max(0.0, grown_mb), "MB", MEMORY_GOAL_MB, note)
    for what, (first, last) in zip(
        ("produce", "read_committed fetch"), zip(few, after, strict=True), strict=True
    ):
        ratios = [each / statistics.median(first) for each in last]
        costs_us = statistics.median(first), statistics.median(last)
        note = f"{costs_us[0]:.1f} us of CPU after {FEW}, {costs_us[1]:.1f} us after all"
        yield figure_of(f"{name}: {what}, growth", ratios, "times", GROWTH_GOAL, note)


def _run(producer: TxnProducer, count: int) -> None:
    for number in range(count):
        producer.transaction(commit=number % 2 == 0)


def _costs(broker: Broker, wire: Wire, sizes: Sizes) -> tuple[list[float], list[float]]:
    """Return the CPU us of a produce of one record and of a fetch of the last one, for each round."""
    batch = build_batch([(0, None, bytes(VALUE_BYTES), ())])
    produces = joined(produce_exchanges(wire, TOPIC, [bytes(batch)] * WINDOW), GROUP)
    wrote = _measured(broker, wire, produces, sizes)
    message = fetch_message(TOPIC, wire.log_end_offset(TOPIC) - 1, 100_000)
    message.isolation_level = 1
    answer, answer_bytes = wire.call_sized(FETCH_VERSION, message, FetchResponse)
    assert answer.responses[0].partitions[0].records, "the last record was not returned"
    frame = encode_request(FETCH_VERSION, 1, CLIENT_ID, message)
    fetches = joined([Exchange(frame, answer_bytes)] * WINDOW, GROUP)
    return wrote, _measured(broker, wire, fetches, sizes)


def _measured(broker: Broker, wire: Wire, exchanges: Sequence[Exchange], sizes: Sizes) -> list[float]:
    times = max(1, sizes.requests // (len(exchanges) * GROUP))
    meter = CpuMeter(broker)
    for _ in range(sizes.rounds):
        meter.begin()
        wire.run(list(exchanges) * times, IN_FLIGHT)
        meter.end()
    return [used_s / (times * len(exchanges) * GROUP) * 1e6 for used_s in meter.total_s]
