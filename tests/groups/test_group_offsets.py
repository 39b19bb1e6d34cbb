"""Offsets: commit permissions, fetching, deletion, transactions and expiry."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.groups.offsets.fetch import groups_of, response_of
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.offset_fetch_response import OffsetFetchResponse
from ottla.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.versions import TXN_OFFSET_COMMIT_TOPIC_IDS_SINCE
from tests.support.groups.group_harness import GROUP, Harness

T0 = ("t", 0)
NONE = ErrorCode.NONE
DAY_MS = 24 * 3_600_000


def delete(harness: Harness, *partitions: tuple[str, int]) -> Any:
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=partition))
    request = OffsetDeleteRequest(
        group_id=GROUP,
        topics=[OffsetDeleteRequestTopic(name=name, partitions=each) for name, each in topics.items()],
    )
    return harness.ask("admin", "offset_delete", request)


def commit_in_transaction(
    harness: Harness,
    producer_id: int,
    offset: int,
    *,
    version: int = 3,
    topic_id: bytes | None = None,
    **changes: Any,
) -> list[int]:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = TxnOffsetCommitRequestTopic(name="t", partitions=[partition])
    if version >= TXN_OFFSET_COMMIT_TOPIC_IDS_SINCE:
        topic.topic_id = topic_id or harness.topics.topic_id("t") or b""
    request = TxnOffsetCommitRequest(
        transactional_id="x", group_id=GROUP, producer_id=producer_id, topics=[topic], **changes
    )
    response = harness.ask("p", "txn_offset_commit", request, version)
    if version >= TXN_OFFSET_COMMIT_TOPIC_IDS_SINCE:
        assert [row.topic_id for row in response.topics] == [topic.topic_id]
    return [each.error_code for topic in response.topics for each in topic.partitions]


def end_transaction(harness: Harness, producer_id: int, committed: bool) -> None:
    harness.log.append((None, committed, producer_id))
    harness.shard.apply_marker(producer_id, committed)


# Commits.


def test_commits_are_kept() -> None:
    harness = Harness()
    harness.stable("a")
    assert harness.commit("a", {T0: 5, ("t", 1): 6, ("u", 0): 7}) == [0, 0, 0]
    assert harness.transcript() == ["(g t-0: 5)", "(g t-1: 6)", "(g u-0: 7)"]
    assert harness.fetch() == {T0: 5, ("t", 1): 6, ("u", 0): 7}
    assert harness.fetch(T0, ("t", 3), ("never", 1)) == {T0: 5, ("t", 3): -1, ("never", 1): -1}
    harness.reload()
    assert harness.fetch() == {T0: 5, ("t", 1): 6, ("u", 0): 7}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, NONE),
        ({"generation_id_or_member_epoch": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id_or_member_epoch": -1, "member_id": ""}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id_or_member_epoch": -1}, ErrorCode.ILLEGAL_GENERATION),
        ({"group_instance_id": "a"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": "other"}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"group_id": "other", "version": 8}, ErrorCode.ILLEGAL_GENERATION),
        ({"metadata": "x" * 4097}, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ({"metadata": "x" * 4096}, NONE),
    ],
)
def test_commit_permissions(changes: dict[str, Any], code: ErrorCode) -> None:
    harness = Harness()
    harness.stable("a")
    assert harness.commit("a", {T0: 5}, **changes) == [code]
    assert harness.fetch(T0) == {T0: -1 if code else 5}


def test_commits_in_a_rebalance() -> None:
    harness = Harness()
    harness.stable("a", "b")
    harness.arrive("c")
    assert harness.commit("a", {T0: 5}) == [NONE]
    harness.join("a")
    harness.join("b")
    assert harness.commit("a", {T0: 6}) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert harness.fetch(T0) == {T0: 5}


def test_a_commit_is_a_sign_of_life() -> None:
    harness = Harness()
    harness.stable("a")
    for _ in range(5):
        harness.wait(6_000)
        assert harness.commit("a", {T0: 5}) == [NONE]
    assert harness.heartbeat("a") == NONE


def test_a_consumer_that_assigns_partitions_by_itself() -> None:
    harness = Harness()
    assert harness.commit("s", {T0: 5}) == [NONE]
    listed = harness.shard.list_groups()
    assert [(each.group_id, each.protocol_type, each.group_state) for each in listed] == [("g", "", "Empty")]
    assert harness.commit("s", {T0: 6}) == [NONE]
    harness.reload()
    assert harness.fetch() == {T0: 6}
    assert harness.shard.describe_group("g", 6).group_state == "Empty"
    harness.stable("a")
    assert harness.commit("s", {T0: 7}) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert harness.fetch() == {T0: 6}


def test_commits_to_topics_that_do_not_exist() -> None:
    harness = Harness()
    codes = harness.commit("s", {("never", 0): 1, T0: 2})
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NONE]
    codes = harness.commit("s", {("never", 0): 1, T0: 3}, version=10)
    assert codes == [ErrorCode.UNKNOWN_TOPIC_ID, NONE]
    assert harness.fetch() == {T0: 3}


def test_old_clients_name_a_retention() -> None:
    harness = Harness()
    harness.commit("s", {T0: 1}, version=4, retention_time_ms=60_000)
    harness.commit("s", {("t", 1): 1})
    harness.reload()
    harness.wait(DAY_MS)
    assert harness.fetch() == {("t", 1): 1}


# Fetches.


@pytest.mark.parametrize("version", range(1, 10))
def test_all_versions_of_fetch(version: int) -> None:
    harness = Harness()
    harness.commit("s", {T0: 5}, metadata="note")
    if version < 8:
        topic = OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])
        request = OffsetFetchRequest(group_id=GROUP, topics=[topic])
    else:
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)])
    request = OffsetFetchRequest.decode(version, request.encode(version))
    groups = [harness.shard.fetch_offsets(group, False, version) for group in groups_of(request, version)]
    response = OffsetFetchResponse.decode(version, response_of(groups, version).encode(version))
    answered: Any = response.topics if version < 8 else response.groups[0].topics
    assert [
        (topic.name, each.partition_index, each.committed_offset, each.metadata, each.error_code)
        for topic in answered
        for each in topic.partitions
    ] == [("t", 0, 5, "note", 0), ("t", 1, -1, "", 0)]


def test_fetches_by_topic_id() -> None:
    harness = Harness()
    harness.commit("s", {T0: 5}, version=10)
    old_id = harness.topics.topic_id("t")
    assert old_id is not None

    def fetch(topic_id: bytes | None) -> list[tuple[bytes, int, int]]:
        topics = None
        if topic_id is not None:
            topics = [OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0])]
        answer = harness.shard.fetch_offsets(
            OffsetFetchRequestGroup(group_id=GROUP, topics=topics), False, 10
        )
        return [
            (bytes(topic.topic_id), each.committed_offset, each.error_code)
            for topic in answer.topics
            for each in topic.partitions
        ]

    assert fetch(old_id) == fetch(None) == [(old_id, 5, 0)]
    harness.topics.drop("t")
    assert fetch(None) == []
    assert fetch(old_id) == [(old_id, -1, ErrorCode.UNKNOWN_TOPIC_ID)]
    new_id = harness.topics.set("t", 4)
    assert fetch(new_id) == fetch(None) == [(new_id, -1, 0)]


# Deletion.


def test_offsets_are_deleted() -> None:
    harness = Harness()
    assert delete(harness, T0).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    harness.commit("s", {T0: 5, ("u", 0): 7})
    response = delete(harness, T0, ("t", 1))
    assert [each.error_code for each in response.topics[0].partitions] == [0, 0]
    assert harness.transcript()[-1] == "(g t-0: gone)"
    harness.reload()
    assert harness.fetch() == {("u", 0): 7}


def test_offsets_that_members_read_are_not_deleted() -> None:
    harness = Harness()
    harness.stable("a")
    harness.commit("a", {T0: 5, ("u", 0): 7})
    response = delete(harness, T0, ("u", 0))
    codes = [each.error_code for topic in response.topics for each in topic.partitions]
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0]
    assert harness.fetch() == {T0: 5}


def test_offsets_of_other_protocols_are_not_deleted() -> None:
    harness = Harness()
    harness.arrive("w", protocols={"v1": b""}, protocol_type="connect")
    assert delete(harness, T0).error_code == ErrorCode.NON_EMPTY_GROUP


def test_offsets_go_with_their_topic() -> None:
    harness = Harness()
    harness.commit("s", {("t", 1): 6, ("u", 0): 7})
    commit_in_transaction(harness, 7, 5)
    harness.take(harness.shard.topics_deleted(["t"], harness.now_ms))
    end_transaction(harness, 7, True)
    assert harness.fetch() == {("u", 0): 7}
    harness.reload()
    assert harness.fetch() == {("u", 0): 7}


# Transactions.


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_of_a_transaction_count_from_its_end(committed: bool) -> None:
    harness = Harness()
    harness.commit("s", {T0: 1})
    assert commit_in_transaction(harness, 7, 5) == [NONE]
    assert harness.fetch(T0) == {T0: 1}
    assert harness.fetch(T0, stable=True) == {T0: "UNSTABLE_OFFSET_COMMIT"}
    harness.reload()
    assert harness.fetch(T0, stable=True) == {T0: "UNSTABLE_OFFSET_COMMIT"}
    end_transaction(harness, 7, committed)
    assert harness.fetch(T0, stable=True) == {T0: 5 if committed else 1}
    harness.reload()
    assert harness.fetch(T0, stable=True) == {T0: 5 if committed else 1}


def test_the_very_first_offsets_of_a_group_may_be_pending() -> None:
    harness = Harness()
    commit_in_transaction(harness, 7, 5)
    assert harness.fetch(T0, stable=True) == {T0: "UNSTABLE_OFFSET_COMMIT"}


def test_the_commit_that_was_written_last_counts() -> None:
    harness = Harness()
    commit_in_transaction(harness, 7, 5)
    harness.commit("s", {T0: 6})
    assert harness.fetch(T0, stable=True) == {T0: "UNSTABLE_OFFSET_COMMIT"}
    end_transaction(harness, 7, True)
    assert harness.fetch(T0) == {T0: 6}
    commit_in_transaction(harness, 7, 7)
    commit_in_transaction(harness, 8, 8)
    end_transaction(harness, 8, True)
    assert harness.fetch(T0) == {T0: 8}
    end_transaction(harness, 7, True)
    assert harness.fetch(T0) == {T0: 8}
    commit_in_transaction(harness, 7, 9)
    commit_in_transaction(harness, 8, 10)
    end_transaction(harness, 7, True)
    assert harness.fetch(T0) == {T0: 9}
    end_transaction(harness, 8, True)
    assert harness.fetch(T0) == {T0: 10}
    harness.reload()
    assert harness.fetch() == {T0: 10}


@pytest.mark.parametrize("version", [3, 5, 6])
def test_commit_permissions_in_a_transaction(version: int) -> None:
    harness = Harness()

    def commit(member: str = "", generation: int = -1) -> list[int]:
        who = {"member_id": member, "generation_id_or_member_epoch": generation}
        return commit_in_transaction(harness, 7, 1, version=version, **who)

    missing = ErrorCode.ILLEGAL_GENERATION if version < 6 else ErrorCode.GROUP_ID_NOT_FOUND
    assert commit(generation=3) == [missing]
    harness.stable("a", "b")
    assert commit() == [NONE]
    member = harness.ids["a"]
    assert commit(member, 1) == [NONE]
    assert commit(member, 2) == [ErrorCode.ILLEGAL_GENERATION]
    assert commit("x", 1) == [ErrorCode.UNKNOWN_MEMBER_ID]
    harness.join("a")
    harness.join("b")
    assert commit(member, 2) == [NONE]


def test_commits_in_a_transaction_by_topic_id() -> None:
    harness = Harness()
    old_id = harness.topics.topic_id("t")
    assert old_id is not None
    assert commit_in_transaction(harness, 7, 1, version=6) == [NONE]
    end_transaction(harness, 7, committed=True)
    assert harness.fetch(T0) == {T0: 1}
    harness.topics.drop("t")
    harness.topics.set("t", 4)
    # An offset of the old topic must not become one of the new topic.
    codes = commit_in_transaction(harness, 7, 2, version=6, topic_id=old_id)
    assert codes == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert commit_in_transaction(harness, 7, 3, version=6) == [NONE]


def test_a_deleted_offset_does_not_come_back_with_a_transaction() -> None:
    harness = Harness()
    commit_in_transaction(harness, 7, 1)
    delete(harness, T0)
    end_transaction(harness, 7, True)
    assert harness.fetch() == {}
    harness.reload()
    assert harness.fetch() == {}


# Age.


def test_offsets_of_a_group_in_use_do_not_age() -> None:
    harness = Harness()
    harness.arrive("a", session_ms=1_800_000)
    harness.wait(3_000)
    harness.sync("a", {"a": "a"})
    harness.commit("a", {T0: 5, ("u", 0): 6})
    for _ in range(8 * 49):
        harness.wait(1_790_000)
        assert harness.heartbeat("a") == NONE
    # No member of the group reads u any more.
    assert harness.fetch() == {T0: 5}


def test_offsets_age_from_the_day_the_group_is_empty() -> None:
    harness = Harness()
    harness.stable("a")
    harness.commit("a", {T0: 5})
    harness.wait(5_000)
    harness.leave("a")
    harness.wait(7 * DAY_MS - 60_000)
    assert harness.fetch() == {T0: 5}
    harness.reload()
    harness.transcript()
    harness.wait(1_200_000)
    assert harness.transcript()[1:] == ["(g t-0: gone)", "(g is gone)"]
    assert harness.shard.list_groups() == []
    harness.reload()
    assert harness.shard.list_groups() == []


def test_a_commit_for_an_empty_group_is_a_use() -> None:
    harness = Harness()
    harness.stable("a")
    harness.commit("a", {T0: 5})
    harness.leave("a")
    harness.wait(6 * DAY_MS)
    harness.ids.clear()
    harness.generations.clear()
    harness.commit("admin", {("t", 1): 6})
    harness.wait(2 * DAY_MS)
    assert harness.fetch() == {("t", 1): 6}
    assert [each.group_id for each in harness.shard.list_groups()] == ["g"]


def test_offsets_of_simple_consumers_age_one_by_one() -> None:
    harness = Harness()
    harness.commit("s", {T0: 5})
    harness.wait(DAY_MS)
    harness.commit("s", {("t", 1): 6})
    harness.wait(6 * DAY_MS + 1_200_000)
    assert harness.fetch() == {("t", 1): 6}


def test_pending_offsets_keep_an_offset_and_the_group() -> None:
    harness = Harness()
    harness.commit("s", {T0: 5})
    commit_in_transaction(harness, 7, 6)
    harness.wait(8 * DAY_MS)
    assert harness.fetch() == {T0: 5}
    end_transaction(harness, 7, False)
    harness.wait(1_200_000)
    assert harness.fetch() == {}
    assert harness.shard.list_groups() == []


def test_many_old_offsets_are_dropped_in_steps() -> None:
    harness = Harness()
    harness.topics.set("wide", 2_500)
    harness.commit("s", {("wide", partition): 1 for partition in range(2_500)})
    harness.wait(7 * DAY_MS - 1_200_000)
    before = len(harness.log)
    steps = []
    for _ in range(5):
        wake_ms = harness.shard.next_wake_ms
        assert wake_ms is not None
        harness.now_ms = wake_ms = max(wake_ms, harness.now_ms)
        outcome = harness.shard.tick(wake_ms)
        steps.append(len(outcome.records))
        harness.take(outcome)
    assert len(harness.log) - before == 2_501
    assert max(steps) <= 1_001
