"""Consumer groups told as events and what comes of them: records in parentheses, then the answer."""

from __future__ import annotations

import pytest

from ottla.groups.assignors import ASSIGNORS
from ottla.groups.history import MEMBER_JOINED, SESSION_TIMED_OUT, TOPICS_CHANGED
from ottla.protocol.errors import ErrorCode
from tests.support.groups.consumer_desk import GROUP, START_MS, ConsumerDesk


def test_a_first_member_gets_everything_at_once() -> None:
    desk = ConsumerDesk()
    desk.join("a", "t")
    assert desk.transcript() == [
        "(a reads t)",
        "(group epoch 1)",
        "(a should have t:0,1,2,3)",
        "(assigned for 1)",
        "(a stable in 1: t:0,1,2,3)",
        "a: epoch 1, t:0,1,2,3",
    ]
    assert desk.group.state_name == "Stable"
    desk.ack("a")
    desk.beat("a")
    assert desk.transcript() == ["a: epoch 1", "a: epoch 1"]


def test_a_second_member_gets_what_the_first_has_revoked() -> None:
    desk = ConsumerDesk()
    desk.join("a", "t")
    desk.ack("a")
    desk.wait(1000)
    desk.transcript()
    desk.join("b", "t")
    assert desk.transcript() == [
        "(b reads t)",
        "(group epoch 2)",
        "(a should have t:0,1)",
        "(b should have t:2,3)",
        "(assigned for 2)",
        "(b unreleased in 2: nothing)",
        "b: epoch 2, nothing",
    ]
    desk.beat("a")
    assert desk.transcript() == ["(a unrevoked in 1: t:0,1, revokes t:2,3)", "a: epoch 1, t:0,1"]
    assert desk.group.state_name == "Reconciling"
    # Not while it says that it has them, or says nothing.
    desk.beat("a")
    desk.beat("a", owned={"t": [0, 1, 3]})
    desk.beat("b")
    assert desk.transcript() == ["a: epoch 1", "a: epoch 1, t:0,1", "b: epoch 2"]
    desk.beat("a", owned={"t": [0, 1]})
    desk.beat("b")
    assert desk.transcript() == [
        "(a stable in 2: t:0,1)",
        "a: epoch 2",
        "(b stable in 2: t:2,3)",
        "b: epoch 2, t:2,3",
    ]
    assert desk.group.state_name == "Stable"


def test_who_waits_is_asked_back_soon() -> None:
    desk = ConsumerDesk()
    desk.join("a", "t")
    desk.wait(1000)
    desk.join("b", "t")
    assert (desk.intervals["a"], desk.intervals["b"]) == (5000, 500)
    desk.settle("a", "b")
    assert (desk.intervals["a"], desk.intervals["b"]) == (5000, 5000)


def test_many_that_join_at_once_are_assigned_together() -> None:
    desk = ConsumerDesk({"t": 12})
    for who in "abcdef":
        desk.join(who, "t")
        desk.wait(10)
    lines = desk.transcript()
    assert [line for line in lines if line.startswith("(assigned")] == ["(assigned for 1)"]
    assert lines[-1] == "f: epoch 1, nothing" and desk.group.state_name == "Assigning"
    desk.wait(1000)
    assert desk.transcript()[-1] == "(assigned for 6)"
    desk.settle(*"abcdef")
    assert all(len(each["t"]) == 2 for each in desk.owned.values())


def test_nobody_else_is_touched_when_one_leaves() -> None:
    desk = ConsumerDesk({"t": 6})
    for who in "abc":
        desk.join(who, "t")
    desk.settle(*"abc")
    before = {who: desk.owned[who]["t"] for who in "abc"}
    desk.leave("b")
    assert desk.transcript()[:4] == [
        "(no CurrentMemberAssignment b)",
        "(no TargetAssignmentMember b)",
        "(no MemberMetadata b)",
        "(group epoch 4)",
    ]
    desk.wait(1000)
    desk.beat("a")
    desk.beat("c")
    # One heartbeat each: nothing has to be revoked, and what each had it has.
    assert desk.group.state_name == "Stable"
    for who in "ac":
        assert set(before[who]) < set(desk.owned[who]["t"])


