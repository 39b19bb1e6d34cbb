"""Consumer groups as transcripts of events and results: records in parentheses, then the response."""

from __future__ import annotations

import pytest

from ottla.groups.assignors import ASSIGNORS
from ottla.groups.history import MEMBER_JOINED, SESSION_TIMED_OUT, TOPICS_CHANGED
from ottla.protocol.errors import ErrorCode
from tests.support.groups.consumer_harness import GROUP, START_MS, ConsumerHarness


def test_a_first_member_gets_everything_at_once() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    assert harness.transcript() == [
        "(a reads t)",
        "(group epoch 1)",
        "(a should have t:0,1,2,3)",
        "(assigned for 1)",
        "(a stable in 1: t:0,1,2,3)",
        "a: epoch 1, t:0,1,2,3",
    ]
    assert harness.group.state_name == "Stable"
    harness.ack("a")
    harness.beat("a")
    assert harness.transcript() == ["a: epoch 1", "a: epoch 1"]


def test_a_second_member_gets_partitions_that_the_first_revoked() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.ack("a")
    harness.wait(1000)
    harness.transcript()
    harness.join("b", "t")
    assert harness.transcript() == [
        "(b reads t)",
        "(group epoch 2)",
        "(a should have t:0,1)",
        "(b should have t:2,3)",
        "(assigned for 2)",
        "(b unreleased in 2: nothing)",
        "b: epoch 2, nothing",
    ]
    harness.beat("a")
    assert harness.transcript() == ["(a unrevoked in 1: t:0,1, revokes t:2,3)", "a: epoch 1, t:0,1"]
    assert harness.group.state_name == "Reconciling"
    # Not while it says that it has them, or says nothing.
    harness.beat("a")
    harness.beat("a", owned={"t": [0, 1, 3]})
    harness.beat("b")
    assert harness.transcript() == ["a: epoch 1", "a: epoch 1, t:0,1", "b: epoch 2"]
    harness.beat("a", owned={"t": [0, 1]})
    harness.beat("b")
    assert harness.transcript() == [
        "(a stable in 2: t:0,1)",
        "a: epoch 2",
        "(b stable in 2: t:2,3)",
        "b: epoch 2, t:2,3",
    ]
    assert harness.group.state_name == "Stable"


def test_a_waiting_member_gets_a_short_heartbeat_interval() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.wait(1000)
    harness.join("b", "t")
    assert (harness.intervals["a"], harness.intervals["b"]) == (5000, 500)
    harness.settle("a", "b")
    assert (harness.intervals["a"], harness.intervals["b"]) == (5000, 5000)


def test_many_that_join_at_once_are_assigned_together() -> None:
    harness = ConsumerHarness({"t": 12})
    for client in "abcdef":
        harness.join(client, "t")
        harness.wait(10)
    lines = harness.transcript()
    assert [line for line in lines if line.startswith("(assigned")] == ["(assigned for 1)"]
    assert lines[-1] == "f: epoch 1, nothing" and harness.group.state_name == "Assigning"
    harness.wait(1000)
    assert harness.transcript()[-1] == "(assigned for 6)"
    harness.settle(*"abcdef")
    assert all(len(each["t"]) == 2 for each in harness.owned.values())


def test_other_members_keep_their_partitions_when_one_leaves() -> None:
    harness = ConsumerHarness({"t": 6})
    for client in "abc":
        harness.join(client, "t")
    harness.settle(*"abc")
    before = {client: harness.owned[client]["t"] for client in "abc"}
    harness.leave("b")
    assert harness.transcript()[:4] == [
        "(no CurrentMemberAssignment b)",
        "(no TargetAssignmentMember b)",
        "(no MemberMetadata b)",
        "(group epoch 4)",
    ]
    harness.wait(1000)
    harness.beat("a")
    harness.beat("c")
    # One heartbeat each: nothing has to be revoked, and what each had it has.
    assert harness.group.state_name == "Stable"
    for client in "ac":
        assert set(before[client]) < set(harness.owned[client]["t"])


