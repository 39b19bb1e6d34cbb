"""Many partitions on one node: start time, memory and idle CPU."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.broker import BenchError, Broker, Launch
from bench.figures import Figure, figure_of
from bench.meter import CpuMeter, rss_bytes
from bench.sizes import Sizes
from bench.wire import Wire
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.messages.metadata_response import MetadataResponse

METADATA_VERSION = 12
SETTLE_SECONDS = 2.0
STARTS = 3


def partitions(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    total = sizes.topics * sizes.partitions_per_topic
    name = f"{total:,} partitions"
    with Broker(launch) as broker:
        with Wire(broker) as wire:
            meter = CpuMeter(broker)
            began_s = time.perf_counter()
            for topic in range(sizes.topics):
                wire.create_topic(f"many-{topic}", sizes.partitions_per_topic)
            took_s = time.perf_counter() - began_s
            meter.end()
        note = f"{sizes.topics} requests, {meter.total_s[0]:.2f} s CPU, {meter.system_note}"
        yield Figure(f"{name}: create", took_s, "s", None, note)
        stops_s, starts_s = [], []
        for _ in range(min(STARTS, sizes.starts)):
            stops_s.append(broker.stop())
            broker.start()
            starts_s.append(broker.start_s)
        yield figure_of(f"{name}: clean stop", stops_s, "s")
        yield figure_of(f"{name}: start after a clean stop", starts_s, "s", 5)
        time.sleep(min(SETTLE_SECONDS, sizes.idle_seconds))
        yield Figure(f"{name}: memory", rss_bytes(broker) / 1e6, "MB RSS", 300)
        meter = CpuMeter(broker)
        time.sleep(sizes.idle_seconds)
        meter.end()
        yield Figure(f"{name}: idle CPU", meter.total_s[0] * 1000 / sizes.idle_seconds, "ms per s")
        yield from _metadata(broker, name, total, sizes.rounds)
        yield Figure(f"{name}: memory after metadata", rss_bytes(broker) / 1e6, "MB RSS", 300)


def _metadata(broker: Broker, name: str, total: int, rounds: int) -> Iterator[Figure]:
    took_ms, cpu_ms = [], []
    answer_bytes = 0
    with Wire(broker) as wire:
        for _ in range(rounds + 1):
            meter = CpuMeter(broker)
            began_s = time.perf_counter()
            answer, answer_bytes = wire.call_sized(
                METADATA_VERSION, MetadataRequest(topics=None), MetadataResponse
            )
            took_ms.append((time.perf_counter() - began_s) * 1000)
            cpu_ms.append(meter.end() * 1000)
            found = sum([len(topic.partitions) for topic in answer.topics])
            if found != total:
                raise BenchError(f"Metadata contains {found} partitions, not {total}")
    note = f"answer of {answer_bytes / 1000:.0f} kB; the time includes decoding by the client"
    yield figure_of(f"{name}: metadata of all", took_ms[1:], "ms", None, note)
    yield figure_of(f"{name}: metadata of all, CPU", cpu_ms[1:], "CPU ms")
