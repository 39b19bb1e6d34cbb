"""Offsets: who may commit, what is fetched, deleted, pending and dropped with age."""

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
from tests.support.groups.group_desk import GROUP, Desk

T0 = ("t", 0)
NONE = ErrorCode.NONE
DAY_MS = 24 * 3_600_000


def delete(desk: Desk, *partitions: tuple[str, int]) -> Any:
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=partition))
    request = OffsetDeleteRequest(
        group_id=GROUP,
        topics=[OffsetDeleteRequestTopic(name=name, partitions=each) for name, each in topics.items()],
    )
    return desk.ask("admin", "offset_delete", request)


def commit_in_transaction(desk: Desk, producer_id: int, offset: int, **changes: Any) -> list[int]:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=GROUP,
        producer_id=producer_id,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
        **changes,
    )
    response = desk.ask("p", "txn_offset_commit", request, 3)
    return [each.error_code for topic in response.topics for each in topic.partitions]


def end_transaction(desk: Desk, producer_id: int, committed: bool) -> None:
    desk.log.append((None, committed, producer_id))
    desk.shard.apply_marker(producer_id, committed)


# Commits.


def test_commits_are_kept() -> None:
    desk = Desk()
    desk.stable("a")
    assert desk.commit("a", {T0: 5, ("t", 1): 6, ("u", 0): 7}) == [0, 0, 0]
    assert desk.transcript() == ["(g t-0: 5)", "(g t-1: 6)", "(g u-0: 7)"]
    assert desk.fetch() == {T0: 5, ("t", 1): 6, ("u", 0): 7}
    assert desk.fetch(T0, ("t", 3), ("never", 1)) == {T0: 5, ("t", 3): -1, ("never", 1): -1}
    desk.reload()
    assert desk.fetch() == {T0: 5, ("t", 1): 6, ("u", 0): 7}


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
def test_who_may_commit(changes: dict[str, Any], code: ErrorCode) -> None:
    desk = Desk()
    desk.stable("a")
    assert desk.commit("a", {T0: 5}, **changes) == [code]
    assert desk.fetch(T0) == {T0: -1 if code else 5}


def test_commits_in_a_rebalance() -> None:
    desk = Desk()
    desk.stable("a", "b")
    desk.arrive("c")
    assert desk.commit("a", {T0: 5}) == [NONE]
    desk.join("a")
    desk.join("b")
    assert desk.commit("a", {T0: 6}) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert desk.fetch(T0) == {T0: 5}


def test_a_commit_is_a_sign_of_life() -> None:
    desk = Desk()
    desk.stable("a")
    for _ in range(5):
        desk.wait(6_000)
        assert desk.commit("a", {T0: 5}) == [NONE]
    assert desk.heartbeat("a") == NONE


def test_a_consumer_that_assigns_partitions_by_itself() -> None:
    desk = Desk()
    assert desk.commit("s", {T0: 5}) == [NONE]
    listed = desk.shard.list_groups()
    assert [(each.group_id, each.protocol_type, each.group_state) for each in listed] == [("g", "", "Empty")]
    assert desk.commit("s", {T0: 6}) == [NONE]
    desk.reload()
    assert desk.fetch() == {T0: 6}
    assert desk.shard.describe_group("g", 6).group_state == "Empty"
    desk.stable("a")
    assert desk.commit("s", {T0: 7}) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert desk.fetch() == {T0: 6}


def test_commits_to_topics_that_do_not_exist() -> None:
    desk = Desk()
    codes = desk.commit("s", {("never", 0): 1, T0: 2})
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NONE]
    codes = desk.commit("s", {("never", 0): 1, T0: 3}, version=10)
    assert codes == [ErrorCode.UNKNOWN_TOPIC_ID, NONE]
    assert desk.fetch() == {T0: 3}


def test_old_clients_name_a_retention() -> None:
    desk = Desk()
    desk.commit("s", {T0: 1}, version=4, retention_time_ms=60_000)
    desk.commit("s", {("t", 1): 1})
    desk.reload()
    desk.wait(DAY_MS)
    assert desk.fetch() == {("t", 1): 1}


# Fetches.


@pytest.mark.parametrize("version", range(1, 10))
def test_all_versions_of_fetch(version: int) -> None:
    desk = Desk()
    desk.commit("s", {T0: 5}, metadata="note")
    if version < 8:
        topic = OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])
        request = OffsetFetchRequest(group_id=GROUP, topics=[topic])
    else:
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)])
    request = OffsetFetchRequest.decode(version, request.encode(version))
    groups = [desk.shard.fetch_offsets(group, False, version) for group in groups_of(request, version)]
    response = OffsetFetchResponse.decode(version, response_of(groups, version).encode(version))
    answered: Any = response.topics if version < 8 else response.groups[0].topics
    assert [
        (topic.name, each.partition_index, each.committed_offset, each.metadata, each.error_code)
        for topic in answered
        for each in topic.partitions
    ] == [("t", 0, 5, "note", 0), ("t", 1, -1, "", 0)]