def test_a_member_that_falls_silent_is_gone_after_its_session() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.join("b", "t")
    harness.settle("a", "b")
    harness.wait(30_000)
    harness.beat("a")
    harness.wait(14_000)
    assert "b" in harness.group.members
    harness.wait(1_500)
    assert [*harness.group.members] == ["a"]
    harness.beat("a")
    assert harness.owned["a"] == {"t": [0, 1, 2, 3]}
    harness.transcript()
    harness.beat("b")
    assert harness.transcript() == ["b: UNKNOWN_MEMBER_ID"]
    last = [*harness.group.history][-1]
    assert [(each.what, each.member_id) for each in last.triggers] == [(SESSION_TIMED_OUT, "b")]
    assert last.duration_ms == 500 and last.member_count == 1


def test_a_member_that_does_not_revoke_in_time_is_gone() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t", rebalance_timeout_ms=10_000)
    harness.wait(1000)
    harness.join("b", "t")
    harness.beat("a")
    for _ in range(3):
        harness.wait(3_000)
        harness.beat("a")
    assert "a" in harness.group.members
    harness.wait(1_000)
    assert "a" not in harness.group.members
    harness.beat("b")
    assert harness.owned["b"] == {"t": [0, 1, 2, 3]}


def test_revoking_in_time_stops_the_clock() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t", rebalance_timeout_ms=10_000)
    harness.wait(1000)
    harness.join("b", "t")
    harness.beat("a")
    harness.ack("a")
    harness.wait(20_000)
    assert "a" in harness.group.members


def test_changed_topics_are_reassigned() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t", "later")
    harness.wait(2000)
    harness.transcript()
    harness.topics.set("t", 6)
    harness.topics.set("other", 1)
    harness.beat("a")
    assert harness.transcript() == [
        "(group epoch 2)",
        "(a should have t:0,1,2,3,4,5)",
        "(assigned for 2)",
        "(a stable in 2: t:0,1,2,3,4,5)",
        "a: epoch 2, t:0,1,2,3,4,5",
    ]
    harness.topics.set("later", 1)
    harness.topics.drop("t")
    harness.beat("a")
    # "?" is the deleted topic: the member has to revoke it like any other.
    assert harness.transcript()[-2:] == [
        "(a unrevoked in 2: nothing, revokes ?:0,1,2,3,4,5)",
        "a: epoch 2, nothing",
    ]
    harness.ack("a")
    assert harness.transcript() == ["(a stable in 3: later:0)", "a: epoch 3, later:0"]
    assert [
        (each.what, each.detail) for rebalance in harness.group.history for each in rebalance.triggers
    ] == [
        (MEMBER_JOINED, ""),
        (TOPICS_CHANGED, "t"),
        (TOPICS_CHANGED, "later, t"),
    ]


def test_a_change_of_other_topics_changes_nothing() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.transcript()
    harness.topics.set("other", 3)
    harness.beat("a")
    harness.beat("a")
    assert harness.transcript() == ["a: epoch 1", "a: epoch 1"]


def test_a_changed_subscription() -> None:
    harness = ConsumerHarness({"t": 2, "u": 2})
    harness.join("a", "t")
    harness.wait(1000)
    harness.transcript()
    harness.beat("a", subscribed_topic_names=["u"])
    assert harness.transcript() == [
        "(a reads u)",
        "(group epoch 2)",
        "(a should have u:0,1)",
        "(assigned for 2)",
        "(a unrevoked in 1: nothing, revokes t:0,1)",
        "a: epoch 1, nothing",
    ]
    harness.ack("a")
    assert harness.transcript() == ["(a stable in 2: u:0,1)", "a: epoch 2, u:0,1"]
    # The same subscription in any order, with duplicates, is no change.
    harness.beat("a", subscribed_topic_names=["u", "u"])
    assert harness.transcript() == ["a: epoch 2"]


def test_partitions_returned_to_their_owner_during_revocation() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.wait(1000)
    harness.join("b", "t")
    harness.beat("a")
    harness.leave("b")
    harness.wait(1000)
    harness.transcript()
    harness.beat("a")
    assert harness.transcript() == ["a: epoch 1"]
    harness.ack("a")
    # It has revoked them, so they are free, and its own at once.
    assert harness.transcript() == ["(a stable in 3: t:0,1,2,3)", "a: epoch 3, t:0,1,2,3"]


