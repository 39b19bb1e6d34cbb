"""What is refused, in which state, with which error."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from tests.support.groups.group_desk import Desk


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
    desk = Desk()
    response = desk.join("a", **changes)
    assert (response.error_code, response.member_id) == (code, changes.get("member_id", ""))
    assert desk.shard.list_groups() == []
    assert desk.log == []


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
    desk = Desk()
    desk.stable("a")
    assert desk.join("b", **changes).error_code == code
    assert desk.heartbeat("a") == ErrorCode.NONE


def test_a_protocol_that_all_speak_is_chosen_by_vote() -> None:
    desk = Desk()
    first = {"range": b"", "sticky": b""}
    second = {"sticky": b"", "range": b"", "own": b""}
    desk.arrive("a", protocols=first, protocol_type="any")
    desk.arrive("b", protocols=second, protocol_type="any")
    desk.arrive("c", protocols=second, protocol_type="any")
    assert desk.join("d", protocols={"own": b""}, protocol_type="any").error_code == 23
    desk.wait(6_000)
    response = desk.transcript()[-1]
    assert response == "c joined as c-3: generation 1, sticky, led by a-1"


def test_an_empty_group_may_change_its_protocol_type() -> None:
    desk = Desk()
    desk.stable("a")
    desk.leave("a")
    desk.arrive("w", protocols={"v1": b"worker"}, protocol_type="connect")
    desk.wait(3_000)
    assert desk.transcript()[-1] == "w joined as w-2: generation 3, v1, led by w-2 over w-2"
    desk.sync("w", {"w": "task"}, protocol_type="connect", protocol_name="v1")
    described = desk.shard.describe_group("g", 6)
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
    desk = Desk()
    desk.stable("a")
    assert desk.heartbeat("a", **changes) == code
    assert desk.sync("a", **changes).error_code == code


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
    desk = Desk()
    desk.stable("a")
    assert desk.sync("a", **changes).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_syncs_of_old_versions_need_not_name_the_protocol() -> None:
    desk = Desk()
    desk.stable("a")
    assert desk.sync("a", version=4).assignment == b"a"


def test_a_sync_during_a_rebalance() -> None:
    desk = Desk()
    desk.stable("a", "b")
    desk.arrive("c")
    assert desk.sync("a").error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_heartbeats_keep_sessions_alive_in_every_state() -> None:
    desk = Desk(group_initial_rebalance_delay_ms="0")
    desk.stable("a")
    desk.arrive("b", session_ms=100_000)
    for _ in range(4):
        desk.wait(5_000)
        assert desk.heartbeat("a") == ErrorCode.REBALANCE_IN_PROGRESS
    desk.join("a")
    for _ in range(4):
        desk.wait(5_000)
        assert desk.heartbeat("a") == ErrorCode.NONE  # the generation is complete but for the assignment
    desk.sync("a", {"a": "a", "b": "b"})
    for _ in range(4):
        desk.wait(5_000)
        assert desk.heartbeat("a") == ErrorCode.NONE


def test_leaving() -> None:
    desk = Desk()
    desk.stable("a", "b")
    desk.ids["stranger"] = "stranger-9"
    assert desk.leave("stranger", version=2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.leave("stranger").members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.leave("a", version=0).error_code == ErrorCode.NONE
    assert desk.leave("a", version=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    empty = Desk()
    empty.ids["a"] = "a-1"
    assert empty.leave("a").members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_given_out_is_waited_for() -> None:
    desk = Desk()
    desk.stable("a")
    desk.join("b", session_ms=7_000)
    desk.arrive("c")
    desk.join("a")
    desk.transcript()
    assert desk.waiting
    desk.wait(7_000)
    assert desk.transcript() == [
        "-- 13000 ms",
        "a joined as a-1: generation 2, range, led by a-1 over a-1 c-3",
        "c joined as c-3: generation 2, range, led by a-1",
    ]
    assert desk.join("b").error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_given_out_may_be_given_back() -> None:
    desk = Desk()
    desk.stable("a")
    desk.join("b")
    desk.arrive("c")
    desk.join("a")
    assert desk.leave("b").members[0].error_code == ErrorCode.NONE
    assert not desk.waiting


def test_a_newcomer_that_is_not_answered_for_minutes_is_forgotten() -> None:
    desk = Desk()
    desk.stable("a")
    desk.join("a", rebalance_ms=1_000_000)  # the leader rejoins, so that its rebalance timeout is known
    desk.sync("a", {"a": "a"})
    desk.arrive("b", rebalance_ms=1_000_000)
    for _ in range(60):
        desk.wait(5_000)
        desk.heartbeat("a")
    assert "b join: UNKNOWN_MEMBER_ID" in desk.transcript()


def test_the_size_of_a_group_is_limited() -> None:
    desk = Desk(group_max_size="2")
    desk.stable("a", "b")
    assert desk.join("c").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert desk.join("a", member_id=desk.ids["b"]).error_code == ErrorCode.NONE
    assert desk.heartbeat("a") == ErrorCode.NONE


def test_in_a_rebalance_the_first_to_come_have_the_places() -> None:
    desk = Desk(group_max_size="2")
    for who in ("a", "b", "c"):
        desk.join(who)
    for who in ("a", "b"):
        desk.join(who)
    assert desk.join("c").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    desk.wait(6_000)
    assert len([line for line in desk.transcript() if "joined" in line]) == 2


def test_a_group_that_is_larger_than_its_coordinator_allows_shrinks() -> None:
    desk = Desk()
    desk.stable("a", "b", "c")
    desk.config.max_size = 2
    desk.reload()
    assert desk.heartbeat("a") == ErrorCode.REBALANCE_IN_PROGRESS
    desk.join("c")
    desk.join("b")
    assert desk.join("a").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [line.partition(",")[0] for line in desk.transcript() if "joined" in line] == [
        "b joined as b-2: generation 2",
        "c joined as c-3: generation 2",
    ]


def test_a_new_coordinator_knows_the_stable_group() -> None:
    desk = Desk()
    desk.stable("a", "b")
    desk.arrive("c")
    desk.join("b")
    desk.transcript()
    desk.reload()
    assert sorted(desk.transcript()) == ["b join: NOT_COORDINATOR b-2", "c join: NOT_COORDINATOR c-3"]
    assert desk.heartbeat("a") == desk.heartbeat("b") == ErrorCode.NONE
    assert desk.sync("b").assignment == b"b"
    assert desk.join("c").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    desk.wait(9_999)
    assert desk.heartbeat("a") == ErrorCode.NONE
    desk.wait(2)
    assert desk.heartbeat("b") == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "metadata", [b"", b"\0", b"\0\0\0\0\0\1\0\5ab", b"\xff" * 40, b"\0\1\0\0\0\1\0\1\xff"]
)
def test_metadata_may_be_anything(metadata: bytes) -> None:
    desk = Desk()
    desk.arrive("a", protocols={"range": metadata})
    desk.wait(3_000)
    desk.sync("a", {"a": "a"})
    assert desk.shard.describe_group("g", 6).group_state == "Stable"
    group: Any = desk.shard.group("g")
    assert group.subscribed is None
    assert group.is_subscribed_to("whatever")


def test_a_protocol_that_is_named_twice_counts_once() -> None:
    desk = Desk()
    twice = [JoinGroupRequestProtocol(name="range", metadata=data) for data in (b"first", b"second")]
    fields: dict[str, Any] = {"group_id": "g", "session_timeout_ms": 10_000, "protocol_type": "any"}
    desk.ask("a", "join_group", JoinGroupRequest(**fields, protocols=twice), 3)
    desk.arrive("b", protocols={"range": b""}, protocol_type="any")
    desk.wait(6_000)
    assert desk.transcript()[-2:] == [
        "a joined as a-1: generation 1, range, led by a-1 over a-1 b-2",
        "b joined as b-2: generation 1, range, led by a-1",
    ]
    group: Any = desk.shard.group("g")
    assert group.members["a-1"].metadata("range") == b"first"


def test_an_id_given_to_a_dynamic_member_is_not_for_a_static_one() -> None:
    desk = Desk()
    desk.stable("s", static=True)
    desk.join("b")
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        member_id=desk.ids["b"],
        group_instance_id="s",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    assert desk.ask("b", "join_group", request).error_code == ErrorCode.FENCED_INSTANCE_ID


def test_ids_that_are_never_used_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.groups.classic.rebalance.PENDING_MEMBERS_MAX", 3)
    desk = Desk()
    for _ in range(5):
        desk.join("a", fresh=True)
    group: Any = desk.shard.group("g")
    assert [*group.pending_members] == ["a-3", "a-4", "a-5"]
    desk.wait(20_000)
    assert not group.pending_members
