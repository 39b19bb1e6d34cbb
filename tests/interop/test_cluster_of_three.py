"""Three brokers: each forwards commands to the controller and describes the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ottla.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from ottla.protocol.messages.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from ottla.testing import Cluster
from ottla.testing.topics import topic_name_for
from tests.support.interop.kafka_python import kafka
from tests.support.interop.wire import Wire
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def trio() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


def addresses(cluster: Cluster) -> list[str]:
    return cluster.bootstrap_servers.split(",")


def quorum(wire: Wire, version: int = 2) -> Any:
    topic = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData()])
    return wire.ask(DescribeQuorumRequest(topics=[topic]), version)


def controllers(cluster: Cluster) -> tuple[int, dict[int, str]]:
    """Return the quorum leader and the addresses of all controllers."""
    with Wire(addresses(cluster)[0]) as wire:
        reply = quorum(wire)
    where = {each.node_id: f"{each.listeners[0].host}:{each.listeners[0].port}" for each in reply.nodes}
    return reply.topics[0].partitions[0].leader_id, where


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_broker_describes_the_quorum(trio: Cluster, version: int) -> None:
    for address in addresses(trio):
        with Wire(address) as wire:
            reply = quorum(wire, version)
        (partition,) = reply.topics[0].partitions
        assert (reply.error_code, partition.error_code) == (0, 0)
        assert sorted(each.replica_id for each in partition.current_voters) == [0, 1, 2]
        assert partition.high_watermark > 0


def test_every_broker_forwards_commands_to_the_controller(trio: Cluster) -> None:
    for node_id, address in enumerate(addresses(trio)):
        with Wire(address) as wire:
            name = topic_name_for(f"from-{node_id}")
            wire.create_topic(name, 2)
            query = [TopicPartitions(topic=name, partitions=[0])]
            for version in (0, 1, 2):
                answer = wire.ask(ElectLeadersRequest(topic_partitions=query), version)
                (result,) = answer.replica_election_results[0].partition_result
                assert result.error_code == ErrorCode.ELECTION_NOT_NEEDED
            refused = wire.ask(UnregisterBrokerRequest(broker_id=77))
            assert refused.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
            reply = wire.ask(DescribeClusterRequest())
            assert reply.controller_id == node_id, "a broker names itself as controller"
            assert sorted(each.broker_id for each in reply.brokers) == [0, 1, 2]


def test_only_the_active_controller_decides(trio: Cluster) -> None:
    leader, where = controllers(trio)
    for node_id, address in where.items():
        with Wire(address) as wire:
            answer = wire.ask(ElectLeadersRequest(topic_partitions=None))
            assert answer.error_code == (0 if node_id == leader else ErrorCode.NOT_CONTROLLER)
            reply = quorum(wire)
            assert reply.error_code == (0 if node_id == leader else ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_controller_listeners_describe_controllers(trio: Cluster) -> None:
    leader, where = controllers(trio)
    for address in where.values():
        with Wire(address) as wire:
            reply = wire.ask(DescribeClusterRequest(endpoint_type=2))
            assert (reply.error_code, reply.controller_id) == (0, leader)
            assert [each.broker_id for each in reply.brokers] == [0, 1, 2]
            mismatch = wire.ask(DescribeClusterRequest(endpoint_type=1)).error_code
            assert mismatch == ErrorCode.MISMATCHED_ENDPOINT_TYPE
            query = ApiVersionsRequest(client_software_name="wire", client_software_version="1")
            keys = [each.api_key for each in wire.ask(query).api_keys]
            assert {1, 52, 62, 63} <= set(keys)
            assert not {0, 3} & set(keys), "clients are not served here"


def test_the_quorum_by_kafka_python(trio: Cluster) -> None:
    admin = kafka.KafkaAdminClient(bootstrap_servers=trio.bootstrap_servers.split(","))
    try:
        (partition,) = admin.describe_metadata_quorum()["topics"][0]["partitions"]
    finally:
        admin.close()
    assert len(partition["current_voters"]) == 3


def test_a_dead_broker_leads_nothing(trio: Cluster) -> None:
    leader, _ = controllers(trio)
    dead, witness = [each for each in (0, 1, 2) if each != leader]
    name = topic_name_for("dead")
    with Wire(addresses(trio)[witness]) as wire:
        wire.create_topic(name, 6)
        query = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        trio.kill(dead)
        cluster = DescribeClusterRequest()
        wait_until(lambda: len(wire.ask(cluster).brokers) == 2, "the dead broker is fenced")
        for each in wire.ask(query).topics[0].partitions:
            assert (each.error_code, each.offline_replicas) == (0, [dead])
            assert each.leader_id in each.isr_nodes and dead not in each.isr_nodes
        fenced = wire.ask(DescribeClusterRequest(include_fenced_brokers=True)).brokers
        assert [each.broker_id for each in fenced if each.is_fenced] == [dead]
        described = wire.ask(DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name)]))
        for each in described.topics[0].partitions:
            assert (each.error_code, each.offline_replicas) == (0, [dead])
            assert each.leader_id != dead
        trio.restart(dead)
        wait_until(lambda: len(wire.ask(query).brokers) == 3, "it is back")
        assert wire.ask(query).topics[0].partitions[0].offline_replicas == []
