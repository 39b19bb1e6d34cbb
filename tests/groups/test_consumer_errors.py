"""What consumer groups refuse, and that a refusal changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.groups.consumer.member import UNKNOWN_STATE
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.versions import TXN_OFFSET_COMMIT_TOPIC_IDS_SINCE
from tests.support.groups.consumer_harness import GROUP, ConsumerHarness

JOIN: dict[str, Any] = {
    "member_epoch": 0,
    "rebalance_timeout_ms": 1000,
    "subscribed_topic_names": ["t"],
    "owned": {},
}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"owned": None}, ErrorCode.INVALID_REQUEST),
        ({"owned": {"t": [0]}}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "roundrobin"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "(a"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": r"(a)\1"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_epoch": -2, "instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_epoch": 3}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_requests_that_are_not_right(fields: dict[str, Any], error: ErrorCode) -> None:
    harness = ConsumerHarness()
    reply = harness.beat("a", **(JOIN | fields))
    assert reply.error_code == error and reply.error_message
    assert not harness.log and not harness.shard.context.groups


def test_the_first_version_gives_out_member_ids() -> None:
    harness = ConsumerHarness()
    reply = harness.beat("a", version=0, **(JOIN | {"member_id": ""}))
    assert reply.member_id == "uuid1" and reply.member_epoch == 1
    again = harness.beat("a", version=0, member_id="uuid1")
    assert not again.error_code


def test_epochs_that_are_not_the_members() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.join("b", "t")
    harness.settle("a", "b")
    log = len(harness.log)
    for epoch in (3, 1, 100):
        harness.beat("a", member_epoch=epoch)
    harness.epochs["a"] = 2
    assert harness.transcript() == ["a: FENCED_MEMBER_EPOCH"] * 3
    # A member epoch of another member's is worth nothing, nor is a stranger's.
    harness.beat("c", member_epoch=2)
    assert harness.transcript() == ["c: UNKNOWN_MEMBER_ID"]
    assert len(harness.log) == log


def test_a_group_has_room_for_so_many() -> None:
    harness = ConsumerHarness(group_consumer_max_size="2")
    harness.join("a", "t", instance_id="i")
    harness.join("b", "t")
    harness.transcript()
    harness.join("c", "t")
    assert harness.transcript() == ["c: GROUP_MAX_SIZE_REACHED"]
    # An existing member may rejoin, also under a new id.
    assert not harness.join("b", "t").error_code
    harness.leave("a", member_epoch=-2, instance_id="i")
    assert not harness.join("d", "t", instance_id="i").error_code


def test_an_instance_is_one_member_at_a_time() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t", instance_id="i")
    harness.transcript()
    harness.join("b", "t", instance_id="i")
    harness.beat("b", member_epoch=1, instance_id="i")
    harness.leave("b", instance_id="i")
    harness.beat("a", instance_id="j")
    assert harness.transcript() == [
        "b: UNRELEASED_INSTANCE_ID",
        "b: FENCED_INSTANCE_ID",
        "b: FENCED_INSTANCE_ID",
        "a: UNKNOWN_MEMBER_ID",
    ]
    # The member may start over: it was fenced, for example, and revoked everything.
    assert not harness.join("a", "t", instance_id="i").error_code
    harness.leave("a", member_epoch=-2, instance_id="i")
    harness.transcript()
    harness.beat("a", member_epoch=1, instance_id="i")
    assert harness.transcript() == ["a: FENCED_MEMBER_EPOCH"]
    assert not harness.join("b", "t", instance_id="i").error_code
    harness.leave("b", instance_id="i")
    assert not harness.group.members


def test_an_unknown_state_means_to_start_over() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.group.members["a"].state = UNKNOWN_STATE
    harness.transcript()
    harness.beat("a")
    assert harness.transcript() == ["a: FENCED_MEMBER_EPOCH"]
    harness.join("a", "t")
    assert harness.transcript()[-1] == "a: epoch 1, t:0,1,2,3"


def test_commits() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.join("b", "t")
    harness.settle("a", "b")
    harness.leave("b")
    harness.settle("a")
    group = harness.group
    t = harness.id("t")

    def commit(member_id: str, epoch: int, version: int = 9, transactional: bool = False) -> ErrorCode:
        return group.check_offset_commit(member_id, None, epoch, version, transactional)

    assert commit("a", 3) == ErrorCode.NONE
    assert commit("a", 4) == commit("a", -1) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit("x", 3) == commit("", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("a", 3, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert commit("a", 3, version=3, transactional=True) == ErrorCode.NONE
    assert commit("", -1, version=3, transactional=True) == ErrorCode.NONE
    assert group.check_offset_commit("a", "i", 3, 9, False) == ErrorCode.FENCED_INSTANCE_ID
    # With an older epoch, what it has had since then.
    assert commit("a", 2) == ErrorCode.NONE
    assert group.check_partition_commit("a", 2, t, 0) == ErrorCode.NONE
    assert group.check_partition_commit("a", 2, t, 3) == ErrorCode.STALE_MEMBER_EPOCH
    assert group.check_partition_commit("a", 0, t, 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert group.check_partition_commit("a", 3, t, 3) == ErrorCode.NONE
    # Reads.
    assert group.check_offset_fetch(None, -1) == ErrorCode.NONE
    assert group.check_offset_fetch("a", 3) == ErrorCode.NONE
    assert group.check_offset_fetch("a", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert group.check_offset_fetch("x", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    # An admin client commits for a group without members.
    harness.leave("a")
    assert commit("", -1) == ErrorCode.NONE


def test_expiry_and_deletion() -> None:
    harness = ConsumerHarness({"t": 1, "u": 1})
    harness.join("a", "t")
    group = harness.group
    assert group.is_subscribed_to("t") and not group.is_subscribed_to("u")
    assert group.offsets_expire_from_ms("t", 5) is None
    assert group.offsets_expire_from_ms("u", 5) == 5
    assert group.check_delete() == ErrorCode.NON_EMPTY_GROUP
    assert group.check_offset_delete() == ErrorCode.NONE
    harness.wait(1000)
    harness.leave("a")
    # They were in use until now.
    assert group.offsets_expire_from_ms("t", 5) == harness.now_ms
    assert group.offsets_expire_from_ms("t", harness.now_ms + 7) == harness.now_ms + 7
    assert group.check_delete() == ErrorCode.NONE
    harness.join("b", subscribed_topic_regex="t.*", server_assignor="range")
    for key, value in group.tombstones():
        assert value is None
        harness.shard.apply(key, None, 0)
    assert harness.shard.group(GROUP) is None
    harness.wait(100_000)


def test_a_pattern_matches_internal_topics_too() -> None:
    harness = ConsumerHarness({"__audit": 1, "__consumer_offsets": 2, "t": 1})
    harness.join("a", subscribed_topic_names=None, subscribed_topic_regex="__.*")
    assert harness.transcript()[1] == "(__.* is __audit __consumer_offsets)"
    harness.join("b", subscribed_topic_names=None, subscribed_topic_regex="[a-z].*")
    assert "([a-z].* is t)" in harness.transcript()


def test_patterns() -> None:
    harness = ConsumerHarness({"t": 2, "team-a": 1, "team-b": 1, "__consumer_offsets": 50})
    harness.join("a", subscribed_topic_names=None, subscribed_topic_regex="team-.*")
    assert harness.transcript() == [
        "(a reads team-.*)",
        "(team-.* is team-a team-b)",
        "(group epoch 1)",
        "(a should have team-a:0 team-b:0)",
        "(assigned for 1)",
        "(a stable in 1: team-a:0 team-b:0)",
        "a: epoch 1, team-a:0 team-b:0",
    ]
    assert harness.group.is_subscribed_to("team-a")
    # New topics are found with the next heartbeat, but not too often.
    harness.wait(1000)
    harness.topics.set("team-c", 1)
    harness.beat("a")
    assert harness.transcript()[:2] == ["(team-.* is team-a team-b team-c)", "(group epoch 2)"]
    harness.topics.set("team-d", 1)
    harness.beat("a")
    assert harness.transcript() == ["a: epoch 2"]
    harness.wait(1000)
    harness.beat("a")
    assert "team-d:0" in harness.transcript()[-1]
    # Another pattern takes the place of the old one; names may stand beside it.
    harness.beat("a", subscribed_topic_regex=".*", subscribed_topic_names=["u"])
    lines = harness.transcript()
    assert lines[1:3] == [
        "(.* is __consumer_offsets t team-a team-b team-c team-d)",
        "(no RegularExpression team-.*)",
    ]
    harness.beat("a", subscribed_topic_regex="")
    assert "(no RegularExpression .*)" in harness.transcript()
    assert harness.group.subscribed_topics == {"u": None} and not harness.group.regexes


def test_a_pattern_goes_with_its_last_member() -> None:
    harness = ConsumerHarness()
    harness.join("a", subscribed_topic_regex="t")
    harness.join("b", subscribed_topic_regex="t")
    harness.leave("a")
    assert "(no RegularExpression t)" not in harness.transcript()
    harness.leave("b")
    assert "(no RegularExpression t)" in harness.transcript()
    harness.reload()
    assert not harness.group.regexes


def test_commits_of_members_through_the_shard() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.join("b", "t")
    harness.settle("a", "b")
    harness.leave("b")
    harness.settle("a")

    def commit(epoch: int, version: int, **name: Any) -> list[int]:
        request = OffsetCommitRequest(
            group_id=GROUP,
            member_id="a",
            generation_id_or_member_epoch=epoch,
            topics=[
                OffsetCommitRequestTopic(
                    **name,
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=index, committed_offset=7)
                        for index in (0, 3)
                    ],
                )
            ],
        )
        reply = harness.ask("offset_commit", request, version, "a")
        return [each.error_code for each in reply.topics[0].partitions]

    assert commit(3, 10, topic_id=harness.id("t")) == [ErrorCode.NONE, ErrorCode.NONE]
    # Partition 3 came to it in epoch 3.
    assert commit(2, 9, name="t") == [ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH]
    assert commit(4, 9, name="t") == [ErrorCode.STALE_MEMBER_EPOCH] * 2
    assert commit(3, 8, name="t") == [ErrorCode.UNSUPPORTED_VERSION] * 2


@pytest.mark.parametrize(
    ("version", "stale"), [(5, ErrorCode.ILLEGAL_GENERATION), (6, ErrorCode.STALE_MEMBER_EPOCH)]
)
def test_commits_of_members_in_a_transaction(version: int, stale: ErrorCode) -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.join("b", "t")
    harness.settle("a", "b")
    harness.leave("b")
    harness.settle("a")

    def commit(epoch: int, member_id: str = "a", instance_id: str | None = None) -> list[int]:
        rows = [TxnOffsetCommitRequestPartition(partition_index=index) for index in (0, 3)]
        topic = TxnOffsetCommitRequestTopic(partitions=rows)
        if version >= TXN_OFFSET_COMMIT_TOPIC_IDS_SINCE:
            topic.topic_id = harness.id("t")
        else:
            topic.name = "t"
        request = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id=GROUP,
            member_id=member_id,
            group_instance_id=instance_id,
            generation_id_or_member_epoch=epoch,
            topics=[topic],
        )
        reply = harness.ask("txn_offset_commit", request, version, "a")
        return [each.error_code for each in reply.topics[0].partitions]

    assert commit(3) == [ErrorCode.NONE, ErrorCode.NONE]
    # Partition 3 came to it in epoch 3: in epoch 2 another member owned it.
    assert commit(2) == [ErrorCode.NONE, stale]
    assert commit(4) == [stale] * 2
    # A producer that names no member may commit; one that names an instance is a member.
    assert commit(-1, "") == [ErrorCode.NONE, ErrorCode.NONE]
    assert commit(-1, "", "i") == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
