"""Who waits for a commit, and what he is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.replicas.flusher import Flusher
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.topic_settings import TopicSettings
from ottla.config.load import broker_config
from ottla.config.topic_config import ConfigLayers
from ottla.controller.image_parts import PartitionImage
from ottla.protocol.errors import ErrorCode
from ottla.records.batch import RecordsError
from ottla.records.build import build_batch
from ottla.replication.leader import HIGH_WATERMARK_MOVED, LeaderState
from ottla.storage.files import OsFiles
from ottla.storage.log import open_log

NOW = 1_700_000_000_000


class Replicas:
    """In the place of the manager."""

    def react(self, partition: Partition, flags: int) -> None:
        assert partition.leader is not None
        if flags & HIGH_WATERMARK_MOVED:
            partition.commit(partition.leader.high_watermark)


def with_leader(directory: Path, scene: Callable[[Partition, LeaderState], Awaitable[None]]) -> None:
    async def main() -> None:
        settings = TopicSettings(ConfigLayers(broker_config({})).topic_values({}))
        log = open_log(OsFiles(), f"{directory}/t-0", settings.log, now_ms=NOW)
        executor = ThreadPoolExecutor(1)
        partition = Partition("t", b"\1" * 16, 0, log, settings.rules, Flusher(executor, lambda: NOW))
        partition.leader_epoch = 0
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
        replicas: Any = Replicas()
        partition.lead(leader, replicas)
        try:
            await scene(partition, leader)
        finally:
            executor.shutdown()
            log.abandon()

    asyncio.run(main())


def append(partition: Partition) -> None:
    partition.append(memoryview(build_batch([(NOW, None, b"value", ())])), NOW)


def fetched(partition: Partition, leader: LeaderState, offset: int) -> None:
    flags = leader.follower_fetched(2, offset, 0, partition.log.log_end_offset, -1, NOW)
    Replicas().react(partition, flags)


def test_each_is_told_when_its_own_offset_is_committed(tmp_path: Path) -> None:
    async def scene(partition: Partition, leader: LeaderState) -> None:
        for _ in range(3):
            append(partition)
        waiting = [partition.committed(offset) for offset in (1, 2, 3)]
        assert partition.written(3) is None, "the leader has it"
        fetched(partition, leader, 2)
        assert [future is not None and future.done() for future in waiting] == [True, True, False]
        assert partition.committed(2) is None
        fetched(partition, leader, 3)
        assert waiting[2] is not None and waiting[2].done()

    with_leader(tmp_path, scene)


def test_a_leader_that_leads_no_more_says_so(tmp_path: Path) -> None:
    async def scene(partition: Partition, leader: LeaderState) -> None:
        append(partition)
        waiting = partition.committed(1)
        assert waiting is not None
        partition.rest()
        with pytest.raises(RecordsError) as error:
            waiting.result()
        assert error.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not partition.is_leader

    with_leader(tmp_path, scene)


def test_an_isr_that_became_too_small_behind_the_append_is_told(tmp_path: Path) -> None:
    async def scene(partition: Partition, leader: LeaderState) -> None:
        append(partition)
        waiting = partition.committed(1)
        assert waiting is not None
        leader.high_watermark = 1
        leader.isr = leader.maximal_isr = (1,)
        partition.commit(1)
        with pytest.raises(RecordsError) as error:
            waiting.result()
        assert error.value.code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    with_leader(tmp_path, scene)


def test_followers_hear_of_appends_and_consumers_of_commits(tmp_path: Path) -> None:
    async def scene(partition: Partition, leader: LeaderState) -> None:
        heard: list[str] = []
        partition.watch(lambda: heard.append("consumer"))
        partition.watch_log(lambda: heard.append("follower"))
        append(partition)
        assert heard == ["follower"]
        fetched(partition, leader, 1)
        assert heard == ["follower", "consumer", "follower"]

    with_leader(tmp_path, scene)
