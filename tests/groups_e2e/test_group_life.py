"""Groups on one broker: they grow and shrink, members are killed, slow, restarted or idle."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from ottla.testing import Cluster
from tests.support.groups_e2e.group_run import QUICK, GroupRun
from tests.support.groups_e2e.history import assert_history, until_read, until_shared
from tests.support.groups_e2e.reader import COMMIT_EVERY, PROTOCOLS, Watched
from tests.support.waiting import wait_until

PARTITIONS = 12
both = pytest.mark.parametrize("protocol", list(PROTOCOLS))


@pytest.fixture(scope="module")
def one_broker() -> Iterator[Cluster]:
    with Cluster(config=QUICK) as cluster:
        yield cluster
        cluster.kill()  # a clean stop is not needed


@pytest.fixture(scope="module")
def impatient_broker() -> Iterator[Cluster]:
    """Short session timeouts, only for tests that wait for them: live members may expire too."""
    with Cluster(config={**QUICK, "group.consumer.session.timeout.ms": 2000}) as cluster:
        yield cluster
        cluster.kill()


@both
def test_from_one_to_eight_and_back(
    one_broker: Cluster, protocol: str, request: pytest.FixtureRequest
) -> None:
    with GroupRun(one_broker, protocol, request.node.name) as run:
        staying: list[Watched] = []
        for size in (1, 3, 8):
            staying += [run.join() for _ in range(size - len(staying))]
            until_shared(staying, PARTITIONS)
        for size in (4, 1):
            # The oldest leave first, so that the last one to stay is not the one that began.
            leaving, staying = staying[:-size], staying[-size:]
            for member in leaving:
                member.stop()
            until_shared(staying, PARTITIONS)
        written = run.finish()
        assert_history(run.members, written)


@both
def test_a_member_is_killed(impatient_broker: Cluster, protocol: str, request: pytest.FixtureRequest) -> None:
    with GroupRun(impatient_broker, protocol, request.node.name, session_timeout_ms=2000) as run:
        victim = run.join_process()
        staying: list[Watched] = [run.join(), run.join()]
        until_shared([victim, *staying], PARTITIONS)
        time.sleep(0.3)
        had = victim.owned()
        killed_ns = victim.kill()
        until_shared(staying, PARTITIONS)
        taken = [
            ns for member in staying for ns, what, place, _ in member.events if what == "+" and place in had
        ]
        assert max(taken) - killed_ns > 0.3e9, "partitions moved before the session expired"
        causes = [cause.what for each in run.settle(2).rebalances for cause in each.causes]
        assert any("session" in what or "time" in what for what in causes), causes
        written = run.finish()
        # Records that the victim had read and not committed: at most those between two commits.
        assert_history(run.members, written, again_max=2 * COMMIT_EVERY)


@both
def test_static_members_restart_one_by_one(
    one_broker: Cluster, protocol: str, request: pytest.FixtureRequest
) -> None:
    with GroupRun(one_broker, protocol, request.node.name) as run:
        names = ["a", "b", "c"]
        members = {name: run.join(name) for name in names}
        until_shared(list(members.values()), PARTITIONS)
        before = run.settle(3)
        moves = {name: member.moves() for name, member in members.items()}
        for name in names:
            had = members[name].owned()
            members[name].stop()
            members[name] = back = run.join(name)
            wait_until(lambda back=back, had=had: back.owned() == had, run.members)
            moves[name] = len(had)
            assert {each: member.moves() for each, member in members.items()} == moves
        time.sleep(0.5)
        after = run.settle(3)
        assert (after.epoch, after.rebalances) == (before.epoch, before.rebalances)
        assert {each: member.moves() for each, member in members.items()} == moves
        written = run.finish()
        assert_history(run.members, written)


@both
def test_a_slow_member_loses_its_partitions(
    impatient_broker: Cluster, protocol: str, request: pytest.FixtureRequest
) -> None:
    with GroupRun(
        impatient_broker, protocol, request.node.name, session_timeout_ms=1500, max_poll_interval_ms=1500
    ) as run:
        slow, quick = run.join(), run.join()
        until_shared([slow, quick], PARTITIONS)
        slow.work.going.clear()
        until_shared([quick], PARTITIONS)
        time.sleep(0.2)
        slow.work.going.set()
        # It rejoins and gets its share.
        until_shared([slow, quick], PARTITIONS)
        assert any(what == "x" for _, what, _, _ in slow.events), "the member was not informed of its loss"
        written = run.finish()
        assert_history(run.members, written, again_max=len(written) // 4, slow=[slow])


@pytest.mark.parametrize("protocol", ["cooperative"])  # the protocol does not matter
def test_two_groups_are_independent(
    one_broker: Cluster, protocol: str, request: pytest.FixtureRequest
) -> None:
    with GroupRun(one_broker, protocol, request.node.name) as run:
        first = [run.join(), run.join()]
        until_shared(first, PARTITIONS)
        until_read(first, set(run.load.written))
        moves = [member.moves() for member in first]
        other = f"{run.topic}-other"
        second = [run.join(group=other) for _ in range(3)]
        until_shared(second, PARTITIONS)
        second[0].stop()
        until_shared(second[1:], PARTITIONS)
        assert [member.moves() for member in first] == moves
        written = run.load.stop()
        until_read(first, written)
        until_read(second, written)
        run.finish(run.topic, other)
        assert_history(first, written)
        assert_history(second, written)


@both
def test_more_members_than_partitions(
    one_broker: Cluster, protocol: str, request: pytest.FixtureRequest
) -> None:
    with GroupRun(one_broker, protocol, request.node.name, partitions=3) as run:
        members: list[Watched] = [run.join() for _ in range(5)]
        until_shared(members, 3)
        run.settle(5)
        idle = [member for member in members if not member.owned()]
        assert len(idle) == 2
        moves = {member.name: member.moves() for member in idle}
        time.sleep(0.5)
        assert {member.name: member.moves() for member in idle} == moves
        busy = [member for member in members if member not in idle]
        for member in busy:
            member.stop()
        until_shared(idle, 3)
        written = run.finish()
        assert_history(run.members, written)
