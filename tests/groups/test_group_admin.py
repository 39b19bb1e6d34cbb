"""Groups described, listed and deleted; and why they rebalanced."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.groups.history import TRIGGERS_MAX, RebalanceHistory, Trigger
from ottla.machines.outcome import RequestContext
from ottla.protocol.errors import ErrorCode
from tests.support.groups.group_desk import GROUP, Desk, subscription


def delete(desk: Desk, *groups: str) -> list[int]:
    outcome = desk.shard.decide_delete_groups(groups, RequestContext(api_version=2), desk.now_ms)
    desk.take(outcome, "admin#0v2")
    reply: Any = outcome.reply
    return [result.error_code for result in reply.results]


def test_a_group_is_described_in_every_state() -> None:
    desk = Desk()

    def described() -> tuple[Any, ...]:
        group = desk.shard.describe_group(GROUP, 6)
        members = [(each.client_id, each.member_metadata, each.member_assignment) for each in group.members]
        return group.group_state, group.protocol_type, group.protocol_data, members

    desk.arrive("a")
    assert described() == ("PreparingRebalance", "consumer", "", [("a", b"", b"")])
    desk.wait(3_000)
    assert described() == ("CompletingRebalance", "consumer", "", [("a", b"", b"")])
    desk.sync("a", {"a": "all"})
    assert described() == ("Stable", "consumer", "range", [("a", subscription("t"), b"all")])
    desk.leave("a")
    assert described() == ("Empty", "consumer", "", [])
    delete(desk, GROUP)
    assert described() == ("Dead", "", "", [])


def test_a_member_is_described_with_its_client() -> None:
    desk = Desk()
    desk.stable("a", static=True)
    (member,) = desk.shard.describe_group(GROUP, 6).members
    assert (member.member_id, member.group_instance_id, member.client_id, member.client_host) == (
        "a-1",
        "a",
        "a",
        "/a",
    )


def test_a_group_that_is_not_there() -> None:
    desk = Desk()
    old = desk.shard.describe_group("no", 5)
    assert (old.group_state, old.error_code, old.error_message) == ("Dead", 0, None)
    new = desk.shard.describe_group("no", 6)
    assert (new.group_state, new.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert new.error_message == "Group no not found."


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        ((), (), ["g", "waiting", "simple"]),
        (("stable",), (), ["g"]),
        (("Stable", "PREPARINGREBALANCE"), (), ["g", "waiting"]),
        (("empty",), ("Classic",), ["simple"]),
        ((), ("consumer",), []),
        ((), ("CLASSIC", "consumer"), ["g", "waiting", "simple"]),
        (("nonsense",), (), []),
    ],
)
def test_groups_are_listed_by_state_and_type(
    states: tuple[str, ...], types: tuple[str, ...], found: list[str]
) -> None:
    desk = Desk()
    desk.stable("a")
    desk.arrive("w", group="waiting")
    desk.commit("s", {("t", 0): 1}, group_id="simple")
    listed = desk.shard.list_groups(states, types)
    assert [each.group_id for each in listed] == found
    assert all(each.group_type == "Classic" for each in listed)


def test_deleting_groups() -> None:
    desk = Desk()
    desk.stable("a")
    desk.commit("a", {("t", 0): 5})
    desk.commit("s", {("t", 1): 6}, group_id="simple")
    assert delete(desk, "g", "no", "simple") == [
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.NONE,
    ]
    assert desk.fetch(group="simple") == {}
    desk.leave("a")
    assert delete(desk, "g") == [ErrorCode.NONE]
    assert desk.shard.list_groups() == []
    desk.reload()
    assert desk.shard.list_groups() == []
    assert desk.fetch() == {}
    # Nothing is left of the timers that the group had: they would go off in its successor.
    desk.stable("b")
    assert desk.heartbeat("b") == ErrorCode.NONE
    assert desk.heartbeat("a") == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_given_out_by_a_group_that_was_deleted_is_not_known() -> None:
    desk = Desk()
    desk.join("a")
    assert delete(desk, GROUP) == [ErrorCode.NONE]
    assert desk.join("a").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    desk.wait(600_000)


def test_a_group_in_which_nothing_ever_happened_is_forgotten() -> None:
    desk = Desk()
    desk.join("a")
    desk.wait(1_300_000)
    assert desk.shard.list_groups() == []


def test_rebalances_are_explained() -> None:
    desk = Desk()
    began_ms = desk.now_ms
    desk.arrive("a", reason="hello")
    desk.wait(1_000)
    desk.arrive("b")
    desk.wait(5_500)
    desk.sync("b")
    desk.sync("a", {"a": "a", "b": "b"})
    desk.wait(500)
    desk.leave("b", reason="bye")
    (first, second) = desk.shard.rebalances(GROUP)
    assert (first.began_ms - began_ms, first.duration_ms, first.generation, first.member_count) == (
        0,
        6_500,
        1,
        2,
    )
    assert first.triggers == [
        Trigger("member joined", began_ms, "a-1", "a", "/a", "hello"),
        Trigger("member joined", began_ms + 1_000, "b-2", "b", "/b", ""),
    ]
    assert (second.ended_ms, second.duration_ms, second.generation) == (-1, -1, -1)
    assert second.triggers == [Trigger("member left", began_ms + 7_000, "b-2", "b", "/b", "bye")]
    assert desk.shard.rebalances("no") == []


def test_the_history_is_bounded() -> None:
    history = RebalanceHistory(3)
    for number in range(5):
        history.trigger(Trigger("member joined", number))
        for _ in range(TRIGGERS_MAX + 4):
            history.trigger(Trigger("member joined", number))
        history.end(number, number, 1)
    history.end(9, 9, 9)
    assert [each.generation for each in history] == [2, 3, 4]
    assert [(len(each.triggers), each.triggers_left_out) for each in history] == [(TRIGGERS_MAX, 5)] * 3
