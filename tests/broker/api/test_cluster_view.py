"""The view of clients on a cluster with fenced, unreachable or failed brokers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.api.cluster_view import PartitionView, any_live_node, nodes
from ottla.broker.api.topics.describe_topic_partitions import describe
from ottla.broker.api.topics.metadata import Metadata
from ottla.broker.identity import NodeIdentity
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.net.request import DeferredResponse
from ottla.controller.image.cluster import ClusterImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.partition_change_record import PartitionChangeRecord
from ottla.protocol.messages.partition_record import PartitionRecord
from ottla.protocol.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from ottla.protocol.messages.topic_record import TopicRecord

TOPIC_ID = b"t" * 16


def directory(broker_id: int) -> bytes:
    return (1000 + broker_id).to_bytes(16)


def broker_record(broker_id: int, *listeners: str, fenced: bool = False) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        broker_epoch=broker_id,
        incarnation_id=bytes([broker_id]) * 16,
        fenced=fenced,
        log_dirs=[directory(broker_id)],
        end_points=[
            BrokerEndpoint(name=name, host=f"{name.lower()}-{broker_id}", port=9092)
            for name in listeners or ("INSIDE", "OUTSIDE")
        ],
    )


@pytest.fixture
def image() -> ClusterImage:
    """Four brokers: 3 is fenced, 4 cannot be reached from outside; and partitions led by each."""
    made = ClusterImage()
    for record in (
        broker_record(1),
        broker_record(2),
        broker_record(3, fenced=True),
        broker_record(4, "INSIDE"),
    ):
        made.apply(record)
    made.apply(TopicRecord(name="t", topic_id=TOPIC_ID))
    for leader in (1, 2, 3, 4):
        made.apply(
            PartitionRecord(
                partition_id=leader,
                topic_id=TOPIC_ID,
                replicas=[leader, 1 + leader % 4],
                isr=[leader],
                leader=leader,
                leader_epoch=7,
                directories=[directory(leader), directory(1 + leader % 4)],
            )
        )
    return made


def requested(version: int, listener: str = "OUTSIDE") -> Any:
    return SimpleNamespace(version=version, listener=SimpleNamespace(name=listener))


def metadata_of(
    image: ClusterImage,
    version: int,
    topics: list[MetadataRequestTopic] | None,
    *,
    listener: str = "OUTSIDE",
    node_id: int = 1,
) -> Any:
    identity, cache, creator = NodeIdentity(node_id), MetadataCache(), SimpleNamespace()
    cache.image = image
    handler = Metadata(
        identity,
        cache,
        creator,  # type: ignore[arg-type]
        lambda _: False,
        lambda broker_id: broker_id == 9,
        auto_create_topics=False,
    )
    response = handler.handle(requested(version, listener), MetadataRequest(topics=topics))
    assert isinstance(response, DeferredResponse)
    return response.build()


def test_only_brokers_with_this_listener_that_are_not_fenced(image: ClusterImage) -> None:
    assert [node.node_id for node in nodes(image, "OUTSIDE")] == [1, 2]
    assert [node.node_id for node in nodes(image, "INSIDE")] == [1, 2, 4]
    assert nodes(image, "INSIDE")[2].host == "inside-4"
    assert [node.node_id for node in nodes(image, "OUTSIDE", lambda _: True)] == [1, 2, 3]
    assert nodes(image, "NOWHERE") == []


def test_any_live_broker_can_be_given_as_the_controller(image: ClusterImage) -> None:
    found = nodes(image, "OUTSIDE", lambda _: True)
    assert any_live_node(found, 2) == 2
    assert any_live_node(found, 3) == 1, "a fenced broker names another"
    assert any_live_node([], 3) == -1


def test_leaders(image: ClusterImage) -> None:
    partitions = image.topics_by_id[TOPIC_ID].partitions
    outside, inside = PartitionView(image, "OUTSIDE"), PartitionView(image, "INSIDE")
    assert outside.leader(partitions[1]) == (1, ErrorCode.NONE)
    assert outside.leader(partitions[3]) == (-1, ErrorCode.LEADER_NOT_AVAILABLE), "it is fenced"
    assert outside.leader(partitions[4]) == (-1, ErrorCode.LISTENER_NOT_FOUND)
    assert inside.leader(partitions[4]) == (4, ErrorCode.NONE)
    gone = PartitionView(image, "OUTSIDE", lambda broker_id: broker_id == 1)
    assert gone.leader(partitions[1]) == (-1, ErrorCode.LEADER_NOT_AVAILABLE), "it stopped listening"
    image.apply(PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, leader=-1))
    assert outside.leader(partitions[1]) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)


def test_offline_replicas(image: ClusterImage) -> None:
    partitions = image.topics_by_id[TOPIC_ID].partitions
    assert PartitionView(image, "OUTSIDE").offline_replicas(partitions[1]) == []
    assert PartitionView(image, "OUTSIDE").offline_replicas(partitions[3]) == [3, 4]
    assert PartitionView(image, "INSIDE").offline_replicas(partitions[3]) == [3]
    partitions[1].replicas = (1, 9)
    assert PartitionView(image, "OUTSIDE").offline_replicas(partitions[1]) == [9], "an unknown broker"
    partitions[1].directories = (bytes(15) + b"\x01", bytes(16))
    partitions[1].replicas = (1, 2)
    assert PartitionView(image, "OUTSIDE").offline_replicas(partitions[1]) == [1], "its directory is lost"
    partitions[1].directories = (directory(7), bytes(16))
    assert PartitionView(image, "OUTSIDE").offline_replicas(partitions[1]) == [1], "its directory is lost"
    partitions[1].directories = ()
    assert PartitionView(image, "OUTSIDE").offline_replicas(partitions[1]) == []


def by_index(answer: Any) -> dict[int, Any]:
    return {each.partition_index: each for each in answer.topics[0].partitions}


def test_metadata(image: ClusterImage) -> None:
    answer = metadata_of(image, 13, None, node_id=3)
    assert [each.node_id for each in answer.brokers] == [1, 2]
    assert answer.controller_id == 1
    found = by_index(answer)
    assert (found[1].leader_id, found[1].error_code, found[1].leader_epoch) == (1, 0, 7)
    assert (found[3].leader_id, found[3].error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)
    assert (found[4].leader_id, found[4].error_code) == (-1, ErrorCode.LISTENER_NOT_FOUND)
    assert found[2].replica_nodes == [2, 3]
    assert found[2].offline_replicas == [3]
    inside = by_index(metadata_of(image, 13, None, listener="INSIDE"))
    assert (inside[4].leader_id, inside[4].error_code) == (4, 0)


def test_metadata_for_old_clients(image: ClusterImage) -> None:
    found = by_index(metadata_of(image, 5, None))
    assert found[4].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    found = by_index(metadata_of(image, 0, []))
    assert (found[1].error_code, found[1].replica_nodes) == (0, [1, 2])
    assert (found[2].error_code, found[2].replica_nodes) == (ErrorCode.REPLICA_NOT_AVAILABLE, [2])
    assert (found[3].error_code, found[3].isr_nodes) == (ErrorCode.LEADER_NOT_AVAILABLE, [])


def test_describe_topic_partitions_has_eligible_leaders(image: ClusterImage) -> None:
    image.apply(
        PartitionChangeRecord(
            partition_id=2,
            topic_id=TOPIC_ID,
            leader=-1,
            isr=[],
            eligible_leader_replicas=[3],
            last_known_elr=[2],
        )
    )
    answer = describe(image, 2000, requested(0), DescribeTopicPartitionsRequest())
    found = by_index(answer)
    two = found[2]
    assert (two.leader_id, two.error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)
    assert (two.isr_nodes, two.eligible_leader_replicas, two.last_known_elr) == ([], [3], [2])
    assert two.offline_replicas == [3]
    assert (found[3].leader_id, found[3].error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)
    assert (found[1].leader_id, found[1].error_code) == (1, 0)
