"""Records that other coordinators have written, older and newer ones, and logs that begin in the middle."""

from __future__ import annotations

import pytest

from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import UNKNOWN_STATE
from ottla.groups.consumer.pattern_syntax import PatternError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from ottla.protocol.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from ottla.protocol.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from ottla.protocol.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from ottla.protocol.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from ottla.protocol.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from ottla.protocol.messages.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from ottla.protocol.messages.consumer_group_partition_metadata_value import (
    ConsumerGroupPartitionMetadataValue,
)
from ottla.protocol.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from ottla.protocol.messages.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from ottla.protocol.messages.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from ottla.protocol.messages.group_metadata_key import GroupMetadataKey
from ottla.protocol.messages.group_metadata_value import GroupMetadataValue
from tests.support.groups.consumer_harness import GROUP, ConsumerHarness


def member_value(**fields: object) -> ConsumerGroupMemberMetadataValue:
    given = {
        "instance_id": None,
        "rack_id": None,
        "subscribed_topic_names": ["t"],
        "subscribed_topic_regex": None,
        "rebalance_timeout_ms": 1000,
        "server_assignor": None,
        "classic_member_metadata": None,
    }
    return ConsumerGroupMemberMetadataValue(**(given | fields))  # type: ignore[arg-type]


def apply_member(harness: ConsumerHarness, state: int = 0, assignor: str | None = None) -> None:
    """As an older coordinator wrote it: no epochs of partitions, the old record of topics, no hash."""
    apply = harness.shard.apply
    apply(
        ConsumerGroupMemberMetadataKey(group_id=GROUP, member_id="a"),
        member_value(server_assignor=assignor),
        0,
    )
    apply(ConsumerGroupPartitionMetadataKey(group_id=GROUP), ConsumerGroupPartitionMetadataValue(), 0)
    apply(ConsumerGroupMetadataKey(group_id=GROUP), ConsumerGroupMetadataValue(epoch=3), 0)
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=3,
        previous_member_epoch=2,
        state=state,
        assigned_partitions=[
            TopicPartitions(topic_id=harness.id("t"), partitions=[0, 1], assignment_epochs=None)
        ],
    )
    apply(ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="a"), value, 0)
    harness.take(harness.shard.loaded(harness.now_ms))


def test_a_group_of_an_older_coordinator_continues() -> None:
    harness = ConsumerHarness()
    apply_member(harness)
    assert harness.group.members["a"].assigned == {harness.id("t"): {0: 3, 1: 3}}
    harness.epochs["a"] = 3
    harness.beat("a")
    # The hash was not there, so the topics count as changed; nothing is taken from the member for that.
    harness.ack("a")
    assert harness.owned["a"] == {"t": [0, 1, 2, 3]} and harness.group.state_name == "Stable"


def test_a_newer_coordinators_state_and_assignor() -> None:
    harness = ConsumerHarness()
    apply_member(harness, state=9, assignor="clairvoyant")
    assert harness.group.members["a"].state == UNKNOWN_STATE
    harness.epochs["a"] = 3
    assert harness.beat("a").error_code == ErrorCode.FENCED_MEMBER_EPOCH
    harness.join("a", "t")
    assert harness.owned["a"] == {"t": [0, 1, 2, 3]}


def test_tombstones_of_unknown_keys() -> None:
    harness = ConsumerHarness()
    keys = [
        ConsumerGroupMetadataKey(group_id=GROUP),
        ConsumerGroupPartitionMetadataKey(group_id=GROUP),
        ConsumerGroupMemberMetadataKey(group_id=GROUP, member_id="a"),
        ConsumerGroupTargetAssignmentMetadataKey(group_id=GROUP),
        ConsumerGroupTargetAssignmentMemberKey(group_id=GROUP, member_id="a"),
        ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="a"),
        ConsumerGroupRegularExpressionKey(group_id=GROUP, regular_expression="x"),
    ]
    for key in keys:
        harness.shard.apply(key, None, 0)
    assert harness.shard.group(GROUP) is None
    # Nor do they touch a group of another type, or others of the group.
    harness.shard.apply(GroupMetadataKey(group=GROUP), GroupMetadataValue(generation=1), 0)
    for key in keys:
        harness.shard.apply(key, None, 0)
    assert harness.shard.group(GROUP) is not None
    harness.shard.apply(keys[0], ConsumerGroupMetadataValue(epoch=5), 0)
    assert harness.group.epoch == 5
    for key in keys[1:]:
        harness.shard.apply(key, None, 0)
    assert isinstance(harness.shard.group(GROUP), ConsumerGroup)


def test_a_pattern_that_is_too_slow_by_now_keeps_its_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = ConsumerHarness()
    harness.join("a", subscribed_topic_names=None, subscribed_topic_regex="t.*")
    harness.wait(2000)
    harness.topics.set("tt", 1)

    def give_up(*_: object) -> tuple[str, ...]:
        raise PatternError("matching takes too long")

    monkeypatch.setattr("ottla.groups.consumer.patterns.Patterns.resolve", give_up)
    assert not harness.beat("a").error_code
    assert harness.group.regexes["t.*"].topics == ("t",)


def test_commits_of_partitions_being_revoked() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.wait(1000)
    harness.join("b", "t")
    harness.beat("a")
    assert harness.group.members["a"].revoking
    # It is in its old epoch still, so it may commit everything.
    assert harness.group.check_offset_commit("a", None, 1, 9, False) == ErrorCode.NONE
    assert harness.group.check_partition_commit("a", 1, harness.id("t"), 3) == ErrorCode.NONE
    assert harness.group.check_partition_commit("a", 0, harness.id("t"), 3) == ErrorCode.STALE_MEMBER_EPOCH


def test_ids_that_fit_no_record() -> None:
    harness = ConsumerHarness()
    long = "x" * 9000
    assert harness.join(long, "t").error_code == ErrorCode.INVALID_REQUEST
    assert harness.join("a", "t", group_id=long).error_code == ErrorCode.INVALID_REQUEST
    assert not harness.log
