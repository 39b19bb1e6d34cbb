"""flush.messages and flush.ms, with a disk whose syncs the test releases."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ottla.broker.io_threads import IoThreads
from ottla.broker.replicas.flush_queue import BACKGROUND_FLUSHES_MAX, FLUSHES_MAX
from ottla.broker.replicas.flusher import Flusher
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.topic_settings import TopicSettings
from ottla.config.load import broker_config
from ottla.config.topic_config import ConfigLayers
from ottla.records.build import build_batch
from ottla.storage.errors import StorageError
from ottla.storage.files import OsFiles
from ottla.storage.log import open_log
from tests.support.broker.background import strict_tasks
from tests.support.waiting import wait_until_async

NOW = 1_700_000_000_000


class SlowDisk(ThreadPoolExecutor):
    """Runs each job when the test releases it."""

    def __init__(self, threads: int = 1) -> None:
        super().__init__(threads)
        self.gate = threading.Semaphore(0)
        self.jobs = 0

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        self.jobs += 1

        def gated():  # type: ignore[no-untyped-def]
            self.gate.acquire()
            return fn(*args, **kwargs)

        return super().submit(gated)


def threads_of(disks: dict[str, SlowDisk]) -> IoThreads:
    """Flushes of each directory run on its disk."""
    flushing = {f"flush-{number}": disk for number, disk in enumerate(disks.values())}
    return IoThreads(disks, lambda name, threads: flushing.get(name) or ThreadPoolExecutor(1))


def batch() -> memoryview:
    return memoryview(build_batch([(NOW, None, b"value", ())]))


def run_with_partition(
    directory: object, overrides: dict[str, str], scenario: Callable[[Partition, SlowDisk], Awaitable[None]]
) -> None:
    async def main() -> None:
        disk = SlowDisk()
        settings = TopicSettings(ConfigLayers(broker_config({})).topic_values(overrides))
        log = open_log(OsFiles(), f"{directory}/t-0", settings.log, now_ms=NOW)
        flusher = Flusher(threads_of({str(directory): disk}), lambda: NOW, strict_tasks())
        events: Any = None  # used by replicated partitions only
        partition = Partition("t", b"\1" * 16, 0, log, settings.rules, flusher, events)
        partition.make_leader(1, 0, None)
        try:
            await asyncio.wait_for(scenario(partition, disk), 10)
        finally:
            disk.gate.release(100)
            disk.shutdown()
            log.abandon()

    asyncio.run(main())


def test_without_a_flush_policy_records_are_committed_at_once(tmp_path: object) -> None:
    async def scenario(partition: Partition, disk: SlowDisk) -> None:
        partition.append(batch(), NOW)
        assert partition.high_watermark == 1 and disk.jobs == 0

    run_with_partition(tmp_path, {}, scenario)


def test_flush_messages_delays_the_commit_until_the_sync(tmp_path: object) -> None:
    async def scenario(partition: Partition, disk: SlowDisk) -> None:
        partition.append(batch(), NOW)
        committed = asyncio.get_running_loop().create_future()
        assert partition.when_committed(1, committed)
        await wait_until_async(lambda: disk.jobs == 1)
        assert partition.high_watermark == 0 and not committed.done()
        disk.gate.release()
        await committed
        assert partition.high_watermark == 1 and partition.log.recovery_point == 1

    run_with_partition(tmp_path, {"flush.messages": "1"}, scenario)


def test_appends_during_a_flush_share_the_next_one(tmp_path: object) -> None:
    async def scenario(partition: Partition, disk: SlowDisk) -> None:
        partition.append(batch(), NOW)
        await wait_until_async(lambda: disk.jobs == 1)
        for _ in range(50):
            partition.append(batch(), NOW)
        disk.gate.release(2)
        committed = asyncio.get_running_loop().create_future()
        assert partition.when_committed(51, committed)
        await committed
        assert disk.jobs == 2 and partition.log.recovery_point == 51

    run_with_partition(tmp_path, {"flush.messages": "1"}, scenario)


def test_records_below_the_threshold_are_committed_after_an_earlier_flush(tmp_path: object) -> None:
    async def scenario(partition: Partition, disk: SlowDisk) -> None:
        for _ in range(3):
            partition.append(batch(), NOW)
        await wait_until_async(lambda: disk.jobs == 1)
        assert partition.high_watermark == 2
        partition.append(batch(), NOW)  # after one that waits: commits keep the order of offsets
        assert partition.high_watermark == 2
        disk.gate.release()
        await wait_until_async(lambda: partition.high_watermark == 4)

    run_with_partition(tmp_path, {"flush.messages": "3"}, scenario)


def test_flush_ms_flushes_in_the_background(tmp_path: object) -> None:
    async def scenario(partition: Partition, disk: SlowDisk) -> None:
        partition.append(batch(), NOW)
        assert partition.high_watermark == 1
        disk.gate.release()
        await wait_until_async(lambda: partition.log.recovery_point == 1)

    run_with_partition(tmp_path, {"flush.ms": "10"}, scenario)


def test_a_failed_sync_fails_the_acknowledgement(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(partition: Partition, disk: SlowDisk) -> None:
        from ottla.storage.log.flush_job import FlushJob

        def fail(job: FlushJob) -> None:
            job.error = StorageError("t-0", "the disk is gone")

        monkeypatch.setattr(FlushJob, "run", fail)
        partition.append(batch(), NOW)
        committed = asyncio.get_running_loop().create_future()
        assert partition.when_committed(1, committed)
        disk.gate.release()
        with pytest.raises(StorageError):
            await committed
        assert partition.high_watermark == 0

    run_with_partition(tmp_path, {"flush.messages": "1"}, scenario)
    assert any("flush failed" in record.getMessage() for record in caplog.records)


class Group:
    """Partitions in several directories, with one slow disk per directory."""

    def __init__(self, root: object, directories: int, partitions: int, overrides: dict[str, str]) -> None:
        self.disks = {f"{root}/disk-{number}": SlowDisk(4) for number in range(directories)}
        settings = TopicSettings(ConfigLayers(broker_config({})).topic_values(overrides))
        self.flusher = Flusher(threads_of(self.disks), lambda: NOW, strict_tasks())
        self.partitions: dict[str, list[Partition]] = {path: [] for path in self.disks}
        events: Any = None
        for path, hosted in self.partitions.items():
            for index in range(partitions):
                log = open_log(OsFiles(), f"{path}/t-{index}", settings.log, now_ms=NOW)
                partition = Partition("t", b"\1" * 16, index, log, settings.rules, self.flusher, events)
                partition.make_leader(1, 0, None)
                hosted.append(partition)

    def close(self) -> None:
        for path, disk in self.disks.items():
            disk.gate.release(1000)
            disk.shutdown()
            for partition in self.partitions[path]:
                partition.log.abandon()


def run_with_group(group: Group, scenario: Callable[[Group], Awaitable[None]]) -> None:
    async def main() -> None:
        try:
            await asyncio.wait_for(scenario(group), 20)
        finally:
            group.close()

    asyncio.run(main())


def test_a_slow_directory_does_not_delay_another(tmp_path: object) -> None:
    async def scenario(group: Group) -> None:
        (slow, fast), (slow_disk, fast_disk) = group.partitions.values(), group.disks.values()
        for partition in slow:
            partition.append(batch(), NOW)
        await wait_until_async(lambda: slow_disk.jobs > 0)
        fast_disk.gate.release(100)
        for partition in fast:
            partition.append(batch(), NOW)
        await wait_until_async(lambda: all(each.high_watermark == 1 for each in fast))
        assert not any(each.high_watermark for each in slow)
        slow_disk.gate.release(100)
        await wait_until_async(lambda: all(each.high_watermark == 1 for each in slow))

    run_with_group(Group(tmp_path, 2, 8, {"flush.messages": "1"}), scenario)


def test_waiting_flushes_hold_no_descriptors_and_take_later_appends_along(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(group: Group) -> None:
        (partitions,), (disk,) = group.partitions.values(), group.disks.values()
        for partition in partitions:
            partition.append(batch(), NOW)
        await wait_until_async(lambda: disk.jobs == FLUSHES_MAX)
        for _ in range(3):
            await asyncio.sleep(0.01)
            assert disk.jobs == FLUSHES_MAX, "the others have not begun"
        last = partitions[-1]
        last.append(batch(), NOW)
        disk.gate.release(len(partitions))
        await wait_until_async(lambda: last.high_watermark == 2)
        await wait_until_async(lambda: disk.jobs == len(partitions))
        await group.flusher.drain()
        assert disk.jobs == len(partitions), "the append that came while it waited needed no flush of its own"

    run_with_group(Group(tmp_path, 1, 12, {"flush.messages": "1"}), scenario)


def test_flushes_of_closed_segments_leave_room_for_acknowledgements(tmp_path: object) -> None:
    async def scenario(group: Group) -> None:
        (partitions,), (disk,) = group.partitions.values(), group.disks.values()
        *rolled, written = partitions
        for partition in rolled:
            partition.append(batch(), NOW)
            group.flusher.flush(partition, background=True)
        await wait_until_async(lambda: disk.jobs == BACKGROUND_FLUSHES_MAX)
        written.append(batch(), NOW)
        written.append(batch(), NOW)
        await wait_until_async(lambda: disk.jobs == BACKGROUND_FLUSHES_MAX + 1)
        disk.gate.release(2)
        await wait_until_async(lambda: written.high_watermark == 2)
        assert sum(each.log.recovery_point for each in rolled) <= 2
        disk.gate.release(100)
        await wait_until_async(lambda: all(each.log.recovery_point for each in rolled))

    run_with_group(Group(tmp_path, 1, 10, {"flush.messages": "2"}), scenario)
