"""Group requests in all versions."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.api import API_BY_KEY
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
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
from ottla.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.testing import Cluster
from tests.support.interop.wire import Wire

GROUP_CONFIG = 32


@pytest.fixture(scope="module")
def group_servers() -> Any:
    with Cluster(config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def desk(group_servers: str, request: pytest.FixtureRequest) -> Any:
    with Wire(group_servers) as wire:
        found = wire.ask(FindCoordinatorRequest(coordinator_keys=["any"])).coordinators[0]
        assert found.error_code == 0
        yield wire


def versions(api_key: int) -> range:
    api = API_BY_KEY[api_key]
    return range(api.min_version, api.max_version + 1)


def join(wire: Wire, group: str, version: int = 9) -> Any:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000 if version else -1,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )
    joined = wire.ask(request, version)
    if version >= 4:
        assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
        request.member_id = joined.member_id
        joined = wire.ask(request, version)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader == joined.member_id == joined.members[0].member_id
    return joined


def sync(wire: Wire, group: str, joined: Any, version: int = 5) -> None:
    given = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all of it")]
    request = SyncGroupRequest(group_id=group, generation_id=1, member_id=joined.member_id, assignments=given)
    if version >= 5:
        request.protocol_type, request.protocol_name = "consumer", "range"
    synced = wire.ask(request, version)
    assert (synced.error_code, synced.assignment) == (0, b"all of it")


@pytest.mark.parametrize("version", versions(11))
def test_the_life_of_a_classic_member(desk: Wire, version: int) -> None:
    group = f"classic {version}"
    joined = join(desk, group, version)
    sync(desk, group, joined, min(version, 5))
    beat = HeartbeatRequest(group_id=group, generation_id=1, member_id=joined.member_id)
    assert desk.ask(beat, min(version, 4)).error_code == 0
    described = desk.ask(DescribeGroupsRequest(groups=[group]), min(version, 6)).groups[0]
    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert described.members[0].member_assignment == b"all of it"
    leave = LeaveGroupRequest(group_id=group, member_id=joined.member_id)
    if version >= 3:
        leave = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=joined.member_id)])
    left = desk.ask(leave, min(version, 5))
    assert left.error_code == 0
    assert desk.ask(beat, min(version, 4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    deleted = desk.ask(DeleteGroupsRequest(groups_names=[group, "nobody"]), min(version, 2))
    assert [result.error_code for result in deleted.results] == [0, ErrorCode.GROUP_ID_NOT_FOUND]


@pytest.mark.parametrize("version", versions(8))
def test_commit_and_fetch_offsets(desk: Wire, version: int) -> None:
    group, name = f"offsets {version}", f"offsets-{version}"
    topic_id = desk.create_topic(name, 2)
    partition = OffsetCommitRequestPartition(
        partition_index=1,
        committed_offset=7,
        committed_leader_epoch=0 if version >= 6 else -1,
        committed_metadata="note",
    )
    topic = OffsetCommitRequestTopic(partitions=[partition])
    if version >= 10:
        topic.topic_id = topic_id
    else:
        topic.name = name
    committed = desk.ask(OffsetCommitRequest(group_id=group, topics=[topic]), version)
    assert committed.topics[0].partitions[0].error_code == 0
    if version >= 10:
        topic.topic_id = b"\7" * 16
        refused = desk.ask(OffsetCommitRequest(group_id=group, topics=[topic]), version)
        assert refused.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    for fetch_version in versions(9):
        assert fetched(desk, group, name, topic_id, fetch_version) == [(0, -1, ""), (1, 7, "note")]
        if fetch_version >= 2:
            assert fetched(desk, group, name, topic_id, fetch_version, everything=True) == [(1, 7, "note")]


def fetched(
    wire: Wire, group: str, name: str, topic_id: bytes, version: int, *, everything: bool = False
) -> list[tuple[int, int, str]]:
    if version < 8:
        topics = None if everything else [OffsetFetchRequestTopic(name=name, partition_indexes=[0, 1])]
        answer = wire.ask(OffsetFetchRequest(group_id=group, topics=topics), version)
    else:
        wanted = OffsetFetchRequestTopics(partition_indexes=[0, 1])
        if version >= 10:
            wanted.topic_id = topic_id
        else:
            wanted.name = name
        query = OffsetFetchRequestGroup(group_id=group, topics=None if everything else [wanted])
        answer = wire.ask(OffsetFetchRequest(groups=[query]), version).groups[0]
    assert answer.error_code == 0
    return [
        (each.partition_index, each.committed_offset, each.metadata)
        for topic in answer.topics
        for each in topic.partitions
    ]


@pytest.mark.parametrize("version", versions(16))
def test_groups_are_listed(desk: Wire, version: int) -> None:
    group = f"listed {version}"
    joined = join(desk, group)
    sync(desk, group, joined)

    def listed(**filters: Any) -> list[str]:
        return [each.group_id for each in desk.ask(ListGroupsRequest(**filters), version).groups]

    assert group in listed()
    if version >= 4:
        assert group in listed(states_filter=["Stable"])
        assert group not in listed(states_filter=["Empty"])
    if version >= 5:
        assert group in listed(types_filter=["classic"])
        assert group not in listed(types_filter=["consumer"])


def test_offsets_are_deleted_one_by_one(desk: Wire) -> None:
    topic_id = desk.create_topic("deleted", 2)
    partitions = [OffsetCommitRequestPartition(partition_index=n, committed_offset=5) for n in (0, 1)]
    topic = OffsetCommitRequestTopic(topic_id=topic_id, partitions=partitions)
    desk.ask(OffsetCommitRequest(group_id="forgetful", topics=[topic]))
    forget = OffsetDeleteRequestTopic(
        name="deleted", partitions=[OffsetDeleteRequestPartition(partition_index=0)]
    )
    answer = desk.ask(OffsetDeleteRequest(group_id="forgetful", topics=[forget]))
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0)
    assert fetched(desk, "forgetful", "deleted", topic_id, 10, everything=True) == [(1, 5, "")]


def hello(group: str, member: str, topic: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )


@pytest.mark.parametrize("version", versions(68))
def test_the_life_of_a_member_of_the_consumer_protocol(desk: Wire, version: int) -> None:
    group = topic = f"consumer-{version}"
    topic_id = desk.create_topic(topic, 3)
    first = desk.ask(hello(group, "one" if version else "", topic), version)
    assert (first.error_code, first.assignment.topic_partitions[0].partitions) == (0, [0, 1, 2])
    member = first.member_id
    beat = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=first.member_epoch,
        topic_partitions=[TopicPartitions(topic_id=topic_id, partitions=[0, 1, 2])],
    )
    again = desk.ask(beat, version)
    assert (again.error_code, again.member_epoch) == (0, first.member_epoch)
    for describe_version in versions(69):
        query = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=True)
        described = desk.ask(query, describe_version).groups[0]
        assert (described.error_code, described.group_state, described.assignor_name) == (
            0,
            "Stable",
            "uniform",
        )
        assert described.members[0].client_host == "/127.0.0.1"
        assert described.authorized_operations > 0
    left = desk.ask(ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=-1), version)
    assert (left.error_code, left.member_epoch) == (0, -1)
    gone = desk.ask(beat, version)
    assert gone.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_group_configs_reach_the_members(desk: Wire) -> None:
    desk.create_topic("configured")
    assert desk.ask(hello("configured", "one", "configured")).heartbeat_interval_ms == 5000
    desk._alter(GROUP_CONFIG, "configured", {"consumer.heartbeat.interval.ms": 7000})
    assert desk.ask(hello("configured", "one", "configured")).heartbeat_interval_ms == 7000
    resource = DescribeConfigsResource(
        resource_type=GROUP_CONFIG, resource_name="configured", configuration_keys=None
    )
    (reply,) = desk.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True)).results
    found = {each.name: (each.value, each.config_source) for each in reply.configs}
    assert found["consumer.heartbeat.interval.ms"] == ("7000", 8)
    assert found["consumer.session.timeout.ms"] == ("45000", 5)
    # Other groups have the broker configs.
    desk.alter_brokers(**{"group.consumer.heartbeat.interval.ms": 6000})
    assert desk.ask(hello("others", "one", "configured")).heartbeat_interval_ms == 6000
    desk.alter_brokers(**{"group.consumer.heartbeat.interval.ms": None})
    assert desk.ask(hello("others", "one", "configured")).heartbeat_interval_ms == 5000


def test_the_consumer_protocol_can_be_switched_off() -> None:
    with Cluster(in_process=True) as cluster, Wire(cluster.bootstrap_servers) as wire:
        wire.create_topic("t")
        wire.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
        for level, upgrade_type, expected in ((0, 2, ErrorCode.UNSUPPORTED_VERSION), (1, 1, ErrorCode.NONE)):
            update = FeatureUpdateKey(
                feature="group.version", max_version_level=level, upgrade_type=upgrade_type
            )
            assert wire.ask(UpdateFeaturesRequest(feature_updates=[update])).error_code == 0
            assert wire.ask(hello("g", "one", "t")).error_code == expected
            described = wire.ask(ConsumerGroupDescribeRequest(group_ids=["g"])).groups[0]
            assert described.error_code == expected


def test_invalid_group_names(desk: Wire) -> None:
    beat = HeartbeatRequest(group_id="", generation_id=1, member_id="m")
    assert desk.ask(beat).error_code == ErrorCode.INVALID_GROUP_ID
    assert desk.ask(hello("", "m", "t")).error_code == ErrorCode.INVALID_REQUEST
    deleted = desk.ask(DeleteGroupsRequest(groups_names=["", "x", "x"]))
    assert [(each.group_id, each.error_code) for each in deleted.results] == [
        ("", ErrorCode.INVALID_GROUP_ID),
        ("x", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


def test_requests_after_a_waiting_join_are_answered_after_it(desk: Wire, group_servers: str) -> None:
    """The join waits for the other member; a heartbeat of a third on its connection waits too."""
    joined = join(desk, "line")
    sync(desk, "line", joined)
    with Wire(group_servers) as second:
        query = JoinGroupRequest(
            group_id="line",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
        )
        query.member_id = second.ask(query, 9).member_id
        waiting = second.send(query, 9)
        behind = second.send(HeartbeatRequest(group_id="line", generation_id=1, member_id="stranger"))
        beat = HeartbeatRequest(group_id="line", generation_id=1, member_id=joined.member_id)
        while desk.ask(beat).error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            pass
        asked_again = JoinGroupRequest(
            group_id="line",
            member_id=joined.member_id,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
        )
        assert desk.ask(asked_again, 9).generation_id == 2
        assert second.receive(waiting).generation_id == 2
        assert second.receive(behind).error_code == ErrorCode.UNKNOWN_MEMBER_ID
