"""Start of a broker, and its idle cost."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.broker import Broker, Launch
from bench.figures import Figure, figure_of
from bench.meter import CpuMeter, rss_bytes
from bench.sizes import Sizes

SETTLE_SECONDS = 1.0


def start(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    with Broker(launch):
        pass  # writes the bytecode and fills the page cache, as the first start after an installation does
    fresh_ms, again_ms, rss_mb = [], [], []
    for _ in range(sizes.starts):
        with Broker(launch) as broker:
            fresh_ms.append(broker.start_s * 1000)
            rss_mb.append(rss_bytes(broker) / 1e6)
            broker.stop()
            broker.start()
            again_ms.append(broker.start_s * 1000)
    yield figure_of("start: process start to ready", fresh_ms, "ms", 150, "new data directory")
    yield figure_of("start: again after a clean stop", again_ms, "ms", 150)
    with Broker(launch) as broker:
        time.sleep(min(SETTLE_SECONDS, sizes.idle_seconds))
        meter = CpuMeter(broker)
        time.sleep(sizes.idle_seconds)
        meter.end()
        rss_mb.append(rss_bytes(broker) / 1e6)
        yield figure_of("idle: memory", rss_mb, "MB RSS", 45)
        yield Figure("idle: CPU", meter.total_s[0] * 1000 / sizes.idle_seconds, "ms per s")
