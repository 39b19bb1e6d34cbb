"""Three brokers in a simulated world, and the requests that replication tests send."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from ottla.broker.net.peer import Peer
from ottla.broker.node import Node as Broker
from ottla.broker.replicas.partition import Partition
from ottla.protocol.message import Message
from ottla.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.fetch_response import FetchResponse, PartitionData
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse
from ottla.records.batch import iter_headers
from ottla.records.build import build_batch
from ottla.records.record import iter_records
from simulator.world import Node, World

TOPIC = "events"
LEADER, FOLLOWER, OTHER = 1, 2, 3  # as `create` places partition 0

Response = TypeVar("Response", bound=Message)


class Trio:
    """Nodes 1, 2, 3; the test runs outside of them, in virtual time."""

    def __init__(self, world: World, properties: Mapping[str, str], brokers: int = 3) -> None:
        self.world = world
        common = {
            "controlled.shutdown.enable": "true",
            "auto.leader.rebalance.enable": "false",
            **properties,
        }
        self.nodes = {node.id: node for node in world.add_cluster(brokers, common)}
        for node_id, node in self.nodes.items():
            node.properties["broker.rack"] = f"rack{node_id}"
        self._peers: dict[int, Peer] = {}

    def broker(self, node_id: int) -> Broker:
        broker = self.nodes[node_id].broker
        assert broker is not None
        return broker

    def partition(self, node_id: int, index: int = 0) -> Partition:
        partition = self.broker(node_id).partitions.by_name(TOPIC, index)
        assert partition is not None
        return partition

    @property
    def topic_id(self) -> bytes:
        up = next(node for node in self.nodes.values() if node.up)
        assert up.broker is not None
        return up.broker.metadata.image.topics_by_name[TOPIC].topic_id

    async def create(
        self,
        configs: Mapping[str, str] | None = None,
        replicas: tuple[int, ...] = (LEADER, FOLLOWER, OTHER),
        partitions: int = 1,
    ) -> None:
        """Create the topic, led by the first of `replicas`."""
        topic = CreatableTopic(
            name=TOPIC,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
                for index in range(partitions)
            ],
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in (configs or {}).items()],
        )
        answer = await self.ask_controller(CreateTopicsRequest(topics=[topic], timeout_ms=5000))
        assert not answer.topics[0].error_code, answer.topics[0].error_message
        for node_id in replicas:
            await self.until(
                lambda node_id=node_id: self.broker(node_id).partitions.by_name(TOPIC, 0) is not None  # type: ignore[misc]
            )

    async def ask_controller(self, message: Message) -> Any:
        """Send a request through any node that is up, in that node's process."""
        node = next(node for node in self.nodes.values() if node.serving)
        return await self.inside(node, lambda broker: broker.controller.ask(message))

    async def inside(self, node: Node, work: Callable[[Broker], Coroutine[Any, Any, Any]]) -> Any:
        """Run something in the process of a node."""
        assert node.process is not None and node.broker is not None
        future: asyncio.Future[Any] = self.world.loop.create_future()
        task = self.world.spawn(node.process, work(node.broker))

        def finish(done: asyncio.Task[Any]) -> None:
            if not future.done():
                future.set_result(done.result())

        task.add_done_callback(finish)
        return await future

    async def ask(self, node_id: int, message: Message, response: type[Response], **options: Any) -> Response:
        peer = self._peers.get(node_id)
        if peer is None:
            peer = self._peers[node_id] = Peer(*self.nodes[node_id].host_port, "test")
        return await peer.call(message, response, timeout_ms=60_000, **options)

    async def produce(
        self, value: str, node_id: int = LEADER, *, acks: int = -1, timeout_ms: int = 5000, index: int = 0
    ) -> PartitionProduceResponse:
        records = build_batch([(self.world.now_ms, None, value.encode(), ())])
        data = PartitionProduceData(index=index, records=bytes(records))
        topic = TopicProduceData(topic_id=self.topic_id, partition_data=[data])
        request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])
        answer = await self.ask(node_id, request, ProduceResponse)
        return answer.responses[0].partition_responses[0]

    async def fetch(
        self, node_id: int, offset: int = 0, *, rack: str = "", wait_ms: int = 0, read_committed: bool = False
    ) -> PartitionData:
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            topics=[FetchTopic(topic_id=self.topic_id, partitions=[wanted])],
            rack_id=rack,
            isolation_level=int(read_committed),
        )
        answer = await self.ask(node_id, request, FetchResponse)
        return answer.responses[0].partitions[0]

    def values(self, node_id: int) -> list[str]:
        """Return the values in a node's log, committed or not."""
        log = self.partition(node_id).log
        found: list[str] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            data = log.read(offset, 1 << 20).read()
            for position, header in iter_headers(data):
                found += [
                    bytes(record.value or b"").decode() for record in iter_records(data, position, header)
                ]
                offset = header.next_offset
        return found

    async def until(self, condition: Callable[[], bool], limit_s: float = 60.0) -> float:
        """Wait for the condition; return how long that took."""
        began = self.world.loop.time()
        while not condition():
            assert self.world.loop.time() - began < limit_s, "the condition was not met"
            await asyncio.sleep(0.001)
        return self.world.loop.time() - began

    def isr(self, node_id: int = LEADER) -> set[int]:
        leader = self.partition(node_id).leader
        assert leader is not None
        return set(leader.isr)

    def leader_id(self) -> int:
        up = next(node for node in self.nodes.values() if node.serving)
        assert up.broker is not None
        return up.broker.metadata.image.topics_by_name[TOPIC].partitions[0].leader


Scene = Callable[[Trio], Coroutine[Any, Any, None]]


def play(
    scene: Scene, properties: Mapping[str, str] | None = None, *, seed: int = 1, brokers: int = 3
) -> None:
    """Start the brokers and run a test with them."""

    async def story(world: World) -> None:
        trio = Trio(world, properties or {}, brokers)
        await world.start_all(trio.nodes.values())
        await scene(trio)

    world = World(seed)
    world.run(story, limit_s=600)
    assert not world.loop.errors, world.loop.errors[:3]
