"""Groups on three brokers: the coordinator is killed during a rebalance and during commits."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from ottla.testing import Cluster
from tests.support.groups_e2e.group_run import QUICK, GroupRun
from tests.support.groups_e2e.history import assert_history, until_shared
from tests.support.groups_e2e.reader import PROTOCOLS, Watched
from tests.support.waiting import wait_until

PARTITIONS = 12
both = pytest.mark.parametrize("protocol", list(PROTOCOLS))


@pytest.fixture(scope="module")
def three_brokers() -> Iterator[Cluster]:
    # Sessions outlive the fail-over: no member may lose a partition.
    with Cluster(brokers=3, config=QUICK) as cluster:
        yield cluster
        cluster.kill()  # a clean stop is not needed


def commits_since(members: list[Watched], ns: int) -> int:
    return sum(what == "c" and at > ns for member in members for at, what, _, _ in list(member.events))


@both
def test_the_coordinator_dies_during_a_rebalance(
    three_brokers: Cluster, protocol: str, request: pytest.FixtureRequest
) -> None:
    with GroupRun(three_brokers, protocol, request.node.name) as run:
        members: list[Watched] = [run.join(), run.join()]
        until_shared(members, PARTITIONS)
        dying = run.settle(2).coordinator
        moves = sum(member.moves() for member in members)
        members += [run.join(), run.join()]
        # The first partitions are being moved when it dies.
        wait_until(lambda: sum(member.moves() for member in members) > moves, members)
        three_brokers.kill(dying)
        try:
            until_shared(members, PARTITIONS)
            assert run.settle(4).coordinator != dying
            written = run.finish()
        finally:
            three_brokers.start(dying)
        assert_history(run.members, written, again_max=len(written) // 4)


@both
def test_the_coordinator_dies_during_commits(
    three_brokers: Cluster, protocol: str, request: pytest.FixtureRequest
) -> None:
    with GroupRun(three_brokers, protocol, request.node.name) as run:
        members: list[Watched] = [run.join(), run.join(), run.join()]
        until_shared(members, PARTITIONS)
        before = run.settle(3)
        moves = [member.moves() for member in members]
        wait_until(lambda: commits_since(members, 0) > 50, members)
        three_brokers.kill(before.coordinator)
        killed_ns = time.monotonic_ns()
        try:
            wait_until(lambda: commits_since(members, killed_ns) > 50, members)
            after = run.settle(3)
            assert after.coordinator != before.coordinator
            assert after.epoch in (before.epoch, -1), "another coordinator is no reason to rebalance"
            assert [member.moves() for member in members] == moves
            # The next owner starts at the committed offset, before and after the move.
            members[0].stop()
            until_shared(members[1:], PARTITIONS)
            written = run.finish()
        finally:
            three_brokers.start(before.coordinator)
        assert_history(run.members, written)
        if protocol == "consumer":
            return  # offsets are kept in the same way
        three_brokers.kill(after.coordinator)
        try:
            three_brokers.wait_for_lag(run.topic, 0)
        finally:
            three_brokers.start(after.coordinator)
