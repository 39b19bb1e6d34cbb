"""Errors of the classic protocol by state."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from tests.support.groups.group_harness import Harness


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": {}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_joins_that_are_refused_leave_no_group(changes: dict[str, Any], code: ErrorCode) -> None:
    harness = Harness()
    response = harness.join("a", **changes)
    assert (response.error_code, response.member_id) == (code, changes.get("member_id", ""))
    assert harness.shard.list_groups() == []
    assert harness.log == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "nobody", "static": True}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": {"other": b""}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_joins_that_a_group_refuses(changes: dict[str, Any], code: ErrorCode) -> None:
    harness = Harness()
    harness.stable("a")
    assert harness.join("b", **changes).error_code == code
    assert harness.heartbeat("a") == ErrorCode.NONE


def test_a_protocol_that_all_speak_is_chosen_by_vote() -> None:
    harness = Harness()
    first = {"range": b"", "sticky": b""}
    second = {"sticky": b"", "range": b"", "own": b""}
    harness.arrive("a", protocols=first, protocol_type="any")
    harness.arrive("b", protocols=second, protocol_type="any")
    harness.arrive("c", protocols=second, protocol_type="any")
    assert harness.join("d", protocols={"own": b""}, protocol_type="any").error_code == 23
    harness.wait(6_000)
    response = harness.transcript()[-1]
    assert response == "c joined as c-3: generation 1, sticky, led by a-1"


def test_an_empty_group_may_change_its_protocol_type() -> None:
    harness = Harness()
    harness.stable("a")
    harness.leave("a")
    harness.arrive("w", protocols={"v1": b"worker"}, protocol_type="connect")
    harness.wait(3_000)
    assert harness.transcript()[-1] == "w joined as w-2: generation 3, v1, led by w-2 over w-2"
    harness.sync("w", {"w": "task"}, protocol_type="connect", protocol_name="v1")
    described = harness.shard.describe_group("g", 6)
    assert (described.protocol_type, described.protocol_data) == ("connect", "v1")
    assert described.members[0].member_metadata == b"worker"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"group_instance_id": "a"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_heartbeats_and_syncs_that_are_refused(changes: dict[str, Any], code: ErrorCode) -> None:
    harness = Harness()
    harness.stable("a")
    assert harness.heartbeat("a", **changes) == code
    assert harness.sync("a", **changes).error_code == code


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol_type": "other"},
        {"protocol_name": "other"},
        {"protocol_type": None},
        {"protocol_name": None},
    ],
)
def test_syncs_about_another_protocol(changes: dict[str, Any]) -> None:
    harness = Harness()
    harness.stable("a")
    assert harness.sync("a", **changes).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_syncs_of_old_versions_need_not_name_the_protocol() -> None:
    harness = Harness()
    harness.stable("a")
    assert harness.sync("a", version=4).assignment == b"a"


def test_a_sync_during_a_rebalance() -> None:
    harness = Harness()
    harness.stable("a", "b")
    harness.arrive("c")
    assert harness.sync("a").error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_heartbeats_keep_sessions_alive_in_every_state() -> None:
    harness = Harness(group_initial_rebalance_delay_ms="0")
    harness.stable("a")
    harness.arrive("b", session_ms=100_000)
    for _ in range(4):
        harness.wait(5_000)
        assert harness.heartbeat("a") == ErrorCode.REBALANCE_IN_PROGRESS
    harness.join("a")
    for _ in range(4):
        harness.wait(5_000)
        assert harness.heartbeat("a") == ErrorCode.NONE  # the generation is complete but for the assignment
    harness.sync("a", {"a": "a", "b": "b"})
    for _ in range(4):
        harness.wait(5_000)
        assert harness.heartbeat("a") == ErrorCode.NONE


def test_leaving() -> None:
    harness = Harness()
    harness.stable("a", "b")
    harness.ids["stranger"] = "stranger-9"
    assert harness.leave("stranger", version=2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.leave("stranger").members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.leave("a", version=0).error_code == ErrorCode.NONE
    assert harness.leave("a", version=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    empty = Harness()
    empty.ids["a"] = "a-1"
    assert empty.leave("a").members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_group_waits_for_a_member_id_that_was_handed_out() -> None:
    harness = Harness()
    harness.stable("a")
    harness.join("b", session_ms=7_000)
    harness.arrive("c")
    harness.join("a")
    harness.transcript()
    assert harness.waiting
    harness.wait(7_000)
    assert harness.transcript() == [
        "-- 13000 ms",
        "a joined as a-1: generation 2, range, led by a-1 over a-1 c-3",
        "c joined as c-3: generation 2, range, led by a-1",
    ]
    assert harness.join("b").error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_id_that_was_handed_out_may_be_returned() -> None:
    harness = Harness()
    harness.stable("a")
    harness.join("b")
    harness.arrive("c")
    harness.join("a")
    assert harness.leave("b").members[0].error_code == ErrorCode.NONE
    assert not harness.waiting


def test_a_newcomer_that_is_not_answered_for_minutes_is_forgotten() -> None:
    harness = Harness()
    harness.stable("a")
    harness.join("a", rebalance_ms=1_000_000)  # the leader rejoins, so that its rebalance timeout is known
    harness.sync("a", {"a": "a"})
    harness.arrive("b", rebalance_ms=1_000_000)
    for _ in range(60):
        harness.wait(5_000)
        harness.heartbeat("a")
    assert "b join: UNKNOWN_MEMBER_ID" in harness.transcript()


def test_the_size_of_a_group_is_limited() -> None:
    harness = Harness(group_max_size="2")
    harness.stable("a", "b")
    assert harness.join("c").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert harness.join("a", member_id=harness.ids["b"]).error_code == ErrorCode.NONE
    assert harness.heartbeat("a") == ErrorCode.NONE


def test_in_a_rebalance_the_first_to_come_have_the_places() -> None:
    harness = Harness(group_max_size="2")
    for client in ("a", "b", "c"):
        harness.join(client)
    for client in ("a", "b"):
        harness.join(client)
    assert harness.join("c").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    harness.wait(6_000)
    assert len([line for line in harness.transcript() if "joined" in line]) == 2


def test_a_group_that_is_larger_than_its_coordinator_allows_shrinks() -> None:
    harness = Harness()
    harness.stable("a", "b", "c")
    harness.config.max_size = 2
    harness.reload()
    assert harness.heartbeat("a") == ErrorCode.REBALANCE_IN_PROGRESS
    harness.join("c")
    harness.join("b")
    assert harness.join("a").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [line.partition(",")[0] for line in harness.transcript() if "joined" in line] == [
        "b joined as b-2: generation 2",
        "c joined as c-3: generation 2",
    ]


def test_a_new_coordinator_knows_the_stable_group() -> None:
    harness = Harness()
    harness.stable("a", "b")
    harness.arrive("c")
    harness.join("b")
    harness.transcript()
    harness.reload()
    assert sorted(harness.transcript()) == ["b join: NOT_COORDINATOR b-2", "c join: NOT_COORDINATOR c-3"]
    assert harness.heartbeat("a") == harness.heartbeat("b") == ErrorCode.NONE
    assert harness.sync("b").assignment == b"b"
    assert harness.join("c").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    harness.wait(9_999)
    assert harness.heartbeat("a") == ErrorCode.NONE
    harness.wait(2)
    assert harness.heartbeat("b") == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "metadata", [b"", b"\0", b"\0\0\0\0\0\1\0\5ab", b"\xff" * 40, b"\0\1\0\0\0\1\0\1\xff"]
)
def test_metadata_may_be_anything(metadata: bytes) -> None:
    harness = Harness()
    harness.arrive("a", protocols={"range": metadata})
    harness.wait(3_000)
    harness.sync("a", {"a": "a"})
    assert harness.shard.describe_group("g", 6).group_state == "Stable"
    group: Any = harness.shard.group("g")
    assert group.subscribed is None
    assert group.is_subscribed_to("whatever")


def test_a_protocol_that_is_named_twice_counts_once() -> None:
    harness = Harness()
    twice = [JoinGroupRequestProtocol(name="range", metadata=data) for data in (b"first", b"second")]
    fields: dict[str, Any] = {"group_id": "g", "session_timeout_ms": 10_000, "protocol_type": "any"}
    harness.ask("a", "join_group", JoinGroupRequest(**fields, protocols=twice), 3)
    harness.arrive("b", protocols={"range": b""}, protocol_type="any")
    harness.wait(6_000)
    assert harness.transcript()[-2:] == [
        "a joined as a-1: generation 1, range, led by a-1 over a-1 b-2",
        "b joined as b-2: generation 1, range, led by a-1",
    ]
    group: Any = harness.shard.group("g")
    assert group.members["a-1"].metadata("range") == b"first"


def test_the_member_id_of_a_dynamic_member_does_not_fit_a_static_one() -> None:
    harness = Harness()
    harness.stable("s", static=True)
    harness.join("b")
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        member_id=harness.ids["b"],
        group_instance_id="s",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    assert harness.ask("b", "join_group", request).error_code == ErrorCode.FENCED_INSTANCE_ID


def test_ids_that_are_never_used_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.groups.classic.rebalance.PENDING_MEMBERS_MAX", 3)
    harness = Harness()
    for _ in range(5):
        harness.join("a", fresh=True)
    group: Any = harness.shard.group("g")
    assert [*group.pending_members] == ["a-3", "a-4", "a-5"]
    harness.wait(20_000)
    assert not group.pending_members
