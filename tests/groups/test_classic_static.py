"""Static members: they rejoin with a new member id, and the old one is fenced."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from tests.support.groups.group_harness import Harness, subscription


@pytest.fixture
def harness() -> Harness:
    harness = Harness()
    harness.stable("a", "b", static=True)
    return harness


def test_a_restart_causes_no_rebalance(harness: Harness) -> None:
    harness.join("b", static=True, fresh=True)
    assert harness.transcript() == [
        "(g generation 1: a-1=a b-3=b)",
        "b joined as b-3: generation 1, range, led by a-1",
    ]
    harness.sync("b", group_instance_id="b")
    assert harness.transcript() == ["b gets 'b'"]
    assert harness.heartbeat("a", group_instance_id="a") == ErrorCode.NONE
    assert len(harness.shard.rebalances("g")) == 1


def test_a_rolling_restart_of_all_causes_no_rebalance(harness: Harness) -> None:
    for client in ("a", "b"):
        harness.wait(2_000)
        for other in ("a", "b"):
            harness.heartbeat(other)
        harness.wait(9_000)  # one second before its session ends
        harness.heartbeat("a" if client == "b" else "b")
        harness.join(client, static=True, fresh=True)
        harness.sync(client, group_instance_id=client)
    assert len(harness.shard.rebalances("g")) == 1
    assert [line for line in harness.transcript() if "gets" in line] == ["a gets 'a'", "b gets 'b'"]


def test_a_leader_that_returns_assigns_nothing(harness: Harness) -> None:
    harness.join("a", static=True, fresh=True)
    assert harness.transcript()[1:] == [
        "a joined as a-3: generation 1, range, led by a-3 over b-2 a-3, assigns nothing"
    ]


def test_an_old_leader_that_comes_back_takes_itself_for_a_follower(harness: Harness) -> None:
    harness.join("a", static=True, fresh=True, version=8)
    assert harness.transcript()[1:] == ["a joined as a-3: generation 1, range, led by a-1"]


def test_the_old_id_is_fenced(harness: Harness) -> None:
    old_id = harness.ids["b"]
    harness.join("b", static=True, fresh=True)
    assert harness.heartbeat("b", member_id=old_id, group_instance_id="b") == ErrorCode.FENCED_INSTANCE_ID
    assert harness.heartbeat("b", member_id=old_id) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.join("b", static=True, member_id=old_id).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert (
        harness.sync("b", member_id=old_id, group_instance_id="b").error_code == ErrorCode.FENCED_INSTANCE_ID
    )
    codes = harness.commit("b", {("t", 0): 1}, member_id=old_id, group_instance_id="b")
    assert codes == [ErrorCode.FENCED_INSTANCE_ID]


def test_two_of_the_same_instance_in_a_rebalance(harness: Harness) -> None:
    harness.arrive("c")
    harness.join("b", static=True)
    harness.transcript()
    harness.join("b", static=True, fresh=True)
    assert harness.transcript() == ["b join: FENCED_INSTANCE_ID b-2"]
    harness.join("a", static=True)
    assert sorted(harness.transcript()) == [
        "a joined as a-1: generation 2, range, led by a-1 over a-1 c-3 b-4",
        "b joined as b-4: generation 2, range, led by a-1",
        "c joined as c-3: generation 2, range, led by a-1",
    ]


def test_one_that_waits_for_its_assignment_is_fenced_by_its_successor(harness: Harness) -> None:
    harness.join("a", static=True)
    harness.join("b", static=True)
    harness.sync("b", group_instance_id="b")
    harness.transcript()
    harness.join("b", static=True, fresh=True)
    assert harness.transcript() == ["b sync: FENCED_INSTANCE_ID"]
    assert harness.heartbeat("a") == ErrorCode.REBALANCE_IN_PROGRESS


def test_other_topics_after_a_restart_are_assigned(harness: Harness) -> None:
    harness.join("b", "t", "u", static=True, fresh=True)
    assert harness.transcript() == []
    assert harness.heartbeat("a") == ErrorCode.REBALANCE_IN_PROGRESS
    harness.join("a", static=True)
    assert harness.transcript() == [
        "a joined as a-1: generation 2, range, led by a-1 over a-1 b-3",
        "b joined as b-3: generation 2, range, led by a-1",
    ]


def test_earlier_ownership_triggers_no_rebalance(harness: Harness) -> None:
    harness.join("b", static=True, fresh=True, protocols={"range": subscription("t", owned=b"x")})
    assert harness.transcript()[-1] == "b joined as b-3: generation 1, range, led by a-1"


def test_another_protocol_after_a_restart_is_a_reason() -> None:
    harness = Harness()
    harness.stable("a", static=True)
    both = {"roundrobin": subscription("t"), "range": subscription("t")}
    harness.join("a", static=True, fresh=True, protocols=both)
    harness.wait(0)
    assert harness.transcript() == ["a joined as a-2: generation 2, roundrobin, led by a-2 over a-2"]


def test_a_session_that_ends_removes_a_static_member_too(harness: Harness) -> None:
    for _ in range(4):
        harness.wait(3_000)
        harness.heartbeat("a")
    assert harness.heartbeat("b", group_instance_id="b") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_is_away_holds_its_place_in_a_rebalance() -> None:
    harness = Harness()
    harness.join("s", static=True, session_ms=120_000, rebalance_ms=5_000)
    harness.arrive("d", session_ms=120_000, rebalance_ms=5_000)
    harness.wait(6_000)
    harness.sync("d")
    harness.sync("s", {"s": "s", "d": "d"})
    harness.arrive("e", session_ms=120_000, rebalance_ms=5_000)
    harness.join("d", session_ms=120_000, rebalance_ms=5_000)
    harness.transcript()
    harness.wait(5_000)
    # s is not back, so d leads; but s is still one of them.
    assert harness.transcript() == [
        "-- 11000 ms",
        "d joined as d-2: generation 2, range, led by d-2 over s-1 d-2 e-3",
        "e joined as e-3: generation 2, range, led by d-2",
    ]


def test_an_admin_removes_static_members_by_their_instance(harness: Harness) -> None:
    request = LeaveGroupRequest(
        group_id="g",
        members=[
            MemberIdentity(member_id="", group_instance_id="b", reason="gone for good"),
            MemberIdentity(member_id="", group_instance_id="nobody"),
            MemberIdentity(member_id="b-2", group_instance_id="a"),
        ],
    )
    harness.ask("admin", "leave_group", request)
    assert harness.transcript() == ["admin leaves: NONE UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID"]
    (trigger,) = harness.shard.rebalances("g")[-1].triggers
    assert trigger == ("member removed by an admin", harness.now_ms, "b-2", "b", "/b", "gone for good")


def test_a_restart_in_a_full_group_finds_its_place() -> None:
    harness = Harness(group_max_size="2")
    harness.stable("a", "b", static=True)
    assert harness.join("b", static=True, fresh=True).error_code == ErrorCode.NONE
    assert harness.join("c", static=True).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_take_over_is_in_the_log(harness: Harness) -> None:
    harness.join("b", static=True, fresh=True)
    harness.reload()
    assert harness.heartbeat("b", group_instance_id="b") == ErrorCode.NONE
    assert harness.sync("b", group_instance_id="b").assignment == b"b"