def test_fetches_by_topic_id() -> None:
    desk = Desk()
    desk.commit("s", {T0: 5}, version=10)
    old_id = desk.topics.topic_id("t")
    assert old_id is not None

    def fetch(topic_id: bytes | None) -> list[tuple[bytes, int, int]]:
        topics = None
        if topic_id is not None:
            topics = [OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0])]
        answer = desk.shard.fetch_offsets(OffsetFetchRequestGroup(group_id=GROUP, topics=topics), False, 10)
        return [
            (bytes(topic.topic_id), each.committed_offset, each.error_code)
            for topic in answer.topics
            for each in topic.partitions
        ]

    assert fetch(old_id) == fetch(None) == [(old_id, 5, 0)]
    desk.topics.drop("t")
    assert fetch(None) == []
    assert fetch(old_id) == [(old_id, -1, ErrorCode.UNKNOWN_TOPIC_ID)]
    new_id = desk.topics.set("t", 4)
    assert fetch(new_id) == fetch(None) == [(new_id, -1, 0)]


# Deletion.


def test_offsets_are_deleted() -> None:
    desk = Desk()
    assert delete(desk, T0).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    desk.commit("s", {T0: 5, ("u", 0): 7})
    response = delete(desk, T0, ("t", 1))
    assert [each.error_code for each in response.topics[0].partitions] == [0, 0]
    assert desk.transcript()[-1] == "(g t-0: gone)"
    desk.reload()
    assert desk.fetch() == {("u", 0): 7}


def test_offsets_that_members_read_are_not_deleted() -> None:
    desk = Desk()
    desk.stable("a")
    desk.commit("a", {T0: 5, ("u", 0): 7})
    response = delete(desk, T0, ("u", 0))
    codes = [each.error_code for topic in response.topics for each in topic.partitions]
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0]
    assert desk.fetch() == {T0: 5}


def test_offsets_of_other_protocols_are_not_deleted() -> None:
    desk = Desk()
    desk.arrive("w", protocols={"v1": b""}, protocol_type="connect")
    assert delete(desk, T0).error_code == ErrorCode.NON_EMPTY_GROUP


def test_offsets_go_with_their_topic() -> None:
    desk = Desk()
    desk.commit("s", {("t", 1): 6, ("u", 0): 7})
    commit_in_transaction(desk, 7, 5)
    desk.take(desk.shard.topics_deleted(["t"], desk.now_ms))
    end_transaction(desk, 7, True)
    assert desk.fetch() == {("u", 0): 7}
    desk.reload()
    assert desk.fetch() == {("u", 0): 7}


# Transactions.


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_of_a_transaction_count_from_its_end(committed: bool) -> None:
    desk = Desk()
    desk.commit("s", {T0: 1})
    assert commit_in_transaction(desk, 7, 5) == [NONE]
    assert desk.fetch(T0) == {T0: 1}
    assert desk.fetch(T0, stable=True) == {T0: "UNSTABLE_OFFSET_COMMIT"}
    desk.reload()
    assert desk.fetch(T0, stable=True) == {T0: "UNSTABLE_OFFSET_COMMIT"}
    end_transaction(desk, 7, committed)
    assert desk.fetch(T0, stable=True) == {T0: 5 if committed else 1}
    desk.reload()
    assert desk.fetch(T0, stable=True) == {T0: 5 if committed else 1}


def test_the_very_first_offsets_of_a_group_may_be_pending() -> None:
    desk = Desk()
    commit_in_transaction(desk, 7, 5)
    assert desk.fetch(T0, stable=True) == {T0: "UNSTABLE_OFFSET_COMMIT"}


def test_the_commit_that_was_written_last_counts() -> None:
    desk = Desk()
    commit_in_transaction(desk, 7, 5)
    desk.commit("s", {T0: 6})
    assert desk.fetch(T0, stable=True) == {T0: "UNSTABLE_OFFSET_COMMIT"}
    end_transaction(desk, 7, True)
    assert desk.fetch(T0) == {T0: 6}
    commit_in_transaction(desk, 7, 7)
    commit_in_transaction(desk, 8, 8)
    end_transaction(desk, 8, True)
    assert desk.fetch(T0) == {T0: 8}
    end_transaction(desk, 7, True)
    assert desk.fetch(T0) == {T0: 8}
    commit_in_transaction(desk, 7, 9)
    commit_in_transaction(desk, 8, 10)
    end_transaction(desk, 7, True)
    assert desk.fetch(T0) == {T0: 9}
    end_transaction(desk, 8, True)
    assert desk.fetch(T0) == {T0: 10}
    desk.reload()
    assert desk.fetch() == {T0: 10}