def test_a_member_that_falls_silent_is_gone_after_its_session() -> None:
    desk = ConsumerDesk()
    desk.join("a", "t")
    desk.join("b", "t")
    desk.settle("a", "b")
    desk.wait(30_000)
    desk.beat("a")
    desk.wait(14_000)
    assert "b" in desk.group.members
    desk.wait(1_500)
    assert [*desk.group.members] == ["a"]
    desk.beat("a")
    assert desk.owned["a"] == {"t": [0, 1, 2, 3]}
    desk.transcript()
    desk.beat("b")
    assert desk.transcript() == ["b: UNKNOWN_MEMBER_ID"]
    last = [*desk.group.history][-1]
    assert [(each.what, each.member_id) for each in last.triggers] == [(SESSION_TIMED_OUT, "b")]
    assert last.duration_ms == 500 and last.member_count == 1


def test_a_member_that_does_not_revoke_in_time_is_gone() -> None:
    desk = ConsumerDesk()
    desk.join("a", "t", rebalance_timeout_ms=10_000)
    desk.wait(1000)
    desk.join("b", "t")
    desk.beat("a")
    for _ in range(3):
        desk.wait(3_000)
        desk.beat("a")
    assert "a" in desk.group.members
    desk.wait(1_000)
    assert "a" not in desk.group.members
    desk.beat("b")
    assert desk.owned["b"] == {"t": [0, 1, 2, 3]}


def test_revoking_in_time_stops_the_clock() -> None:
    desk = ConsumerDesk()
    desk.join("a", "t", rebalance_timeout_ms=10_000)
    desk.wait(1000)
    desk.join("b", "t")
    desk.beat("a")
    desk.ack("a")
    desk.wait(20_000)
    assert "a" in desk.group.members


def test_topics_that_change_are_assigned_anew() -> None:
    desk = ConsumerDesk()
    desk.join("a", "t", "later")
    desk.wait(2000)
    desk.transcript()
    desk.topics.set("t", 6)
    desk.topics.set("other", 1)
    desk.beat("a")
    assert desk.transcript() == [
        "(group epoch 2)",
        "(a should have t:0,1,2,3,4,5)",
        "(assigned for 2)",
        "(a stable in 2: t:0,1,2,3,4,5)",
        "a: epoch 2, t:0,1,2,3,4,5",
    ]
    desk.topics.set("later", 1)
    desk.topics.drop("t")
    desk.beat("a")
    # "?" is the topic that is gone: the member has to let go of it like of any other.
    assert desk.transcript()[-2:] == [
        "(a unrevoked in 2: nothing, revokes ?:0,1,2,3,4,5)",
        "a: epoch 2, nothing",
    ]
    desk.ack("a")
    assert desk.transcript() == ["(a stable in 3: later:0)", "a: epoch 3, later:0"]
    assert [(each.what, each.detail) for rebalance in desk.group.history for each in rebalance.triggers] == [
        (MEMBER_JOINED, ""),
        (TOPICS_CHANGED, "t"),
        (TOPICS_CHANGED, "later, t"),
    ]


def test_a_change_of_other_topics_changes_nothing() -> None:
    desk = ConsumerDesk()
    desk.join("a", "t")
    desk.transcript()
    desk.topics.set("other", 3)
    desk.beat("a")
    desk.beat("a")
    assert desk.transcript() == ["a: epoch 1", "a: epoch 1"]


