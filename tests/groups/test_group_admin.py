"""Groups described, listed and deleted; and why they rebalanced."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.groups.history import TRIGGERS_MAX, RebalanceHistory, Trigger
from ottla.machines.outcome import RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_groups_response import DeleteGroupsResponse
from tests.support.groups.group_harness import GROUP, Harness, subscription


def delete(harness: Harness, *groups: str) -> list[int]:
    outcome = harness.shard.decide_delete_groups(groups, RequestContext(api_version=2), harness.now_ms)
    harness.take(outcome, "admin#0v2")
    reply: Any = outcome.reply
    return [result.error_code for result in reply.results]


def reasons(harness: Harness, *groups: str) -> list[str | None]:
    """What a client that knows version 3 is told."""
    outcome = harness.shard.decide_delete_groups(groups, RequestContext(api_version=3), harness.now_ms)
    assert outcome.reply is not None
    response = DeleteGroupsResponse.decode(3, outcome.reply.encode(3))
    return [each.error_message for each in response.results]


def test_a_group_is_described_in_every_state() -> None:
    harness = Harness()

    def described() -> tuple[Any, ...]:
        group = harness.shard.describe_group(GROUP, 6)
        members = [(each.client_id, each.member_metadata, each.member_assignment) for each in group.members]
        return group.group_state, group.protocol_type, group.protocol_data, members

    harness.arrive("a")
    assert described() == ("PreparingRebalance", "consumer", "", [("a", b"", b"")])
    harness.wait(3_000)
    assert described() == ("CompletingRebalance", "consumer", "", [("a", b"", b"")])
    harness.sync("a", {"a": "all"})
    assert described() == ("Stable", "consumer", "range", [("a", subscription("t"), b"all")])
    harness.leave("a")
    assert described() == ("Empty", "consumer", "", [])
    delete(harness, GROUP)
    assert described() == ("Dead", "", "", [])


def test_a_member_is_described_with_its_client() -> None:
    harness = Harness()
    harness.stable("a", static=True)
    (member,) = harness.shard.describe_group(GROUP, 6).members
    assert (member.member_id, member.group_instance_id, member.client_id, member.client_host) == (
        "a-1",
        "a",
        "a",
        "/a",
    )


def test_a_group_that_is_not_there() -> None:
    harness = Harness()
    old = harness.shard.describe_group("no", 5)
    assert (old.group_state, old.error_code, old.error_message) == ("Dead", 0, None)
    new = harness.shard.describe_group("no", 6)
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
        ((" Stable ",), (), ["g"]),
        (("nonsense",), (), []),
    ],
)
def test_groups_are_listed_by_state_and_type(
    states: tuple[str, ...], types: tuple[str, ...], found: list[str]
) -> None:
    harness = Harness()
    harness.stable("a")
    harness.arrive("w", group="waiting")
    harness.commit("s", {("t", 0): 1}, group_id="simple")
    listed = harness.shard.list_groups(states, types)
    assert [each.group_id for each in listed] == found
    assert all(each.group_type == "classic" for each in listed)


def test_deleting_groups() -> None:
    harness = Harness()
    harness.stable("a")
    harness.commit("a", {("t", 0): 5})
    harness.commit("s", {("t", 1): 6}, group_id="simple")
    assert delete(harness, "g", "no", "simple") == [
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.NONE,
    ]
    assert harness.fetch(group="simple") == {}
    assert reasons(harness, "g", "no") == ["Group g has members.", "Group no not found."]
    harness.leave("a")
    assert delete(harness, "g") == [ErrorCode.NONE]
    assert harness.shard.list_groups() == []
    harness.reload()
    assert harness.shard.list_groups() == []
    assert harness.fetch() == {}
    # Nothing is left of the timers that the group had: they would go off in its successor.
    harness.stable("b")
    assert harness.heartbeat("b") == ErrorCode.NONE
    assert harness.heartbeat("a") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_id_of_a_deleted_group_is_unknown() -> None:
    harness = Harness()
    harness.join("a")
    assert delete(harness, GROUP) == [ErrorCode.NONE]
    assert harness.join("a").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    harness.wait(600_000)


def test_a_group_in_which_nothing_ever_happened_is_forgotten() -> None:
    harness = Harness()
    harness.join("a")
    harness.wait(1_300_000)
    assert harness.shard.list_groups() == []


def test_rebalances_are_explained() -> None:
    harness = Harness()
    began_ms = harness.now_ms
    harness.arrive("a", reason="hello")
    harness.wait(1_000)
    harness.arrive("b")
    harness.wait(5_500)
    harness.sync("b")
    harness.sync("a", {"a": "a", "b": "b"})
    harness.wait(500)
    harness.leave("b", reason="bye")
    (first, second) = harness.shard.rebalances(GROUP)
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
    assert harness.shard.rebalances("no") == []


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
