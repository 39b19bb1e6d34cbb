"""Finding a batch by offset: the cost must grow no more than that of a binary search over segments."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator
from itertools import cycle, islice

from bench.batches import librdkafka_batches
from bench.broker import Broker, Launch
from bench.figures import Figure, figure_of
from bench.meter import CpuMeter, one_core
from bench.sizes import Sizes
from bench.wire import Wire, fetch, fetch_exchange, produce_exchanges

SEGMENT_BYTES = 1_048_576  # the minimum in Kafka
BATCH_BYTES = 4096
POOL_BYTES = 4_000_000
SEED = 7


def lookup(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    with one_core(), Broker(launch) as broker, Wire(broker) as wire:
        batches = librdkafka_batches(broker, wire, BATCH_BYTES, POOL_BYTES)
        found = {}
        for segments in (sizes.segments_few, sizes.segments_many):
            topic = f"bench-{segments}"
            wire.create_topic(topic, segment_bytes=str(SEGMENT_BYTES))
            exchanges = produce_exchanges(wire, topic, batches)
            per_segment = SEGMENT_BYTES // max(map(len, batches))
            wire.run(islice(cycle(exchanges), segments * per_segment), 16)
            first_us, again_us = _look_up(broker, wire, topic, sizes)
            found[segments] = statistics.median(again_us)
            yield Figure(f"offset look-up, {segments} segments, first", first_us, "CPU us per fetch")
            yield figure_of(f"offset look-up, {segments} segments", again_us, "CPU us per fetch")
    growth = found[sizes.segments_many] / found[sizes.segments_few]
    allowed = math.log2(sizes.segments_many) / math.log2(sizes.segments_few)
    yield Figure("offset look-up, growth", growth, "x", round(allowed, 2), "goal: as a binary search grows")


def _look_up(broker: Broker, wire: Wire, topic: str, sizes: Sizes) -> tuple[float, list[float]]:
    """Fetch single batches at random offsets: the same number each round, different offsets."""
    end = wire.log_end_offset(topic)
    _, answer_bytes = fetch(wire, topic, end // 2, 1)
    draw = random.Random(SEED)
    meter = CpuMeter(broker)
    for _ in range(sizes.rounds + 1):
        # All batches have the same size, and so have all responses.
        plan = [fetch_exchange(topic, draw.randrange(end), 1, answer_bytes) for _ in range(sizes.lookups)]
        meter.begin()
        wire.run(plan)
        meter.end()
    used_us = [used_s / sizes.lookups * 1e6 for used_s in meter.total_s]
    return used_us[0], used_us[1:]
