"""Waiting for a new topic before a measurement, with a fake admin client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar, cast

import pytest

import bench.cluster
from bench.broker import BenchError
from bench.peers.fleet import Fleet, Peer
from ottla.client import Admin, PartitionState, TopicState
from ottla.client.errors import broker_error
from ottla.protocol.errors import ErrorCode

T = TypeVar("T")
TOPIC = "new"


class NewlyLed:
    """Metadata has the leader at once; the leader rejects some requests before it serves."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.offsets_asked = 0

    async def describe_topic_partitions(self, topics: list[str]) -> dict[str, TopicState]:
        partition = PartitionState(0, 0, 0, (0,), (0,), (), (), ())
        return {topic: TopicState(topic, bytes(16), False, {0: partition}) for topic in topics}

    async def offsets_of(self, topic: str) -> dict[int, tuple[int, int]]:
        self.offsets_asked += 1
        if self.offsets_asked <= self.refusals:
            raise broker_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, topic=topic, partition=0)
        return {0: (0, 0)}


class AskedFleet(Fleet):
    def __init__(self, admin: NewlyLed, directory: Path) -> None:
        super().__init__(Peer("Kafka", str(directory)), 1, {})
        self._admin = admin

    def ask(self, question: Callable[[Admin], Awaitable[T]]) -> T:
        async def main() -> T:
            return await question(cast("Admin", self._admin))

        return asyncio.run(main())


def test_a_new_topic_is_waited_for_until_its_leader_serves(tmp_path: Path) -> None:
    admin = NewlyLed(refusals=2)
    AskedFleet(admin, tmp_path).await_in_sync(TOPIC)
    assert admin.offsets_asked == 3


def test_a_topic_that_is_never_served_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.cluster, "AWAIT_SECONDS_MAX", 0.05)
    with pytest.raises(BenchError, match="new served by its leaders"):
        AskedFleet(NewlyLed(refusals=1_000_000), tmp_path).await_in_sync(TOPIC)