def test_a_changed_subscription() -> None:
    desk = ConsumerDesk({"t": 2, "u": 2})
    desk.join("a", "t")
    desk.wait(1000)
    desk.transcript()
    desk.beat("a", subscribed_topic_names=["u"])
    assert desk.transcript() == [
        "(a reads u)",
        "(group epoch 2)",
        "(a should have u:0,1)",
        "(assigned for 2)",
        "(a unrevoked in 1: nothing, revokes t:0,1)",
        "a: epoch 1, nothing",
    ]
    desk.ack("a")
    assert desk.transcript() == ["(a stable in 2: u:0,1)", "a: epoch 2, u:0,1"]
    # The same again, in whatever order and however often, is no change.
    desk.beat("a", subscribed_topic_names=["u", "u"])
    assert desk.transcript() == ["a: epoch 2"]


def test_what_is_wanted_back_while_it_is_revoked() -> None:
    desk = ConsumerDesk()
    desk.join("a", "t")
    desk.wait(1000)
    desk.join("b", "t")
    desk.beat("a")
    desk.leave("b")
    desk.wait(1000)
    desk.transcript()
    desk.beat("a")
    assert desk.transcript() == ["a: epoch 1"]
    desk.ack("a")
    # It has revoked them, so they are free, and its own at once.
    assert desk.transcript() == ["(a stable in 3: t:0,1,2,3)", "a: epoch 3, t:0,1,2,3"]


def test_a_target_that_moves_on_while_a_member_revokes() -> None:
    desk = ConsumerDesk()
    desk.join("a", "t")
    desk.wait(1000)
    desk.join("b", "t")
    desk.beat("a")
    desk.wait(1000)
    desk.join("c", "t")
    desk.transcript()
    desk.ack("a")
    assert desk.transcript() == ["(a stable in 3: t:0,1)", "a: epoch 3"]
    desk.topics.set("t", 1)
    desk.topics.set("t", 4)
    desk.settle("a", "b", "c")


def test_answers_that_are_lost() -> None:
    desk = ConsumerDesk()
    desk.join("a", "t")
    desk.wait(1000)
    # Its first answer did not arrive: it asks again from the start, and gets it in full.
    desk.join("a", "t")
    desk.join("b", "t")
    desk.beat("a")
    desk.ack("a")
    desk.transcript()
    # It knows of epoch 1 only, and of what it kept.
    desk.beat("a", member_epoch=1, owned={"t": [0, 1]})
    desk.beat("a", member_epoch=1, owned={"t": [0]})
    desk.beat("a", member_epoch=1, owned={"t": [0, 2]})
    desk.beat("a", member_epoch=1)
    desk.beat("a", member_epoch=0, rebalance_timeout_ms=1, subscribed_topic_names=["t"], owned={})
    assert desk.transcript() == [
        "a: epoch 2",
        "a: epoch 2, t:0,1",
        "a: FENCED_MEMBER_EPOCH",
        "a: FENCED_MEMBER_EPOCH",
        "(a reads t)",
        "a: epoch 2, t:0,1",
    ]


def test_a_full_request_gets_a_full_answer() -> None:
    desk = ConsumerDesk()
    desk.join("a", "t")
    desk.transcript()
    desk.beat("a", rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], owned={"t": [0, 1, 2, 3]})
    assert desk.transcript() == ["a: epoch 1, t:0,1,2,3"]


def test_a_static_member_restarts_and_nobody_notices() -> None:
    desk = ConsumerDesk()
    desk.join("a", "t", instance_id="i1")
    desk.join("b", "t")
    desk.settle("a", "b")
    had = desk.owned["a"]
    desk.leave("a", member_epoch=-2, instance_id="i1")
    assert desk.transcript() == ["(a stable in -2: t:0,1)", "a: epoch -2"]
    desk.wait(40_000)
    desk.beat("b")
    desk.transcript()
    desk.join("a2", "t", instance_id="i1", rebalance_timeout_ms=60_000)
    assert desk.transcript() == [
        "(no CurrentMemberAssignment a)",
        "(no TargetAssignmentMember a)",
        "(no MemberMetadata a)",
        "(a2 reads t)",
        "(a2 should have t:0,1)",
        "(a2 stable in 0: t:0,1)",
        "(a2 reads t)",  # now with the client id of a2
        "(a2 stable in 2: t:0,1)",
        "a2: epoch 2, t:0,1",
    ]
    assert desk.owned["a2"] == had and desk.group.epoch == 2
    assert desk.group.state_name == "Stable"


