"""What every client of the simulated world can do: find leaders, keep connections, ask somebody.

They speak through the shipped `ottla.client.aio.connection`; what they do with the answers is kept short here
and in `producers.py`, `consumers.py` and `admins.py`, so that a checker's complaint is about the cluster and
not about them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TypeVar

from ottla.client import Connection
from ottla.client.errors import ClientError
from ottla.protocol.message import Message
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.metadata_response import MetadataResponse
from ottla.records.batch import CorruptBatch, crc_ok, iter_headers
from ottla.records.record import iter_records
from simulator.history import PartitionName
from simulator.world import World

REQUEST_TIMEOUT_MS = 3_000
BACKOFF_S = (0.02, 0.2)

Response = TypeVar("Response", bound=Message)
Address = tuple[str, int]


class NotNow(Exception):
    """It did not work; try again after a pause."""


class Client:
    """Finds leaders and keeps a connection to each node. Everything it does runs in its own process."""

    def __init__(self, world: World, name: str, topic: str = "") -> None:
        self.world = world
        self.name = name
        self.topic = topic
        self.process = world.add_client(name)
        self.rng = world.rng(name)
        self.topic_id = bytes(16)
        self.replicas: dict[int, list[Address]] = {}  # of each partition, as far as they are in sync
        self._connections: dict[Address, Connection] = {}
        self._leaders: dict[int, Address] = {}
        self.epochs: dict[int, int] = {}  # the newest leader epoch heard of, by partition
        self._opening: dict[Address, asyncio.Lock] = {}

    async def connection(self, address: Address) -> Connection:
        async with self._opening.setdefault(address, asyncio.Lock()):
            known = self._connections.get(address)
            if known is None or not known.is_open:
                known = await Connection.open(*address, client_id=self.name, timeout_ms=REQUEST_TIMEOUT_MS)
                self._connections[address] = known
            return known

    async def ask_anyone(
        self, message: Message, response: type[Response], *, timeout_ms: float = REQUEST_TIMEOUT_MS
    ) -> Response:
        """The answer of some node; NotNow if the one that was drawn does not give any."""
        node = self.rng.choice(self.world.brokers)
        return await self.ask(node.host_port, message, response, timeout_ms=timeout_ms)

    async def ask(
        self,
        address: Address,
        message: Message,
        response: type[Response],
        *,
        timeout_ms: float = REQUEST_TIMEOUT_MS,
    ) -> Response:
        try:
            connection = await self.connection(address)
            return await connection.request(message, response, timeout_ms=timeout_ms)
        except ClientError as error:
            raise NotNow(str(error)) from error

    async def leader_of(self, index: int) -> Connection:
        if index not in self._leaders:
            await self.refresh()
        try:
            return await self.connection(self._leaders[index])
        except ClientError as error:
            self._leaders.clear()
            raise NotNow(str(error)) from error
        except KeyError:
            raise NotNow(f"{self.topic}-{index} has no leader") from None

    def forget_leader(self, index: int) -> None:
        self._leaders.pop(index, None)

    async def refresh(self) -> MetadataResponse:
        """Ask who leads what; what was seen goes to the history."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=self.topic)], allow_auto_topic_creation=False
        )
        answer = await self.ask_anyone(request, MetadataResponse)
        addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self._leaders.clear()
        self.replicas.clear()
        for topic in answer.topics:
            if topic.error_code:
                raise NotNow(f"{topic.name}: {topic.error_code}")
            if topic.topic_id != self.topic_id:
                self.epochs.clear()
            self.topic_id = topic.topic_id
            for partition in topic.partitions:
                index = partition.partition_index
                self.replicas[index] = [addresses[each] for each in partition.isr_nodes if each in addresses]
                if partition.leader_epoch < self.epochs.get(index, -1):
                    continue  # of a node that lags behind: nobody goes back to an old leader
                self.epochs[index] = partition.leader_epoch
                if partition.leader_id in addresses:
                    self._leaders[index] = addresses[partition.leader_id]
                    name = PartitionName(self.topic, index)
                    self.world.history.saw_leader(name, partition.leader_epoch, partition.leader_id)
        return answer

    async def back_off(self) -> None:
        await asyncio.sleep(self.rng.uniform(*BACKOFF_S))

    async def close(self) -> None:
        for connection in self._connections.values():
            await connection.close()


def values_in(batches: bytes, position: int = 0) -> Iterable[tuple[int, str]]:
    """(offset, value) of the records from `position` on; raises CorruptBatch."""
    for start, header in iter_headers(batches):
        if not crc_ok(batches, start, header):
            raise CorruptBatch(f"the batch at offset {header.base_offset} fails its checksum")
        if not header.is_control:
            for record in iter_records(batches, start, header):
                if record.offset >= position:
                    yield record.offset, bytes(record.value or b"").decode("latin-1").rstrip()
