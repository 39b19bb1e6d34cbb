"""The classic protocol as transcripts: who asks what, and what everybody is answered."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode
from tests.support.groups.group_desk import Desk, subscription


def test_newcomers_get_an_id_then_wait_for_each_other() -> None:
    desk = Desk()
    desk.join("a")
    assert desk.transcript() == ["(g generation 0: nobody)", "a join: MEMBER_ID_REQUIRED a-1"]
    desk.join("a")
    desk.wait(1_000)
    desk.arrive("b")
    desk.wait(5_000)
    assert desk.transcript() == [
        "b join: MEMBER_ID_REQUIRED b-2",
        "-- 6000 ms",  # b came while the first three seconds ran, so there were three more
        "a joined as a-1: generation 1, range, led by a-1 over a-1 b-2",
        "b joined as b-2: generation 1, range, led by a-1",
    ]
    desk.sync("b")
    assert desk.transcript() == []
    desk.sync("a", {"a": "t-0", "b": "t-1"})
    assert desk.transcript() == ["(g generation 1: a-1=t-0 b-2=t-1)", "a gets 't-0'", "b gets 't-1'"]


def test_the_answers_of_a_sync_reach_everybody_that_waits() -> None:
    desk = Desk(group_initial_rebalance_delay_ms="0")
    desk.stable("a")
    desk.arrive("b")
    assert desk.heartbeat("a") == ErrorCode.REBALANCE_IN_PROGRESS
    desk.join("a")
    assert desk.transcript() == [
        "b join: MEMBER_ID_REQUIRED b-2",
        "a joined as a-1: generation 2, range, led by a-1 over a-1 b-2",
        "b joined as b-2: generation 2, range, led by a-1",
    ]
    desk.sync("b")
    assert len(desk.waiting) == 1
    desk.sync("a", {"a": "x"})
    assert desk.transcript() == ["(g generation 2: a-1=x b-2=)", "a gets 'x'", "b gets ''"]
    assert desk.heartbeat("a") == desk.heartbeat("b") == ErrorCode.NONE


def test_a_first_rebalance_waits_no_longer_than_its_rebalance_timeout() -> None:
    desk = Desk()
    desk.arrive("m0", rebalance_ms=7_000)
    for number in range(1, 9):
        desk.wait(1_000)
        desk.arrive(f"m{number}", rebalance_ms=7_000)
    began = [line for line in desk.transcript() if line.startswith("--")]
    assert began == ["-- 7000 ms"]


def test_old_clients_join_in_one_step() -> None:
    desk = Desk(group_initial_rebalance_delay_ms="0")
    desk.join("v0", version=0, session_ms=6_000)
    assert desk.transcript() == [
        "(g generation 0: nobody)",
        "v0 joined as v0-1: generation 1, range, led by v0-1 over v0-1",
    ]
    desk.sync("v0", {"v0": "all"}, version=0)
    assert desk.transcript() == ["(g generation 1: v0-1=all)", "v0 gets 'all'"]


def test_who_does_not_rejoin_in_time_is_out() -> None:
    desk = Desk(group_initial_rebalance_delay_ms="0")
    desk.arrive("a", rebalance_ms=20_000)
    desk.arrive("b", rebalance_ms=20_000)
    desk.join("a", rebalance_ms=20_000)
    desk.sync("b")
    desk.sync("a", {"a": "a", "b": "b"})
    desk.transcript()
    desk.arrive("c", rebalance_ms=20_000)
    desk.join("a", rebalance_ms=20_000)
    for _ in range(4):
        desk.wait(5_000)
        # b is alive, and never comes: its application is busy.
        if desk.heartbeat("b") != ErrorCode.REBALANCE_IN_PROGRESS:
            break
    assert desk.transcript() == [
        "c join: MEMBER_ID_REQUIRED c-3",
        "-- 20000 ms",
        "a joined as a-1: generation 3, range, led by a-1 over a-1 c-3",
        "c joined as c-3: generation 3, range, led by a-1",
    ]
    assert desk.heartbeat("b") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_session_that_ends_calls_the_others_together() -> None:
    desk = Desk()
    desk.stable("a", "b")
    began_ms = desk.now_ms
    for _ in range(3):
        desk.wait(3_000)
        assert desk.heartbeat("a") == ErrorCode.NONE
    desk.wait(1_500)
    assert desk.now_ms - began_ms == 10_500
    assert desk.heartbeat("a") == ErrorCode.REBALANCE_IN_PROGRESS
    desk.join("a")
    assert desk.transcript() == ["a joined as a-1: generation 2, range, led by a-1 over a-1"]
    assert desk.heartbeat("b") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_leaves_is_followed_by_another() -> None:
    desk = Desk()
    desk.stable("a", "b", "c")
    desk.leave("a")
    desk.join("b")
    desk.join("c")
    assert desk.transcript() == [
        "a leaves: NONE",
        "b joined as b-2: generation 2, range, led by b-2 over b-2 c-3",
        "c joined as c-3: generation 2, range, led by b-2",
    ]


def test_the_last_one_leaves_an_empty_group() -> None:
    desk = Desk()
    desk.stable("a")
    desk.leave("a")
    assert desk.transcript() == ["(g generation 2: nobody)", "a leaves: NONE"]
    assert desk.shard.describe_group("g", 5).group_state == "Empty"
    assert desk.shard.describe_group("g", 5).protocol_type == "consumer"


def test_who_does_not_sync_in_time_is_out() -> None:
    desk = Desk(group_initial_rebalance_delay_ms="100")
    desk.arrive("a", rebalance_ms=8_000)
    desk.arrive("b", rebalance_ms=8_000)
    desk.wait(200)
    desk.sync("a", {"a": "a", "b": "b"})
    desk.transcript()
    desk.wait(4_000)
    desk.heartbeat("a")
    desk.heartbeat("b")
    desk.wait(4_500)
    assert desk.heartbeat("b") == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.heartbeat("a") == ErrorCode.REBALANCE_IN_PROGRESS
    assert [trigger.what for trigger in desk.shard.rebalances("g")[-1].triggers] == [
        "member did not sync in time"
    ]


def test_a_late_sync_starts_a_new_session() -> None:
    desk = Desk(group_initial_rebalance_delay_ms="100")
    desk.arrive("a", rebalance_ms=30_000)
    desk.arrive("b", rebalance_ms=30_000)
    desk.wait(200)
    desk.sync("a", {"a": "a", "b": "b"})
    desk.wait(9_000)
    assert desk.heartbeat("a") == ErrorCode.NONE
    desk.sync("b")
    desk.wait(9_000)
    assert desk.heartbeat("a") == desk.heartbeat("b") == ErrorCode.NONE


def test_a_sync_that_waits_is_told_of_the_next_rebalance() -> None:
    desk = Desk(group_initial_rebalance_delay_ms="100")
    desk.arrive("a")
    desk.arrive("b")
    desk.wait(200)
    desk.transcript()
    desk.sync("b")
    desk.leave("a")
    assert desk.transcript() == ["b sync: REBALANCE_IN_PROGRESS", "a leaves: NONE"]


def test_a_lost_answer_is_given_again() -> None:
    desk = Desk()
    desk.stable("a", "b")
    desk.join("b")
    assert desk.transcript() == ["b joined as b-2: generation 1, range, led by a-1"]
    assert desk.heartbeat("a") == ErrorCode.NONE
    desk.sync("b")
    assert desk.transcript() == ["b gets 'b'"]


def test_a_join_that_comes_again_takes_the_place_of_the_first() -> None:
    desk = Desk()
    desk.stable("a", "b")
    desk.arrive("c")
    desk.join("a")
    desk.transcript()
    desk.join("a")
    assert desk.transcript() == ["a join: REBALANCE_IN_PROGRESS a-1"]
    desk.join("b")
    assert [line.partition(":")[0] for line in desk.transcript()] == [
        "a joined as a-1",
        "b joined as b-2",
        "c joined as c-3",
    ]
    assert not desk.waiting


def test_other_metadata_is_a_reason_to_rebalance_and_so_is_the_leader() -> None:
    desk = Desk()
    desk.stable("a", "b")
    desk.join("b", "u", reason="new topics")
    desk.join("a")
    assert [line.partition(",")[0] for line in desk.transcript()] == [
        "a joined as a-1: generation 2",
        "b joined as b-2: generation 2",
    ]
    desk.sync("b")
    desk.sync("a", {"a": "a", "b": "b"})
    desk.join("a", reason="partitions were added")
    desk.join("b", "u")
    rebalances = desk.shard.rebalances("g")[1:]
    assert [(each.generation, *each.triggers[0][:1], each.triggers[0].detail) for each in rebalances] == [
        (2, "member's subscription or metadata changed", "new topics"),
        (-1, "leader asked for it", "partitions were added"),
    ]


def test_cooperative_members_ask_again_when_they_have_let_go() -> None:
    desk = Desk()
    protocols = {"cooperative-sticky": subscription("t")}
    desk.arrive("a", protocols=protocols)
    desk.arrive("b", protocols=protocols)
    desk.wait(6_000)
    name = {"protocol_name": "cooperative-sticky"}
    desk.sync("b", **name)
    desk.sync("a", {"a": "t-0", "b": ""}, **name)
    desk.join("b", protocols={"cooperative-sticky": subscription("t", owned=b"nothing")})
    (trigger,) = desk.shard.rebalances("g")[-1].triggers
    assert trigger[:1] + trigger[2:4] == ("member asked for it", "b-2", "b")