def test_a_static_member_restarts_before_it_has_revoked() -> None:
    """What it had to give up is given up with it."""
    desk = ConsumerDesk()
    desk.join("a", "t", instance_id="i1")
    desk.ack("a")
    desk.wait(1000)
    desk.join("b", "t")
    desk.beat("a")
    assert desk.group.members["a"].revoking
    desk.leave("a", member_epoch=-2, instance_id="i1")
    desk.wait(500)
    desk.join("a2", "t", instance_id="i1")
    desk.settle("a2", "b")
    assert sorted([*desk.owned["a2"]["t"], *desk.owned["b"]["t"]]) == [0, 1, 2, 3]
    assert len(desk.owned["b"]["t"]) == 2


def test_a_static_member_that_does_not_come_back_is_gone_after_its_session() -> None:
    desk = ConsumerDesk()
    desk.join("a", "t", instance_id="i1")
    desk.wait(30_000)
    desk.leave("a", member_epoch=-2, instance_id="i1")
    desk.wait(44_000)
    assert "a" in desk.group.members
    desk.wait(1_000)
    assert not desk.group.members and not desk.group.static_ids
    assert desk.group.state_name == "Empty"


def test_a_group_that_is_empty_begins_again() -> None:
    desk = ConsumerDesk()
    desk.join("a", "t")
    desk.leave("a")
    assert desk.group.state_name == "Empty" and desk.group.epoch == 2
    desk.transcript()
    desk.join("a", "t")
    assert desk.transcript()[-1] == "a: epoch 3, t:0,1,2,3"


def test_more_members_than_partitions() -> None:
    desk = ConsumerDesk({"t": 2})
    for who in "abc":
        desk.join(who, "t")
    desk.settle(*"abc")
    assert sorted(len(each.get("t", [])) for each in desk.owned.values()) == [0, 1, 1]


def test_a_members_wish_for_an_assignor() -> None:
    desk = ConsumerDesk({"t": 2, "u": 2})
    desk.join("b", "t", "u", server_assignor="range")
    desk.wait(1000)
    desk.join("a", "t", "u")
    desk.settle("a", "b")
    assert desk.owned == {"a": {"t": [0], "u": [0]}, "b": {"t": [1], "u": [1]}}
    assert desk.shard.describe_consumer_group(GROUP).assignor_name == "range"
    assert "range" in ASSIGNORS


