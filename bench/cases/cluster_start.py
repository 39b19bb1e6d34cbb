"""Start of three brokers, and their idle cost."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.broker import Launch
from bench.cluster import Cluster
from bench.figures import Figure, figure_of, rounded
from bench.meter import CpuMeter, rss_bytes
from bench.sizes import Sizes

SETTLE_SECONDS = 2.0


def cluster_start(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    fresh_ms, again_ms, stop_ms = [], [], []
    for _ in range(sizes.starts):
        with Cluster(launch) as cluster:
            fresh_ms.append(cluster.start_s * 1000)
            stop_ms.append(cluster.stop() * 1000)
            cluster.start()
            again_ms.append(cluster.start_s * 1000)
    note = "three processes at once, all of them ready"
    yield figure_of("cluster: start to ready", fresh_ms, "ms", None, f"new data directories; {note}")
    yield figure_of("cluster: again after a clean stop", again_ms, "ms", None, note)
    yield figure_of("cluster: clean stop", stop_ms, "ms", None, "all at once")
    with Cluster(launch) as cluster:
        yield figure_of(
            "cluster: memory of a broker",
            [rss_bytes(broker) / 1e6 for broker in cluster.brokers],
            "MB RSS",
        )
        yield idle_cpu(cluster, "cluster: idle CPU of a broker", sizes)


def idle_cpu(cluster: Cluster, name: str, sizes: Sizes, goal: float | None = None, note: str = "") -> Figure:
    """Return the highest idle CPU of all brokers; the note lists each."""
    time.sleep(min(SETTLE_SECONDS, sizes.idle_seconds))
    controller = cluster.controller()
    meters = [CpuMeter(broker) for broker in cluster.brokers]
    time.sleep(sizes.idle_seconds)
    used_ms = [meter.end() * 1000 / sizes.idle_seconds for meter in meters]
    each = ", ".join(
        f"{number}{' (controller)' if number == controller else ''}: {rounded(value)}"
        for number, value in enumerate(used_ms)
    )
    return Figure(name, max(used_ms), "ms per s", goal, "; ".join(filter(None, (each, note))))
