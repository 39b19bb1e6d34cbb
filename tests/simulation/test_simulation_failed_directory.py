"""What a failed directory of one broker does to requests that also concern its other directories."""

from __future__ import annotations

import asyncio

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.fetch_response import FetchResponse
from ottla.storage.log import PartitionLog
from simulator.clients.admins import Admin
from simulator.clients.base import Client
from simulator.clients.producers import Producer
from simulator.world import World

TOPIC = "events"


@pytest.mark.parametrize("fails_while_the_fetch_waits", [False, True])
def test_a_fetch_reports_the_failed_partition_and_serves_the_others(
    fails_while_the_fetch_waits: bool,
) -> None:
    """The producer state is loaded on demand after a restart: it cannot be read any more."""
    world = World(1)
    node = world.add_node(1, {"log.dirs": "/data/1,/data/2"})
    admin, producer, reader = Admin(world, "a"), Producer(world, "p", TOPIC, 2), Client(world, "r", TOPIC)

    def log_of(index: int) -> PartitionLog:
        assert node.broker is not None
        partition = node.broker.partitions.by_name(TOPIC, index)
        assert partition is not None
        return partition.log

    def fail() -> None:
        log_of(1).producers.state = None  # as after a clean start
        node.disk.fail(log_of(1).log_dir.path)

    async def fetch() -> dict[int, int]:
        await reader.refresh()
        connection = await reader.leader_of(0)
        topic = FetchTopic(
            topic_id=reader.topic_id,
            partitions=[
                FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
                for index, offset in offsets.items()
            ],
        )
        request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=[topic])
        if not fails_while_the_fetch_waits:
            fail()
        else:
            world.loop.call_later(0.2, fail)
        answer = await connection.request(request, FetchResponse, timeout_ms=3_000)
        return {each.partition_index: each.error_code for each in answer.responses[0].partitions}

    async def script(world: World) -> dict[int, int]:
        await node.start()
        await world.spawn(admin.process, admin.create_topic(TOPIC, partitions=2))
        writing = world.spawn(producer.process, producer.run())
        await asyncio.sleep(0.3)
        producer.stopping = True
        await writing
        node.kill()
        await node.start()
        for index in offsets:
            offsets[index] = log_of(index).log_end_offset
        task: asyncio.Task[dict[int, int]] = world.spawn(reader.process, fetch())
        return await task

    offsets = {0: 0, 1: 0}
    codes = world.run(script)
    assert codes == {0: ErrorCode.NONE, 1: ErrorCode.KAFKA_STORAGE_ERROR}
    assert world.loop.errors == []
