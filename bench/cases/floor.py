"""The cost of the simplest server on this machine: a lower bound for the other figures.

It also helps to distinguish a noisy or slow machine from a slow broker when runs are compared.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import repeat
from types import TracebackType
from typing import Self

from bench.broker import Launch
from bench.figures import Figure, figure_of
from bench.floor_server import ANSWER, REQUEST_BYTES
from bench.meter import CpuMeter, one_core, ready_page_cache
from bench.sizes import Sizes
from bench.wire import Exchange, Wire

SERVER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "floor_server.py")
# Like batches, not a multiple of the page size, which costs the kernel more.
STORE_SIZES = {"16 KB": 15_600, "64 KB": 65_100, "1 MB": 999_900}
ONE_RECORD_BYTES = 1150
SEND_BYTES = 1_048_576
LOOP_COUNT = 1_000_000


class FloorServer:
    def __init__(self, kind: str, path: str, nbytes: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", SERVER, kind, path, str(nbytes)], stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode()
        host, _, port = line.split()[2].rpartition(":")
        self._address = host, int(port)

    @property
    def host_and_port(self) -> tuple[str, int]:
        return self._address

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def floor(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    yield figure_of("floor: Python, an empty loop", [_loop_ns() for _ in range(5)], "ns per turn")
    with tempfile.TemporaryDirectory(prefix="ottla-bench-floor-", dir=launch.data_root) as directory:
        path = os.path.join(directory, "file")
        for name, frame_bytes in STORE_SIZES.items():
            count = max(1, sizes.produce_bytes // frame_bytes)
            used = stored(path, frame_bytes, count, sizes.produce_rounds, in_flight=5)
            gigabytes = count * frame_bytes / 1e9
            yield figure_of(
                f"floor: receive and append {name}", [used_s / gigabytes for used_s in used], "CPU s per GB"
            )
        with one_core():
            used = stored(path, ONE_RECORD_BYTES, sizes.requests, sizes.rounds, in_flight=1)
        yield figure_of(
            "floor: receive and append one record, alone",
            [used_s / sizes.requests * 1e6 for used_s in used],
            "CPU us per request",
        )
        used = stored(path, ONE_RECORD_BYTES * 16, sizes.requests // 16, sizes.rounds, in_flight=4, group=16)
        yield figure_of(
            "floor: receive and append one record, pipelined",
            [used_s / (sizes.requests // 16 * 16) * 1e6 for used_s in used],
            "CPU us per request",
        )


def _loop_ns() -> float:
    began_s = time.process_time()
    for _ in range(LOOP_COUNT):
        pass
    return (time.process_time() - began_s) / LOOP_COUNT * 1e9


def stored(
    path: str, send_bytes: int, count: int, rounds: int, *, in_flight: int, group: int = 1
) -> list[float]:
    exchange = Exchange(os.urandom(send_bytes), len(ANSWER) * group)
    with FloorServer("store", path, send_bytes // group) as server, Wire(server) as wire:
        wire.run(repeat(exchange, max(1, count // 4)), in_flight)
        meter = CpuMeter(server)
        for _ in range(rounds):
            ready_page_cache(os.path.dirname(path), count * send_bytes * 2, send_bytes // group)
            meter.begin()
            wire.run(repeat(exchange, count), in_flight)
            meter.end()
    os.unlink(path)
    return meter.total_s


def sent_file(path: str, total_bytes: int, rounds: int) -> list[float]:
    """Return CPU seconds per GB for sending the file in chunks of 1 MB until `total_bytes` are sent."""
    exchange = Exchange(bytes(REQUEST_BYTES), SEND_BYTES)
    count = max(1, total_bytes // SEND_BYTES)
    with FloorServer("send", path, SEND_BYTES) as server, Wire(server) as wire:
        wire.run(repeat(exchange, count))
        meter = CpuMeter(server)
        for _ in range(rounds):
            meter.begin()
            wire.run(repeat(exchange, count))
            meter.end()
    gigabytes = count * SEND_BYTES / 1e9
    return [used_s / gigabytes for used_s in meter.total_s]
