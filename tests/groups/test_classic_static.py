"""Static members: they come back under a new id, and the old one is fenced."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from tests.support.groups.group_desk import Desk, subscription


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.stable("a", "b", static=True)
    return desk


def test_a_restart_causes_no_rebalance(desk: Desk) -> None:
    desk.join("b", static=True, fresh=True)
    assert desk.transcript() == [
        "(g generation 1: a-1=a b-3=b)",
        "b joined as b-3: generation 1, range, led by a-1",
    ]
    desk.sync("b", group_instance_id="b")
    assert desk.transcript() == ["b gets 'b'"]
    assert desk.heartbeat("a", group_instance_id="a") == ErrorCode.NONE
    assert len(desk.shard.rebalances("g")) == 1


def test_a_rolling_restart_of_all_causes_no_rebalance(desk: Desk) -> None:
    for who in ("a", "b"):
        desk.wait(2_000)
        for other in ("a", "b"):
            desk.heartbeat(other)
        desk.wait(9_000)  # one second before its session ends
        desk.heartbeat("a" if who == "b" else "b")
        desk.join(who, static=True, fresh=True)
        desk.sync(who, group_instance_id=who)
    assert len(desk.shard.rebalances("g")) == 1
    assert [line for line in desk.transcript() if "gets" in line] == ["a gets 'a'", "b gets 'b'"]


def test_a_leader_that_comes_back_is_told_to_assign_nothing(desk: Desk) -> None:
    desk.join("a", static=True, fresh=True)
    assert desk.transcript()[1:] == [
        "a joined as a-3: generation 1, range, led by a-3 over b-2 a-3, assigns nothing"
    ]


def test_an_old_leader_that_comes_back_takes_itself_for_a_follower(desk: Desk) -> None:
    desk.join("a", static=True, fresh=True, version=8)
    assert desk.transcript()[1:] == ["a joined as a-3: generation 1, range, led by a-1"]


def test_the_old_id_is_fenced(desk: Desk) -> None:
    old_id = desk.ids["b"]
    desk.join("b", static=True, fresh=True)
    assert desk.heartbeat("b", member_id=old_id, group_instance_id="b") == ErrorCode.FENCED_INSTANCE_ID
    assert desk.heartbeat("b", member_id=old_id) == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.join("b", static=True, member_id=old_id).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert desk.sync("b", member_id=old_id, group_instance_id="b").error_code == ErrorCode.FENCED_INSTANCE_ID
    codes = desk.commit("b", {("t", 0): 1}, member_id=old_id, group_instance_id="b")
    assert codes == [ErrorCode.FENCED_INSTANCE_ID]


def test_two_of_the_same_instance_in_a_rebalance(desk: Desk) -> None:
    desk.arrive("c")
    desk.join("b", static=True)
    desk.transcript()
    desk.join("b", static=True, fresh=True)
    assert desk.transcript() == ["b join: FENCED_INSTANCE_ID b-2"]
    desk.join("a", static=True)
    assert sorted(desk.transcript()) == [
        "a joined as a-1: generation 2, range, led by a-1 over a-1 c-3 b-4",
        "b joined as b-4: generation 2, range, led by a-1",
        "c joined as c-3: generation 2, range, led by a-1",
    ]


def test_one_that_waits_for_its_assignment_is_fenced_by_its_successor(desk: Desk) -> None:
    desk.join("a", static=True)
    desk.join("b", static=True)
    desk.sync("b", group_instance_id="b")
    desk.transcript()
    desk.join("b", static=True, fresh=True)
    assert desk.transcript() == ["b sync: FENCED_INSTANCE_ID"]
    assert desk.heartbeat("a") == ErrorCode.REBALANCE_IN_PROGRESS


def test_other_topics_after_a_restart_are_assigned(desk: Desk) -> None:
    desk.join("b", "t", "u", static=True, fresh=True)
    assert desk.transcript() == []
    assert desk.heartbeat("a") == ErrorCode.REBALANCE_IN_PROGRESS
    desk.join("a", static=True)
    assert desk.transcript() == [
        "a joined as a-1: generation 2, range, led by a-1 over a-1 b-3",
        "b joined as b-3: generation 2, range, led by a-1",
    ]


def test_what_a_member_owned_before_is_no_reason(desk: Desk) -> None:
    desk.join("b", static=True, fresh=True, protocols={"range": subscription("t", owned=b"x")})
    assert desk.transcript()[-1] == "b joined as b-3: generation 1, range, led by a-1"


def test_another_protocol_after_a_restart_is_a_reason() -> None:
    desk = Desk()
    desk.stable("a", static=True)
    both = {"roundrobin": subscription("t"), "range": subscription("t")}
    desk.join("a", static=True, fresh=True, protocols=both)
    desk.wait(0)
    assert desk.transcript() == ["a joined as a-2: generation 2, roundrobin, led by a-2 over a-2"]


def test_a_session_that_ends_removes_a_static_member_too(desk: Desk) -> None:
    for _ in range(4):
        desk.wait(3_000)
        desk.heartbeat("a")
    assert desk.heartbeat("b", group_instance_id="b") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_is_away_holds_its_place_in_a_rebalance() -> None:
    desk = Desk()
    desk.join("s", static=True, session_ms=120_000, rebalance_ms=5_000)
    desk.arrive("d", session_ms=120_000, rebalance_ms=5_000)
    desk.wait(6_000)
    desk.sync("d")
    desk.sync("s", {"s": "s", "d": "d"})
    desk.arrive("e", session_ms=120_000, rebalance_ms=5_000)
    desk.join("d", session_ms=120_000, rebalance_ms=5_000)
    desk.transcript()
    desk.wait(5_000)
    # s is not back, so d leads; but s is still one of them.
    assert desk.transcript() == [
        "-- 11000 ms",
        "d joined as d-2: generation 2, range, led by d-2 over s-1 d-2 e-3",
        "e joined as e-3: generation 2, range, led by d-2",
    ]


def test_an_admin_removes_static_members_by_their_instance(desk: Desk) -> None:
    request = LeaveGroupRequest(
        group_id="g",
        members=[
            MemberIdentity(member_id="", group_instance_id="b", reason="gone for good"),
            MemberIdentity(member_id="", group_instance_id="nobody"),
            MemberIdentity(member_id="b-2", group_instance_id="a"),
        ],
    )
    desk.ask("admin", "leave_group", request)
    assert desk.transcript() == ["admin leaves: NONE UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID"]
    (trigger,) = desk.shard.rebalances("g")[-1].triggers
    assert trigger == ("member removed by an admin", desk.now_ms, "b-2", "b", "/b", "gone for good")


def test_a_restart_in_a_full_group_finds_its_place() -> None:
    desk = Desk(group_max_size="2")
    desk.stable("a", "b", static=True)
    assert desk.join("b", static=True, fresh=True).error_code == ErrorCode.NONE
    assert desk.join("c", static=True).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_take_over_is_in_the_log(desk: Desk) -> None:
    desk.join("b", static=True, fresh=True)
    desk.reload()
    assert desk.heartbeat("b", group_instance_id="b") == ErrorCode.NONE
    assert desk.sync("b", group_instance_id="b").assignment == b"b"
