"""Compaction: CPU per GB read, and how long it stalls the event loop."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from bench.broker import BenchError, Launch
from bench.figures import Figure, figure_of
from bench.sizes import Sizes
from ottla.records.build import build_batch
from ottla.records.compression import CODEC_BY_NAME
from ottla.storage.cleaning.job import DONE, CleanJob, CleanSettings
from ottla.storage.cleaning.plan import plan_clean
from ottla.storage.files import OsFiles
from ottla.storage.log import PartitionLog, open_log
from ottla.storage.log_config import LogConfig
from ottla.storage.segments.swap import CleanedGroup

UNIT = "CPU s per GB"
SEGMENT_BYTES = 16 << 20
KEYS = 20_000
LOOK_S = 0.001
GOAL_STALL_MS = 5.0
SHAPES = (
    # name, records per batch, bytes of a value, codec, goal
    ("1 record of 150 bytes per batch", 1, 150, "none", 12.0),
    ("100 records of 100 bytes per batch", 100, 100, "none", 10.0),
    ("16 records of 1 KB per batch", 16, 1000, "none", 3.0),
    ("100 records of 100 bytes per batch, lz4", 100, 100, "lz4", None),
    ("100 records of 100 bytes per batch, zstd", 100, 100, "zstd", None),
)


def cleaning(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    nbytes = max(2 * SEGMENT_BYTES // 16, sizes.fetch_bytes // 4)
    stalls = []
    for name, records, value_bytes, codec, goal in SHAPES:
        used, kept = [], 0.0
        for _ in range(min(3, sizes.rounds)):
            cpu_s, stall_ms, read_bytes, left_bytes = _clean_once(
                launch.data_root, nbytes, records, value_bytes, CODEC_BY_NAME[codec]
            )
            used.append(cpu_s / read_bytes * 1e9)
            stalls.append(stall_ms)
            kept = left_bytes / read_bytes
        yield figure_of(f"clean, {name}", used, UNIT, goal, f"{kept:.0%} left")
    note = f"an idle loop: {_idle_stall_ms():.1f}"
    yield Figure("longest wait of the event loop", max(stalls), "ms", GOAL_STALL_MS, note)


def _clean_once(
    root: str, nbytes: int, records: int, value_bytes: int, codec: int
) -> tuple[float, float, int, int]:
    """Return (CPU s, longest stall in ms, bytes before, bytes after)."""
    directory = tempfile.mkdtemp(prefix="ottla-bench-", dir=root)
    try:
        log = _filled(f"{directory}/topic-0", nbytes, records, value_bytes, codec)
        plan = plan_clean(log, log.log_end_offset, int(time.time() * 1000))
        if not plan.dirty_bytes:
            raise BenchError("nothing to clean")
        job = log.cleaning = CleanJob(log, plan, CleanSettings(secret=os.urandom(16)), 0)
        began_s = time.process_time()
        stall_ms = asyncio.run(_run(log, job))
        used_s = time.process_time() - began_s
        log.abandon()
        return used_s, stall_ms, job.bytes_before, job.bytes_after
    finally:
        shutil.rmtree(directory)


def _filled(directory: str, nbytes: int, records: int, value_bytes: int, codec: int) -> PartitionLog:
    config = LogConfig({"cleanup.policy": "compact", "segment.bytes": SEGMENT_BYTES})
    log = open_log(OsFiles(), directory, config, now_ms=0)
    values = [
        os.urandom(value_bytes // 2).hex().encode() for _ in range(997)
    ]  # compresses to half, like JSON
    number = 0
    while log.size_bytes < nbytes:
        group = bytearray()
        while len(group) < 1 << 20:
            rows = [
                (0, b"key %d" % (at * 7919 % KEYS), values[at % 997], ())
                for at in range(number, number + records)
            ]
            group += build_batch(rows, codec=codec)
            number += records
        log.append_internal(group, 0, 0)
    log.roll(0)
    log.flush(0)
    return log


async def _run(log: PartitionLog, job: CleanJob) -> float:
    loop = asyncio.get_running_loop()
    watch = _Watch()
    watching = loop.create_task(watch.run())
    with ThreadPoolExecutor(1) as executor:
        while (step := await loop.run_in_executor(executor, job.step)) is not DONE:
            if isinstance(step, CleanedGroup):
                log.replace_segments(step, 0)
    watch.stopping = True
    await watching
    return watch.longest_s * 1000


class _Watch:
    """A timer of one millisecond that records its longest delay."""

    def __init__(self) -> None:
        self.stopping = False
        self.longest_s = 0.0

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while not self.stopping:
            due_s = loop.time() + LOOK_S
            await asyncio.sleep(LOOK_S)
            self.longest_s = max(self.longest_s, loop.time() - due_s)


def _idle_stall_ms() -> float:
    async def idle() -> float:
        watch = _Watch()
        task = asyncio.get_running_loop().create_task(watch.run())
        await asyncio.sleep(1)
        watch.stopping = True
        await task
        return watch.longest_s * 1000

    return asyncio.run(idle())
