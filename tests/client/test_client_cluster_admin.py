"""Requests about quorum, replicas and leaders, against a stub broker with scripted responses."""

from __future__ import annotations

import pytest

from ottla.client import (
    ELECT_PREFERRED,
    Admin,
    BrokerError,
    ClusterClient,
    PartitionState,
    Reassignment,
    UnknownTopicError,
    UnsupportedApiError,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import (
    alter_partition_reassignments_response,
    describe_cluster_response,
    describe_quorum_response,
    describe_topic_partitions_response,
    elect_leaders_response,
    list_partition_reassignments_response,
    unregister_broker_response,
    update_features_response,
)


def test_the_quorum_with_its_lag_is_retried_until_there_is_a_leader(with_stub):
    wire = describe_quorum_response

    def answer(code, voters=(), observers=()):
        row = wire.PartitionData(
            error_code=code,
            leader_id=2,
            leader_epoch=7,
            high_watermark=40,
            current_voters=[wire.ReplicaState(replica_id=i, log_end_offset=end) for i, end in voters],
            observers=[
                wire.ReplicaState(replica_id=i, log_end_offset=end, last_caught_up_timestamp=at)
                for i, end, at in observers
            ],
        )
        return wire.DescribeQuorumResponse(
            topics=[wire.TopicData(topic_name="__cluster_metadata", partitions=[row])]
        )

    async def scenario(stub):
        stub.plans["DescribeQuorum"] += [
            answer(ErrorCode.NOT_LEADER_OR_FOLLOWER),
            answer(0, [(1, 40), (2, 44), (3, -1)], [(4, 41, 99)]),
        ]
        async with Admin(stub.bootstrap) as admin:
            return await admin.describe_quorum()

    quorum = with_stub(scenario)
    assert quorum[:3] == (2, 7, 40)
    assert [(row.node_id, row.end_offset, row.lag) for row in quorum.voters] == [
        (1, 40, 4),
        (2, 44, 0),
        (3, -1, -1),
    ]
    assert [(row.node_id, row.lag, row.last_caught_up_ms) for row in quorum.observers] == [(4, 3, 99)]


def test_partitions_are_collected_page_by_page(with_stub):
    wire = describe_topic_partitions_response

    def page(numbers, cursor=None):
        rows = [
            wire.DescribeTopicPartitionsResponsePartition(
                partition_index=number,
                leader_id=1,
                leader_epoch=3,
                replica_nodes=[1, 2],
                isr_nodes=[1],
                eligible_leader_replicas=[2],
            )
            for number in numbers
        ]
        topic = wire.DescribeTopicPartitionsResponseTopic(name="t", topic_id=b"\1" * 16, partitions=rows)
        return wire.DescribeTopicPartitionsResponse(topics=[topic], next_cursor=cursor)

    async def scenario(stub):
        cursor = wire.Cursor(topic_name="t", partition_index=2)
        stub.plans["DescribeTopicPartitions"] += [page([0, 1], cursor), page([2])]
        async with Admin(stub.bootstrap) as admin:
            found = await admin.describe_topic_partitions(["t"])
            asked = stub.asked("DescribeTopicPartitions")
            assert [request.cursor and request.cursor.partition_index for request in asked] == [None, 2]
            missing = wire.DescribeTopicPartitionsResponseTopic(name="x", error_code=3)
            stub.plans["DescribeTopicPartitions"].append(
                wire.DescribeTopicPartitionsResponse(topics=[missing])
            )
            with pytest.raises(UnknownTopicError, match="'x'"):
                await admin.describe_topic_partitions(["x"])
            return found["t"]

    topic = with_stub(scenario)
    assert topic.partitions == {
        number: PartitionState(number, 1, 3, (1, 2), (1,), (2,), (), ()) for number in range(3)
    }


def test_elections_report_each_partition(with_stub):
    wire = elect_leaders_response

    async def scenario(stub):
        results = [
            wire.PartitionResult(partition_id=0, error_message=None),
            wire.PartitionResult(partition_id=1, error_code=84, error_message="no need"),
        ]
        stub.plans["ElectLeaders"].append(
            wire.ElectLeadersResponse(
                replica_election_results=[wire.ReplicaElectionResult(topic="t", partition_result=results)]
            )
        )
        async with Admin(stub.bootstrap) as admin:
            found = await admin.elect_leaders(ELECT_PREFERRED, [("t", 0), ("u", 1), ("t", 1)])
        (request,) = stub.asked("ElectLeaders")
        assert [(row.topic, row.partitions) for row in request.topic_partitions] == [
            ("t", [0, 1]),
            ("u", [1]),
        ]
        assert request.election_type == 0
        return found

    found = with_stub(scenario)
    assert found["t", 0] is None
    assert found["t", 1].code == ErrorCode.ELECTION_NOT_NEEDED
    assert "topic 't' partition 1: ELECTION_NOT_NEEDED (84): no need" in str(found["t", 1])


def test_reassignments_are_started_cancelled_and_listed(with_stub):
    alter, listed = alter_partition_reassignments_response, list_partition_reassignments_response

    async def scenario(stub):
        rows = [
            alter.ReassignablePartitionResponse(partition_index=0, error_message=None),
            alter.ReassignablePartitionResponse(partition_index=1, error_code=85, error_message=None),
        ]
        stub.plans["AlterPartitionReassignments"].append(
            alter.AlterPartitionReassignmentsResponse(
                error_message=None, responses=[alter.ReassignableTopicResponse(name="t", partitions=rows)]
            )
        )
        move = listed.OngoingPartitionReassignment(
            partition_index=0, replicas=[1, 2, 3], adding_replicas=[3], removing_replicas=[1]
        )
        stub.plans["ListPartitionReassignments"].append(
            listed.ListPartitionReassignmentsResponse(
                error_message=None, topics=[listed.OngoingTopicReassignment(name="t", partitions=[move])]
            )
        )
        async with Admin(stub.bootstrap) as admin:
            answers = await admin.alter_partition_reassignments({("t", 0): [2, 3], ("t", 1): None})
            moves = await admin.list_partition_reassignments()
        (request,) = stub.asked("AlterPartitionReassignments")
        assert [row.replicas for row in request.topics[0].partitions] == [[2, 3], None]
        assert stub.asked("ListPartitionReassignments")[0].topics is None
        return answers, moves

    answers, moves = with_stub(scenario)
    assert answers["t", 0] is None
    assert answers["t", 1].code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert moves == {("t", 0): Reassignment((1, 2, 3), (3,), (1,))}
    assert moves["t", 0].target == (2, 3)


def test_update_features_and_unregister_brokers(with_stub):
    async def scenario(stub):
        stub.plans["UpdateFeatures"] += [
            update_features_response.UpdateFeaturesResponse(error_message=None),
            update_features_response.UpdateFeaturesResponse(error_code=96, error_message="too new"),
        ]
        stub.plans["UnregisterBroker"].append(
            unregister_broker_response.UnregisterBrokerResponse(error_code=102, error_message="unknown")
        )
        async with Admin(stub.bootstrap) as admin:
            await admin.update_features({"metadata.version": 25})
            with pytest.raises(BrokerError, match=r"FEATURE_UPDATE_FAILED \(96\): too new"):
                await admin.update_features({"metadata.version": 99})
            with pytest.raises(BrokerError, match="broker 9: unknown"):
                await admin.unregister_broker(9)
        (first, _) = stub.asked("UpdateFeatures")
        assert [(row.feature, row.max_version_level) for row in first.feature_updates] == [
            ("metadata.version", 25)
        ]

    with_stub(scenario)


def test_fenced_brokers_are_requested_only_where_brokers_report_them(with_stub):
    wire = describe_cluster_response

    async def scenario(stub):
        rows = [
            wire.DescribeClusterBroker(broker_id=1),
            wire.DescribeClusterBroker(broker_id=2, is_fenced=True),
        ]
        stub.plans["DescribeCluster"].append(wire.DescribeClusterResponse(cluster_id="c", brokers=rows))
        async with Admin(stub.bootstrap) as admin:
            info = await admin.describe_cluster(include_fenced=True)
            assert [node.is_fenced for node in info.nodes] == [False, True]
        stub.versions[60] = (0, 1)
        stub.plans["DescribeCluster"].append(wire.DescribeClusterResponse(cluster_id="c"))
        async with Admin(stub.bootstrap) as admin:
            await admin.describe_cluster(include_fenced=True)
        assert [request.include_fenced_brokers for request in stub.asked("DescribeCluster")] == [True, False]
        del stub.versions[55]
        async with Admin(stub.bootstrap) as admin:
            with pytest.raises(UnsupportedApiError, match="DescribeQuorum"):
                await admin.describe_quorum()

    with_stub(scenario)


def test_an_unreachable_leader_expires_its_topics(with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        async with ClusterClient(stub.bootstrap) as cluster:
            await cluster.topic("t")
            asked = len(stub.asked("Metadata"))
            await cluster.topic("t")
            assert len(stub.asked("Metadata")) == asked
            node = cluster.view.nodes[1]
            cluster.view.nodes[1] = node._replace(port=1)
            with pytest.raises(Exception, match="cannot connect"):
                await cluster.connection_to(1)
            await cluster.topic("t")
            assert len(stub.asked("Metadata")) == asked + 1

    with_stub(scenario)