def test_settings_of_the_group_itself() -> None:
    desk = ConsumerDesk(
        overrides={"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "99999"}
    )
    assert desk.join("a", "t").heartbeat_interval_ms == 15_000
    assert desk.beat("a").heartbeat_interval_ms == 15_000
    desk.wait(49_999)
    assert desk.group.members
    desk.wait(1)
    assert not desk.group.members


@pytest.mark.parametrize(
    ("of_the_broker", "of_the_group", "interval_ms"),
    [
        ({}, {}, 1000),
        ({"group_consumer_assignment_interval_ms": "300"}, {}, 300),
        ({"group_consumer_assignment_interval_ms": "300"}, {"consumer.assignment.interval.ms": "700"}, 700),
        ({"group_consumer_assignment_interval_ms": "0"}, {}, 0),
        (
            {"group_consumer_max_assignment_interval_ms": "400"},
            {"consumer.assignment.interval.ms": "5000"},
            400,
        ),
    ],
)
def test_assignments_keep_their_distance(
    of_the_broker: dict[str, str], of_the_group: dict[str, str], interval_ms: int
) -> None:
    desk = ConsumerDesk(overrides=of_the_group, **of_the_broker)
    desk.join("a", "t")
    desk.join("b", "t")
    if interval_ms:
        desk.wait(interval_ms - 1)
        assert desk.group.assignment_epoch < desk.group.epoch
        desk.wait(1)
    assert desk.group.assignment_epoch == desk.group.epoch


def test_racks_are_kept_in_mind() -> None:
    desk = ConsumerDesk()
    desk.topics.set("t", 4, [("r1",), ("r2",), ("r1",), ("r2",)])
    desk.join("a", "t", rack_id="r2")
    desk.wait(1000)
    desk.join("b", "t", rack_id="r1")
    desk.settle("a", "b")
    assert desk.owned == {"a": {"t": [1, 3]}, "b": {"t": [0, 2]}}


def test_a_new_coordinator_takes_over() -> None:
    desk = ConsumerDesk()
    desk.join("a", "t")
    desk.wait(1000)
    desk.join("b", "t")
    desk.beat("a")
    described = desk.shard.describe_consumer_group(GROUP)
    desk.reload()
    assert desk.shard.describe_consumer_group(GROUP) == described
    desk.transcript()
    desk.beat("a")
    desk.ack("a")
    desk.beat("b")
    assert desk.transcript() == [
        "a: epoch 1",
        "(a stable in 2: t:0,1)",
        "a: epoch 2",
        "(b stable in 2: t:2,3)",
        "b: epoch 2, t:2,3",
    ]
    # Sessions began anew with it.
    desk.reload()
    desk.wait(44_999)
    assert len(desk.group.members) == 2
    desk.wait(1)
    assert not desk.group.members


def test_a_new_coordinator_makes_the_assignment_that_was_due() -> None:
    desk = ConsumerDesk()
    desk.join("a", "t")
    desk.join("b", "t")
    assert desk.group.state_name == "Assigning"
    desk.transcript()
    desk.reload()
    assert desk.transcript() == []
    desk.wait(1000)
    assert desk.transcript()[-1] == "(assigned for 2)"


def test_the_deadline_for_revoking_outlives_the_coordinator() -> None:
    desk = ConsumerDesk()
    desk.join("a", "t", rebalance_timeout_ms=10_000)
    desk.wait(1000)
    desk.join("b", "t")
    desk.beat("a")
    desk.reload()
    desk.wait(9_999)
    desk.beat("a")
    desk.wait(1)
    assert [*desk.group.members] == ["b"]


def test_describe() -> None:
    desk = ConsumerDesk()
    desk.join("a", "t", instance_id="i1", rack_id="r")
    desk.wait(1000)
    desk.join("b", "t")
    described = desk.shard.describe_consumer_group(GROUP)
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 2, 2)
    assert described.assignor_name == "uniform"
    a, b = described.members
    assert (a.member_id, a.instance_id, a.rack_id, a.member_epoch) == ("a", "i1", "r", 1)
    assert (a.client_id, a.client_host, a.member_type) == ("a", "/a", 1)
    assert a.subscribed_topic_names == ["t"] and a.subscribed_topic_regex is None
    (held,) = a.assignment.topic_partitions
    assert (held.topic_name, held.topic_id, held.partitions) == ("t", desk.id("t"), [0, 1, 2, 3])
    assert a.target_assignment.topic_partitions[0].partitions == [0, 1]
    assert b.assignment.topic_partitions == []
    assert b.target_assignment.topic_partitions[0].partitions == [2, 3]
    unknown = desk.shard.describe_consumer_group("nobody")
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND and unknown.error_message


def test_the_history_says_why() -> None:
    desk = ConsumerDesk()
    desk.join("a", "t")
    desk.wait(1000)
    desk.join("b", "t")
    desk.wait(2000)
    desk.beat("a")
    desk.wait(500)
    desk.ack("a")
    desk.beat("b")
    first, second = desk.group.history
    assert (first.began_ms, first.duration_ms, first.generation, first.member_count) == (START_MS, 0, 1, 1)
    assert (second.began_ms, second.duration_ms) == (START_MS + 1000, 2500)
    assert (second.generation, second.member_count) == (2, 2)
    (trigger,) = second.triggers
    assert (trigger.what, trigger.member_id, trigger.client_id, trigger.client_host) == (
        MEMBER_JOINED,
        "b",
        "b",
        "/b",
    )
