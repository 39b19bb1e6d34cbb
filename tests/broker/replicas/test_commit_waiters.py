"""Partition.when_committed: when waiters complete, and with which error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ottla.broker.io_threads import IoThreads
from ottla.broker.replicas.flusher import Flusher
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.topic_settings import TopicSettings
from ottla.config.load import broker_config
from ottla.config.topic_config import ConfigLayers
from ottla.controller.image.parts import PartitionImage
from ottla.protocol.errors import ErrorCode
from ottla.records.batch import RecordsError
from ottla.records.build import build_batch
from ottla.replication.leader import LeaderState
from ottla.storage.files import OsFiles
from ottla.storage.log import open_log
from tests.support.broker.background import strict_tasks

NOW = 1_700_000_000_000


class NoEvents:
    """Fake replica manager."""

    def isr_change_wanted(self, partition: Partition) -> None: ...

    def follower_may_fetch(self, partition: Partition) -> None: ...


def with_leader(directory: Path, scenario: Callable[[Partition, LeaderState], Awaitable[None]]) -> None:
    async def main() -> None:
        settings = TopicSettings(ConfigLayers(broker_config({})).topic_values({}))
        log = open_log(OsFiles(), f"{directory}/t-0", settings.log, now_ms=NOW)
        executor = ThreadPoolExecutor(1)
        flusher = Flusher(IoThreads([str(directory)], lambda *_: executor), lambda: NOW, strict_tasks())
        partition = Partition("t", b"\1" * 16, 0, log, settings.rules, flusher, NoEvents())
        state = PartitionImage()
        state.leader, state.replicas, state.isr = 1, (1, 2, 3), (1, 2)
        leader = LeaderState(
            1,
            state,
            log_start_offset=0,
            log_end_offset=0,
            high_watermark=0,
            min_isr=2,
            lag_time_max_ms=1000,
            eligible=lambda *_: True,
            now_ms=NOW,
        )
        partition.make_leader(1, 0, leader)
        try:
            await scenario(partition, leader)
        finally:
            executor.shutdown()
            log.abandon()

    asyncio.run(main())


def append(partition: Partition) -> None:
    partition.append(memoryview(build_batch([(NOW, None, b"value", ())])), NOW)


def fetched(partition: Partition, leader: LeaderState, offset: int) -> None:
    flags = leader.follower_fetched(2, offset, 0, partition.log.log_end_offset, -1, NOW)
    partition.react(flags)


def committed(partition: Partition, end_offset: int, *, local: bool = False) -> asyncio.Future[None] | None:
    """A future of the commit, None if it has happened."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    return future if partition.when_committed(end_offset, future, local=local) else None


def test_each_waiter_completes_with_its_own_offset(tmp_path: Path) -> None:
    async def scenario(partition: Partition, leader: LeaderState) -> None:
        for _ in range(3):
            append(partition)
        waiting = [committed(partition, offset) for offset in (1, 2, 3)]
        assert committed(partition, 3, local=True) is None, "the leader has it"
        fetched(partition, leader, 2)
        assert [future is not None and future.done() for future in waiting] == [True, True, False]
        assert committed(partition, 2) is None
        fetched(partition, leader, 3)
        assert waiting[2] is not None and waiting[2].done()

    with_leader(tmp_path, scenario)


def test_waiters_fail_when_leadership_ends(tmp_path: Path) -> None:
    async def scenario(partition: Partition, leader: LeaderState) -> None:
        append(partition)
        waiting = committed(partition, 1)
        assert waiting is not None
        partition.make_leaderless(1)
        with pytest.raises(RecordsError) as error:
            waiting.result()
        assert error.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not partition.is_leader

    with_leader(tmp_path, scenario)


def test_waiters_fail_when_the_isr_shrinks_after_the_append(tmp_path: Path) -> None:
    async def scenario(partition: Partition, leader: LeaderState) -> None:
        append(partition)
        waiting = committed(partition, 1)
        assert waiting is not None
        leader.high_watermark = 1
        leader.isr = leader.maximal_isr = (1,)
        partition.commit(1)
        with pytest.raises(RecordsError) as error:
            waiting.result()
        assert error.value.code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    with_leader(tmp_path, scenario)


def test_followers_are_woken_by_appends_and_consumers_by_commits(tmp_path: Path) -> None:
    async def scenario(partition: Partition, leader: LeaderState) -> None:
        woken: list[str] = []
        partition.watch(lambda: woken.append("consumer"))
        partition.watch_log(lambda: woken.append("follower"))
        append(partition)
        assert woken == ["follower"]
        fetched(partition, leader, 1)
        assert woken == ["follower", "consumer", "follower"]

    with_leader(tmp_path, scenario)