def test_a_target_that_moves_on_while_a_member_revokes() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.wait(1000)
    harness.join("b", "t")
    harness.beat("a")
    harness.wait(1000)
    harness.join("c", "t")
    harness.transcript()
    harness.ack("a")
    assert harness.transcript() == ["(a stable in 3: t:0,1)", "a: epoch 3"]
    harness.topics.set("t", 1)
    harness.topics.set("t", 4)
    harness.settle("a", "b", "c")


def test_answers_that_are_lost() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.wait(1000)
    # Its first response was lost: it starts over, and gets the full response.
    harness.join("a", "t")
    harness.join("b", "t")
    harness.beat("a")
    harness.ack("a")
    harness.transcript()
    # It knows of epoch 1 only, and of what it kept.
    harness.beat("a", member_epoch=1, owned={"t": [0, 1]})
    harness.beat("a", member_epoch=1, owned={"t": [0]})
    harness.beat("a", member_epoch=1, owned={"t": [0, 2]})
    harness.beat("a", member_epoch=1)
    harness.beat("a", member_epoch=0, rebalance_timeout_ms=1, subscribed_topic_names=["t"], owned={})
    assert harness.transcript() == [
        "a: epoch 2",
        "a: epoch 2, t:0,1",
        "a: FENCED_MEMBER_EPOCH",
        "a: FENCED_MEMBER_EPOCH",
        "(a reads t)",
        "a: epoch 2, t:0,1",
    ]


def test_a_full_request_gets_a_full_answer() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.transcript()
    harness.beat("a", rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], owned={"t": [0, 1, 2, 3]})
    assert harness.transcript() == ["a: epoch 1, t:0,1,2,3"]


