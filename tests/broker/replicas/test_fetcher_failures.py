"""An unexpected exception while a response of the leader is applied ends one partition, not the fetcher."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.replicas import fetcher as fetcher_module
from ottla.broker.replicas.fetcher import ReplicaFetcher
from ottla.broker.replicas.partition import Partition
from ottla.replication.fetch_plan import FetchPlan
from ottla.replication.follower import STOPPED, FollowerState
from ottla.storage.log import PartitionLog
from tests.support.broker.replicated import FOLLOWER, LEADER, OTHER, TOPIC, Trio, play

PARTITIONS = 4
BROKEN = 1
LAG = {"replica.lag.time.max.ms": "2000", "replica.fetch.wait.max.ms": "500"}


@pytest.fixture
def errors(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """The log of the replicas; the simulated world redirects the rest to its trace."""
    logger = logging.getLogger("ottla.replicas")
    logger.addHandler(caplog.handler)
    with caplog.at_level(logging.ERROR, "ottla.replicas"):
        yield caplog
    logger.removeHandler(caplog.handler)


def ends(trio: Trio, node_id: int) -> list[int]:
    return [trio.partition(node_id, index).log.log_end_offset for index in range(PARTITIONS)]


@pytest.mark.parametrize("step_max_bytes", [0, 1 << 30], ids=["a step each", "one step"])
@pytest.mark.parametrize("place", ["append", "answered", "appended", "commit"])
def test_a_partition_that_fails_is_left_out(
    monkeypatch: pytest.MonkeyPatch, errors: pytest.LogCaptureFixture, place: str, step_max_bytes: int
) -> None:
    """In a later step of a response nobody but the event loop saw the exception."""
    monkeypatch.setattr(fetcher_module, "STEP_MAX_BYTES", step_max_bytes)

    async def scenario(trio: Trio) -> None:
        await trio.create(partitions=PARTITIONS)
        broken = trio.partition(FOLLOWER, BROKEN)

        def failing(owner: type, name: str, is_broken: Any) -> None:
            real = getattr(owner, name)

            def fails(self: Any, *args: Any) -> Any:
                if is_broken(self):
                    raise RuntimeError("a defect")
                return real(self, *args)

            monkeypatch.setattr(owner, name, fails)

        if place == "append":
            failing(PartitionLog, "append_as_follower", lambda it: it is broken.log)
        elif place == "commit":
            failing(Partition, "commit", lambda it: it is broken)
        else:
            failing(FollowerState, place, lambda it: it is broken.follower)
        trio.nodes[OTHER].kill()
        for turn in range(3):
            for index in range(PARTITIONS):
                await trio.produce(f"value {turn}", acks=1, index=index)
        healthy = [index for index in range(PARTITIONS) if index != BROKEN]
        await trio.until(lambda: all(ends(trio, FOLLOWER)[index] == 3 for index in healthy), 20)
        follower = broken.follower
        assert follower is not None
        await trio.until(lambda: follower.phase == STOPPED, 20)
        await trio.produce("it does not get this one", acks=1, index=BROKEN)
        await trio.until(lambda: FOLLOWER not in _isr(trio, BROKEN), 20)
        assert all(FOLLOWER in _isr(trio, index) for index in healthy)
        assert errors.text.count("RuntimeError: a defect") == 1 and f"{TOPIC}-{BROKEN}" in errors.text

    play(scenario, LAG)


def _isr(trio: Trio, index: int) -> set[int]:
    leader = trio.partition(LEADER, index).leader
    assert leader is not None
    return set(leader.isr)


def test_a_partition_that_failed_continues_with_a_new_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create()
        await trio.produce("first")
        failures: list[int] = []
        append = PartitionLog.append_as_follower

        def fail_once(self: PartitionLog, records: Any, now_ms: int) -> Any:
            if self is trio.partition(OTHER).log and not failures:
                failures.append(1)
                raise RuntimeError("a defect")
            return append(self, records, now_ms)

        monkeypatch.setattr(PartitionLog, "append_as_follower", fail_once)
        await trio.produce("second", acks=1)
        await trio.until(lambda: trio.isr() == {LEADER, FOLLOWER}, 20)
        assert failures and trio.values(OTHER) == ["first"]
        trio.nodes[LEADER].kill()
        await trio.until(lambda: trio.partition(FOLLOWER).is_leader, 30)
        await trio.until(lambda: trio.values(OTHER) == ["first", "second"], 30)

    play(scenario, LAG)


def test_a_response_that_fails_as_a_whole_is_fetched_again(
    monkeypatch: pytest.MonkeyPatch, errors: pytest.LogCaptureFixture
) -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create()
        answered = FetchPlan.answered
        failures: list[int] = []

        def fails(self: FetchPlan, *args: Any) -> Any:
            if len(failures) < 3:
                failures.append(1)
                raise RuntimeError("a defect")
            return answered(self, *args)

        monkeypatch.setattr(FetchPlan, "answered", fails)
        assert not (await trio.produce("value", timeout_ms=20_000)).error_code
        assert len(failures) == 3 and errors.text.count("RuntimeError: a defect") == 3

    play(scenario, LAG)


def test_a_request_that_cannot_be_built_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, errors: pytest.LogCaptureFixture
) -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create()
        poll = ReplicaFetcher._request_all
        failures: list[int] = []

        def fails(self: ReplicaFetcher, *args: Any) -> Any:
            if len(failures) < 3:
                failures.append(1)
                raise RuntimeError("a defect")
            return poll(self, *args)

        monkeypatch.setattr(ReplicaFetcher, "_request_all", fails)
        assert not (await trio.produce("value", timeout_ms=20_000)).error_code
        assert len(failures) == 3 and errors.text.count("RuntimeError: a defect") == 3

    play(scenario, LAG)