def test_who_may_commit_in_a_transaction() -> None:
    desk = Desk()
    assert commit_in_transaction(desk, 7, 1, generation_id=3) == [ErrorCode.ILLEGAL_GENERATION]
    desk.stable("a", "b")
    assert commit_in_transaction(desk, 7, 1) == [NONE]
    good = {"generation_id": 1, "member_id": desk.ids["a"]}
    assert commit_in_transaction(desk, 7, 1, **good) == [NONE]
    assert commit_in_transaction(desk, 7, 1, **(good | {"generation_id": 2})) == [
        ErrorCode.ILLEGAL_GENERATION
    ]
    assert commit_in_transaction(desk, 7, 1, **(good | {"member_id": "x"})) == [ErrorCode.UNKNOWN_MEMBER_ID]
    desk.join("a")
    desk.join("b")
    assert commit_in_transaction(desk, 7, 1, **(good | {"generation_id": 2})) == [NONE]


def test_a_deleted_offset_does_not_come_back_with_a_transaction() -> None:
    desk = Desk()
    commit_in_transaction(desk, 7, 1)
    delete(desk, T0)
    end_transaction(desk, 7, True)
    assert desk.fetch() == {}
    desk.reload()
    assert desk.fetch() == {}


# Age.


def test_offsets_of_a_group_in_use_do_not_age() -> None:
    desk = Desk()
    desk.arrive("a", session_ms=1_800_000)
    desk.wait(3_000)
    desk.sync("a", {"a": "a"})
    desk.commit("a", {T0: 5, ("u", 0): 6})
    for _ in range(8 * 49):
        desk.wait(1_790_000)
        assert desk.heartbeat("a") == NONE
    # Nobody in the group reads u any more.
    assert desk.fetch() == {T0: 5}


def test_offsets_age_from_the_day_the_group_is_empty() -> None:
    desk = Desk()
    desk.stable("a")
    desk.commit("a", {T0: 5})
    desk.wait(5_000)
    desk.leave("a")
    desk.wait(7 * DAY_MS - 60_000)
    assert desk.fetch() == {T0: 5}
    desk.reload()
    desk.transcript()
    desk.wait(1_200_000)
    assert desk.transcript()[1:] == ["(g t-0: gone)", "(g is gone)"]
    assert desk.shard.list_groups() == []
    desk.reload()
    assert desk.shard.list_groups() == []


def test_a_commit_for_an_empty_group_is_a_use() -> None:
    desk = Desk()
    desk.stable("a")
    desk.commit("a", {T0: 5})
    desk.leave("a")
    desk.wait(6 * DAY_MS)
    desk.ids.clear()
    desk.generations.clear()
    desk.commit("admin", {("t", 1): 6})
    desk.wait(2 * DAY_MS)
    assert desk.fetch() == {("t", 1): 6}
    assert [each.group_id for each in desk.shard.list_groups()] == ["g"]


def test_offsets_of_simple_consumers_age_one_by_one() -> None:
    desk = Desk()
    desk.commit("s", {T0: 5})
    desk.wait(DAY_MS)
    desk.commit("s", {("t", 1): 6})
    desk.wait(6 * DAY_MS + 1_200_000)
    assert desk.fetch() == {("t", 1): 6}


def test_pending_offsets_keep_an_offset_and_the_group() -> None:
    desk = Desk()
    desk.commit("s", {T0: 5})
    commit_in_transaction(desk, 7, 6)
    desk.wait(8 * DAY_MS)
    assert desk.fetch() == {T0: 5}
    end_transaction(desk, 7, False)
    desk.wait(1_200_000)
    assert desk.fetch() == {}
    assert desk.shard.list_groups() == []


def test_many_old_offsets_are_dropped_in_steps() -> None:
    desk = Desk()
    desk.topics.set("wide", 2_500)
    desk.commit("s", {("wide", partition): 1 for partition in range(2_500)})
    desk.wait(7 * DAY_MS - 1_200_000)
    before = len(desk.log)
    steps = []
    for _ in range(5):
        wake_ms = desk.shard.next_wake_ms
        assert wake_ms is not None
        desk.now_ms = wake_ms = max(wake_ms, desk.now_ms)
        outcome = desk.shard.tick(wake_ms)
        steps.append(len(outcome.records))
        desk.take(outcome)
    assert len(desk.log) - before == 2_501
    assert max(steps) <= 1_001
