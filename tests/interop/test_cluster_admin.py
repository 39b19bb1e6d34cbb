"""Administration of a cluster: elections, reassignments, features, the quorum, with a
single node that is broker and controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from ottla.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ottla.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from ottla.protocol.messages.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from ottla.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ottla.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from ottla.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.interop.java import JavaClient
from tests.support.interop.kafka_python import kafka
from tests.support.interop.wire import Wire

PREFERRED, UNCLEAN = 0, 1


@pytest.fixture
def python_admin(servers: str) -> Iterator[Any]:
    admin = kafka.KafkaAdminClient(bootstrap_servers=servers)
    yield admin
    admin.close()


# -- elections


@pytest.mark.parametrize("version", [0, 1, 2])
def test_elections_that_are_not_needed(wire: Wire, topic: str, version: int) -> None:
    query = [TopicPartitions(topic=topic, partitions=[0, 5]), TopicPartitions(topic="none", partitions=[0])]
    answer = wire.ask(ElectLeadersRequest(topic_partitions=query), version)
    found = {
        (result.topic, each.partition_id): each.error_code
        for result in answer.replica_election_results
        for each in result.partition_result
    }
    assert answer.error_code == 0
    assert found == {
        (topic, 0): ErrorCode.ELECTION_NOT_NEEDED,
        (topic, 5): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_election_of_all_partitions_returns_only_changes(wire: Wire, topic: str) -> None:
    answer = wire.ask(ElectLeadersRequest(topic_partitions=None, election_type=UNCLEAN))
    assert (answer.error_code, answer.replica_election_results) == (0, [])
    assert wire.ask(ElectLeadersRequest(election_type=7, topic_partitions=[])).error_code == (
        ErrorCode.INVALID_REQUEST
    )


def test_elections_by_librdkafka(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    query = [TopicPartition(topic, 0), TopicPartition(topic, 9)]
    found = admin.elect_leaders(ElectionType.PREFERRED, query).result(15)
    assert {each.partition: error.code() for each, error in found.items()} == {
        0: KafkaError.ELECTION_NOT_NEEDED,
        9: KafkaError.UNKNOWN_TOPIC_OR_PART,
    }


def test_elections_by_kafka_python(python_admin: Any, topic: str) -> None:
    answer = python_admin.elect_leaders(PREFERRED, {topic: [0]}, raise_errors=False)
    (result,) = answer.replica_election_results
    assert (result.topic, result.partition_result[0].error_code) == (topic, ErrorCode.ELECTION_NOT_NEEDED)


# -- reassignments


def reassignment(topic: str, *targets: list[int] | None, **how: Any) -> AlterPartitionReassignmentsRequest:
    partitions = [ReassignablePartition(partition_index=i, replicas=each) for i, each in enumerate(targets)]
    topics = [ReassignableTopic(name=topic, partitions=partitions)]
    return AlterPartitionReassignmentsRequest(topics=topics, **how)


def test_reassignments(wire: Wire, new_topic: Callable[..., str]) -> None:
    name = new_topic(partitions=4)
    answer = wire.ask(reassignment(name, [1], [1, 2], None, [], [1]))
    assert answer.error_code == 0
    assert [each.error_code for each in answer.responses[0].partitions] == [
        ErrorCode.NONE,  # where it is already
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    ongoing = wire.ask(ListPartitionReassignmentsRequest(topics=None))
    assert (ongoing.error_code, ongoing.topics) == (0, [])


def test_reassignments_by_kafka_python(python_admin: Any, topic: str) -> None:
    here = kafka.TopicPartition(topic, 0)
    assert python_admin.alter_partition_reassignments({here: [1]}) == {here: None}
    (error,) = python_admin.alter_partition_reassignments({here: [1, 77]}).values()
    assert error.errno == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert python_admin.list_partition_reassignments() == {}


# -- features and brokers


@pytest.mark.parametrize("version", [0, 1, 2])
def test_features_stay_within_what_is_supported(wire: Wire, version: int) -> None:
    def update(level: int) -> Any:
        wanted = FeatureUpdateKey(feature="metadata.version", max_version_level=level)
        return wire.ask(UpdateFeaturesRequest(feature_updates=[wanted]), version)

    assert update(30).error_code == 0, "the level is set already"
    refusal = update(999)
    assert refusal.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "metadata.version" in refusal.error_message


def test_features_by_kafka_python(python_admin: Any) -> None:
    reply = python_admin.describe_features()
    assert reply["metadata.version"]["finalized"] == (30, 30)
    assert reply["kraft.version"] == {"supported": (0, 1)}, "0 with static voters"
    assert python_admin.update_features({"metadata.version": 30}, validate_only=True) == {
        "metadata.version": "OK"
    }


def test_an_unknown_broker_cannot_be_unregistered(wire: Wire) -> None:
    answer = wire.ask(UnregisterBrokerRequest(broker_id=77))
    assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_broker_listeners_do_not_describe_controllers(wire: Wire) -> None:
    answer = wire.ask(DescribeClusterRequest(endpoint_type=2))
    assert answer.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    answer = wire.ask(DescribeClusterRequest(include_fenced_brokers=True))
    assert (answer.controller_id, [each.broker_id for each in answer.brokers]) == (1, [1])


def test_described_leaders(wire: Wire, topic: str) -> None:
    answer = wire.ask(DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic)]))
    (found,) = answer.topics[0].partitions
    assert (found.leader_id, found.isr_nodes, found.eligible_leader_replicas) == (1, [1], [])
    assert found.offline_replicas == []


# -- the quorum


def quorum_request(topic: str = "__cluster_metadata") -> DescribeQuorumRequest:
    return DescribeQuorumRequest(topics=[TopicData(topic_name=topic, partitions=[PartitionData()])])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum_of_one(wire: Wire, version: int) -> None:
    answer = wire.ask(quorum_request(), version)
    assert answer.error_code == 0
    (partition,) = answer.topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (0, 1)
    assert partition.leader_epoch >= 1
    assert 0 < partition.high_watermark <= partition.current_voters[0].log_end_offset
    assert [each.replica_id for each in partition.current_voters] == [1]
    assert partition.observers == []
    assert [each.node_id for each in answer.nodes] == ([1] if version >= 2 else [])


def test_other_topics_have_no_quorum(wire: Wire, topic: str) -> None:
    answer = wire.ask(quorum_request(topic))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_quorum_by_kafka_python(python_admin: Any) -> None:
    reply = python_admin.describe_metadata_quorum()
    assert reply["topics"][0]["partitions"][0]["leader_id"] == 1


def test_static_voters_cannot_be_changed(wire: Wire) -> None:
    listener = Listener(name="CONTROLLER", host="localhost", port=1)
    add = AddRaftVoterRequest(
        cluster_id=None, voter_id=2, voter_directory_id=b"d" * 16, listeners=[listener], timeout_ms=1000
    )
    remove = RemoveRaftVoterRequest(cluster_id=None, voter_id=1, voter_directory_id=b"d" * 16)
    assert wire.ask(add).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert wire.ask(remove).error_code == ErrorCode.UNSUPPORTED_VERSION


# -- the Java client


def test_the_java_client(java_client: JavaClient, topic: str) -> None:
    assert java_client.run("cluster", topic=topic) == {
        "elected": "ElectionNotNeededException",
        "reassigned": "ok",
        "not reassigned": "InvalidReplicaAssignmentException",
        "not taken back": "NoReassignmentInProgressException",
        "reassignments": 0,
        "features": "ok",
        "no such level": "InvalidUpdateVersionException",
        "unregistered": "BrokerIdNotRegisteredException",
        "leader": 1,
        "voters": [1],
        "observers": [],
        "added": "UnsupportedVersionException",
    }
