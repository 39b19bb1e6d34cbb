"""The classic protocol as transcripts of requests and responses."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode
from tests.support.groups.group_harness import Harness, subscription


def test_newcomers_get_an_id_then_wait_for_each_other() -> None:
    harness = Harness()
    harness.join("a")
    assert harness.transcript() == ["(g generation 0: nobody)", "a join: MEMBER_ID_REQUIRED a-1"]
    harness.join("a")
    harness.wait(1_000)
    harness.arrive("b")
    harness.wait(5_000)
    assert harness.transcript() == [
        "b join: MEMBER_ID_REQUIRED b-2",
        "-- 6000 ms",  # b came while the first three seconds ran, so there were three more
        "a joined as a-1: generation 1, range, led by a-1 over a-1 b-2",
        "b joined as b-2: generation 1, range, led by a-1",
    ]
    harness.sync("b")
    assert harness.transcript() == []
    harness.sync("a", {"a": "t-0", "b": "t-1"})
    assert harness.transcript() == ["(g generation 1: a-1=t-0 b-2=t-1)", "a gets 't-0'", "b gets 't-1'"]


def test_sync_responses_reach_all_waiting_members() -> None:
    harness = Harness(group_initial_rebalance_delay_ms="0")
    harness.stable("a")
    harness.arrive("b")
    assert harness.heartbeat("a") == ErrorCode.REBALANCE_IN_PROGRESS
    harness.join("a")
    assert harness.transcript() == [
        "b join: MEMBER_ID_REQUIRED b-2",
        "a joined as a-1: generation 2, range, led by a-1 over a-1 b-2",
        "b joined as b-2: generation 2, range, led by a-1",
    ]
    harness.sync("b")
    assert len(harness.waiting) == 1
    harness.sync("a", {"a": "x"})
    assert harness.transcript() == ["(g generation 2: a-1=x b-2=)", "a gets 'x'", "b gets ''"]
    assert harness.heartbeat("a") == harness.heartbeat("b") == ErrorCode.NONE


def test_a_first_rebalance_waits_no_longer_than_its_rebalance_timeout() -> None:
    harness = Harness()
    harness.arrive("m0", rebalance_ms=7_000)
    for number in range(1, 9):
        harness.wait(1_000)
        harness.arrive(f"m{number}", rebalance_ms=7_000)
    began = [line for line in harness.transcript() if line.startswith("--")]
    assert began == ["-- 7000 ms"]


def test_old_clients_join_in_one_step() -> None:
    harness = Harness(group_initial_rebalance_delay_ms="0")
    harness.join("v0", version=0, session_ms=6_000)
    assert harness.transcript() == [
        "(g generation 0: nobody)",
        "v0 joined as v0-1: generation 1, range, led by v0-1 over v0-1",
    ]
    harness.sync("v0", {"v0": "all"}, version=0)
    assert harness.transcript() == ["(g generation 1: v0-1=all)", "v0 gets 'all'"]


def test_a_member_that_does_not_rejoin_in_time_is_removed() -> None:
    harness = Harness(group_initial_rebalance_delay_ms="0")
    harness.arrive("a", rebalance_ms=20_000)
    harness.arrive("b", rebalance_ms=20_000)
    harness.join("a", rebalance_ms=20_000)
    harness.sync("b")
    harness.sync("a", {"a": "a", "b": "b"})
    harness.transcript()
    harness.arrive("c", rebalance_ms=20_000)
    harness.join("a", rebalance_ms=20_000)
    for _ in range(4):
        harness.wait(5_000)
        # b is alive, and never comes: its application is busy.
        if harness.heartbeat("b") != ErrorCode.REBALANCE_IN_PROGRESS:
            break
    assert harness.transcript() == [
        "c join: MEMBER_ID_REQUIRED c-3",
        "-- 20000 ms",
        "a joined as a-1: generation 3, range, led by a-1 over a-1 c-3",
        "c joined as c-3: generation 3, range, led by a-1",
    ]
    assert harness.heartbeat("b") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_session_that_ends_calls_the_others_together() -> None:
    harness = Harness()
    harness.stable("a", "b")
    began_ms = harness.now_ms
    for _ in range(3):
        harness.wait(3_000)
        assert harness.heartbeat("a") == ErrorCode.NONE
    harness.wait(1_500)
    assert harness.now_ms - began_ms == 10_500
    assert harness.heartbeat("a") == ErrorCode.REBALANCE_IN_PROGRESS
    harness.join("a")
    assert harness.transcript() == ["a joined as a-1: generation 2, range, led by a-1 over a-1"]
    assert harness.heartbeat("b") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_leaves_is_followed_by_another() -> None:
    harness = Harness()
    harness.stable("a", "b", "c")
    harness.leave("a")
    harness.join("b")
    harness.join("c")
    assert harness.transcript() == [
        "a leaves: NONE",
        "b joined as b-2: generation 2, range, led by b-2 over b-2 c-3",
        "c joined as c-3: generation 2, range, led by b-2",
    ]


def test_the_last_one_leaves_an_empty_group() -> None:
    harness = Harness()
    harness.stable("a")
    harness.leave("a")
    assert harness.transcript() == ["(g generation 2: nobody)", "a leaves: NONE"]
    assert harness.shard.describe_group("g", 5).group_state == "Empty"
    assert harness.shard.describe_group("g", 5).protocol_type == "consumer"


def test_a_member_that_does_not_sync_in_time_is_removed() -> None:
    harness = Harness(group_initial_rebalance_delay_ms="100")
    harness.arrive("a", rebalance_ms=8_000)
    harness.arrive("b", rebalance_ms=8_000)
    harness.wait(200)
    harness.sync("a", {"a": "a", "b": "b"})
    harness.transcript()
    harness.wait(4_000)
    harness.heartbeat("a")
    harness.heartbeat("b")
    harness.wait(4_500)
    assert harness.heartbeat("b") == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.heartbeat("a") == ErrorCode.REBALANCE_IN_PROGRESS
    assert [trigger.what for trigger in harness.shard.rebalances("g")[-1].triggers] == [
        "member did not sync in time"
    ]


def test_a_late_sync_starts_a_new_session() -> None:
    harness = Harness(group_initial_rebalance_delay_ms="100")
    harness.arrive("a", rebalance_ms=30_000)
    harness.arrive("b", rebalance_ms=30_000)
    harness.wait(200)
    harness.sync("a", {"a": "a", "b": "b"})
    harness.wait(9_000)
    assert harness.heartbeat("a") == ErrorCode.NONE
    harness.sync("b")
    harness.wait(9_000)
    assert harness.heartbeat("a") == harness.heartbeat("b") == ErrorCode.NONE


def test_a_waiting_sync_is_refused_by_the_next_rebalance() -> None:
    harness = Harness(group_initial_rebalance_delay_ms="100")
    harness.arrive("a")
    harness.arrive("b")
    harness.wait(200)
    harness.transcript()
    harness.sync("b")
    harness.leave("a")
    assert harness.transcript() == ["b sync: REBALANCE_IN_PROGRESS", "a leaves: NONE"]


def test_a_lost_response_is_repeated() -> None:
    harness = Harness()
    harness.stable("a", "b")
    harness.join("b")
    assert harness.transcript() == ["b joined as b-2: generation 1, range, led by a-1"]
    assert harness.heartbeat("a") == ErrorCode.NONE
    harness.sync("b")
    assert harness.transcript() == ["b gets 'b'"]


def test_a_join_that_comes_again_takes_the_place_of_the_first() -> None:
    harness = Harness()
    harness.stable("a", "b")
    harness.arrive("c")
    harness.join("a")
    harness.transcript()
    harness.join("a")
    assert harness.transcript() == ["a join: REBALANCE_IN_PROGRESS a-1"]
    harness.join("b")
    assert [line.partition(":")[0] for line in harness.transcript()] == [
        "a joined as a-1",
        "b joined as b-2",
        "c joined as c-3",
    ]
    assert not harness.waiting


def test_other_metadata_is_a_reason_to_rebalance_and_so_is_the_leader() -> None:
    harness = Harness()
    harness.stable("a", "b")
    harness.join("b", "u", reason="new topics")
    harness.join("a")
    assert [line.partition(",")[0] for line in harness.transcript()] == [
        "a joined as a-1: generation 2",
        "b joined as b-2: generation 2",
    ]
    harness.sync("b")
    harness.sync("a", {"a": "a", "b": "b"})
    harness.join("a", reason="partitions were added")
    harness.join("b", "u")
    rebalances = harness.shard.rebalances("g")[1:]
    assert [(each.generation, *each.triggers[0][:1], each.triggers[0].detail) for each in rebalances] == [
        (2, "member's subscription or metadata changed", "new topics"),
        (-1, "leader requested a rebalance", "partitions were added"),
    ]


def test_cooperative_members_rejoin_after_revocation() -> None:
    harness = Harness()
    protocols = {"cooperative-sticky": subscription("t")}
    harness.arrive("a", protocols=protocols)
    harness.arrive("b", protocols=protocols)
    harness.wait(6_000)
    name = {"protocol_name": "cooperative-sticky"}
    harness.sync("b", **name)
    harness.sync("a", {"a": "t-0", "b": ""}, **name)
    harness.join("b", protocols={"cooperative-sticky": subscription("t", owned=b"nothing")})
    (trigger,) = harness.shard.rebalances("g")[-1].triggers
    assert trigger[:1] + trigger[2:4] == ("member requested a rebalance", "b-2", "b")
