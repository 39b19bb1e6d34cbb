"""A change of min.insync.replicas while the ISR shrinks, with the controller's response before the metadata.

The controller counts with the new minimum, and keeps the replica that leaves as an eligible leader. The
leader must not commit alone under the old one.
"""

from __future__ import annotations

import pytest

from ottla.broker.node import Node as Broker
from ottla.controller.image.parts import ImageDelta, PartitionImage
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.config_record import ConfigRecord
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from ottla.protocol.messages.partition_change_record import PartitionChangeRecord
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.produce_response import ProduceResponse
from ottla.records.build import build_batch
from simulator.clients.admins import SET, TOPIC_RESOURCE, Admin
from simulator.clients.base import Client, RetryLater
from simulator.history.operations import PartitionName
from simulator.runtime.request_hold import RequestHold
from simulator.world import CONTROLLER_PORT, Node, World
from tests.support.simulation.directed import run, until

TOPIC = PartitionName("t", 0)
PROPERTIES = {
    "replica.lag.time.max.ms": "600",
    "broker.session.timeout.ms": "60000",
    "controller.quorum.fetch.timeout.ms": "60000",
}


async def produce(client: Client, node: Node, value: bytes) -> ErrorCode | None:
    """Write with acks=all; None without a response."""
    batch = bytes(build_batch([(client.world.now_ms, None, value, ())]))
    data = PartitionProduceData(index=0, records=batch)
    topic = TopicProduceData(name=TOPIC.topic, topic_id=client.topic_id, partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=2500, topic_data=[topic])
    try:
        response = await client.request_from(node.host_port, request, ProduceResponse)
    except RetryLater:
        return None
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


async def set_min_isr(admin: Admin, through: Node, min_isr: int) -> None:
    config = AlterableConfig(name="min.insync.replicas", config_operation=SET, value=str(min_isr))
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=TOPIC.topic, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    response = await admin.request_from(through.host_port, request, IncrementalAlterConfigsResponse)
    assert response.responses[0].error_code == 0


def partition_at(node: Node) -> PartitionImage:
    """The partition in the metadata of this node."""
    topic = None if node.broker is None else node.broker.metadata.image.topics_by_name.get(TOPIC.topic)
    return PartitionImage() if topic is None else topic.partitions[0]


def isr_at(node: Node) -> tuple[int, ...]:
    return tuple(partition_at(node).isr)


def leader_at(node: Node) -> int:
    return partition_at(node).leader


@pytest.mark.parametrize("seed", range(3))
def test_no_acknowledged_record_is_lost_when_the_minimum_is_raised(seed: int) -> None:
    async def script(world: World) -> None:
        controller, first, second = world.add_cluster(2, PROPERTIES, controllers=1)
        await world.start_all([controller, first, second])
        admin = Admin(world, "admin", TOPIC.topic)
        configs = {"min.insync.replicas": "1"}
        await world.spawn(
            admin.process, admin.create_topic(TOPIC.topic, replication_factor=2, configs=configs)
        )
        await until(lambda: len(isr_at(first)) == len(isr_at(second)) == 2)
        await world.spawn(admin.process, admin.refresh())
        leader, other = (first, second) if leader_at(first) == 1 else (second, first)
        assert await world.spawn(admin.process, produce(admin, leader, b"both")) == ErrorCode.NONE

        # The leader gets no metadata from here on, but responses to its requests.
        hold = RequestHold(
            world.network,
            leader.name,
            controller.name,
            ApiKey.FETCH,
            port=CONTROLLER_PORT,
            all_of_them=True,
            answers=True,
        )
        await world.spawn(admin.process, set_min_isr(admin, other, 2))
        world.network.partition([leader.name], [other.name])
        writing = world.spawn(admin.process, produce(admin, leader, b"alone"))
        await until(lambda: isr_at(other) == (leader.id,))
        acknowledged = await writing
        assert isr_at(leader) != (leader.id,), "the metadata of the leader are held back"
        leader.kill()
        hold.release_held()
        await until(lambda: leader_at(other) == other.id)
        assert other.broker is not None
        replica = other.broker.partitions.by_name(*TOPIC)
        assert replica is not None
        assert replica.log.log_end_offset >= (2 if acknowledged == ErrorCode.NONE else 1)

    run(script, seed)


def test_a_smaller_minimum_takes_effect_after_the_partitions() -> None:
    """The ISR of older metadata, with a member that the controller has removed since, must not meet it."""

    async def script(world: World) -> None:
        controller, first, second = world.add_cluster(2, PROPERTIES, controllers=1)
        await world.start_all([controller, first, second])
        admin = Admin(world, "admin", TOPIC.topic)
        configs = {"min.insync.replicas": "2"}
        await world.spawn(
            admin.process, admin.create_topic(TOPIC.topic, replication_factor=2, configs=configs)
        )
        await until(lambda: len(isr_at(first)) == len(isr_at(second)) == 2)
        node = first if leader_at(first) == 1 else second
        assert node.process is not None and node.broker is not None
        await world.spawn(node.process, shrink_and_lower(node.broker, node.id))

    async def shrink_and_lower(broker: Broker, node_id: int) -> None:
        image, partition = broker.metadata.image, broker.partitions.by_name(*TOPIC)
        assert partition is not None and partition.leader is not None
        topic_id, delta = image.topics_by_name[TOPIC.topic].topic_id, ImageDelta()
        image.apply(PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[node_id]), delta)
        name, value = "min.insync.replicas", "1"
        image.apply(
            ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=TOPIC.topic, name=name, value=value),
            delta,
        )
        steps = broker.lifecycle.carry_out(delta)
        next(steps)
        assert (partition.leader.isr, partition.leader.min_isr) == ((node_id,), 2)
        assert next(steps, None) is None
        assert partition.leader.min_isr == 1

    run(script)