def test_a_static_member_restarts_without_a_rebalance() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t", instance_id="i1")
    harness.join("b", "t")
    harness.settle("a", "b")
    had = harness.owned["a"]
    harness.leave("a", member_epoch=-2, instance_id="i1")
    assert harness.transcript() == ["(a stable in -2: t:0,1)", "a: epoch -2"]
    harness.wait(40_000)
    harness.beat("b")
    harness.transcript()
    harness.join("a2", "t", instance_id="i1", rebalance_timeout_ms=60_000)
    assert harness.transcript() == [
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
    assert harness.owned["a2"] == had and harness.group.epoch == 2
    assert harness.group.state_name == "Stable"


def test_a_static_member_restarts_before_it_has_revoked() -> None:
    """Partitions that it had to revoke are released with it."""
    harness = ConsumerHarness()
    harness.join("a", "t", instance_id="i1")
    harness.ack("a")
    harness.wait(1000)
    harness.join("b", "t")
    harness.beat("a")
    assert harness.group.members["a"].revoking
    harness.leave("a", member_epoch=-2, instance_id="i1")
    harness.wait(500)
    harness.join("a2", "t", instance_id="i1")
    harness.settle("a2", "b")
    assert sorted([*harness.owned["a2"]["t"], *harness.owned["b"]["t"]]) == [0, 1, 2, 3]
    assert len(harness.owned["b"]["t"]) == 2


def test_a_static_member_that_does_not_come_back_is_gone_after_its_session() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t", instance_id="i1")
    harness.wait(30_000)
    harness.leave("a", member_epoch=-2, instance_id="i1")
    harness.wait(44_000)
    assert "a" in harness.group.members
    harness.wait(1_000)
    assert not harness.group.members and not harness.group.static_ids
    assert harness.group.state_name == "Empty"


def test_a_group_that_is_empty_begins_again() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.leave("a")
    assert harness.group.state_name == "Empty" and harness.group.epoch == 2
    harness.transcript()
    harness.join("a", "t")
    assert harness.transcript()[-1] == "a: epoch 3, t:0,1,2,3"


def test_more_members_than_partitions() -> None:
    harness = ConsumerHarness({"t": 2})
    for client in "abc":
        harness.join(client, "t")
    harness.settle(*"abc")
    assert sorted(len(each.get("t", [])) for each in harness.owned.values()) == [0, 1, 1]


def test_a_member_requests_an_assignor() -> None:
    harness = ConsumerHarness({"t": 2, "u": 2})
    harness.join("b", "t", "u", server_assignor="range")
    harness.wait(1000)
    harness.join("a", "t", "u")
    harness.settle("a", "b")
    assert harness.owned == {"a": {"t": [0], "u": [0]}, "b": {"t": [1], "u": [1]}}
    assert harness.shard.describe_consumer_group(GROUP).assignor_name == "range"
    assert "range" in ASSIGNORS


def test_settings_of_the_group_itself() -> None:
    harness = ConsumerHarness(
        overrides={"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "99999"}
    )
    assert harness.join("a", "t").heartbeat_interval_ms == 15_000
    assert harness.beat("a").heartbeat_interval_ms == 15_000
    harness.wait(49_999)
    assert harness.group.members
    harness.wait(1)
    assert not harness.group.members


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
    harness = ConsumerHarness(overrides=of_the_group, **of_the_broker)
    harness.join("a", "t")
    harness.join("b", "t")
    if interval_ms:
        harness.wait(interval_ms - 1)
        assert harness.group.assignment_epoch < harness.group.epoch
        harness.wait(1)
    assert harness.group.assignment_epoch == harness.group.epoch


def test_racks_are_kept_in_mind() -> None:
    harness = ConsumerHarness()
    harness.topics.set("t", 4, [("r1",), ("r2",), ("r1",), ("r2",)])
    harness.join("a", "t", rack_id="r2")
    harness.wait(1000)
    harness.join("b", "t", rack_id="r1")
    harness.settle("a", "b")
    assert harness.owned == {"a": {"t": [1, 3]}, "b": {"t": [0, 2]}}


def test_a_new_coordinator_takes_over() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.wait(1000)
    harness.join("b", "t")
    harness.beat("a")
    described = harness.shard.describe_consumer_group(GROUP)
    harness.reload()
    assert harness.shard.describe_consumer_group(GROUP) == described
    harness.transcript()
    harness.beat("a")
    harness.ack("a")
    harness.beat("b")
    assert harness.transcript() == [
        "a: epoch 1",
        "(a stable in 2: t:0,1)",
        "a: epoch 2",
        "(b stable in 2: t:2,3)",
        "b: epoch 2, t:2,3",
    ]
    # It has started the sessions again.
    harness.reload()
    harness.wait(44_999)
    assert len(harness.group.members) == 2
    harness.wait(1)
    assert not harness.group.members


def test_a_new_coordinator_makes_the_assignment_that_was_due() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.join("b", "t")
    assert harness.group.state_name == "Assigning"
    harness.transcript()
    harness.reload()
    assert harness.transcript() == []
    harness.wait(1000)
    assert harness.transcript()[-1] == "(assigned for 2)"


def test_the_deadline_for_revoking_outlives_the_coordinator() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t", rebalance_timeout_ms=10_000)
    harness.wait(1000)
    harness.join("b", "t")
    harness.beat("a")
    harness.reload()
    harness.wait(9_999)
    harness.beat("a")
    harness.wait(1)
    assert [*harness.group.members] == ["b"]


def test_describe() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t", instance_id="i1", rack_id="r")
    harness.wait(1000)
    harness.join("b", "t")
    described = harness.shard.describe_consumer_group(GROUP)
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 2, 2)
    assert described.assignor_name == "uniform"
    a, b = described.members
    assert (a.member_id, a.instance_id, a.rack_id, a.member_epoch) == ("a", "i1", "r", 1)
    assert (a.client_id, a.client_host, a.member_type) == ("a", "/a", 1)
    assert a.subscribed_topic_names == ["t"] and a.subscribed_topic_regex is None
    (held,) = a.assignment.topic_partitions
    assert (held.topic_name, held.topic_id, held.partitions) == ("t", harness.id("t"), [0, 1, 2, 3])
    assert a.target_assignment.topic_partitions[0].partitions == [0, 1]
    assert b.assignment.topic_partitions == []
    assert b.target_assignment.topic_partitions[0].partitions == [2, 3]
    unknown = harness.shard.describe_consumer_group("nobody")
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND and unknown.error_message


def test_the_history_says_why() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.wait(1000)
    harness.join("b", "t")
    harness.wait(2000)
    harness.beat("a")
    harness.wait(500)
    harness.ack("a")
    harness.beat("b")
    first, second = harness.group.history
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
