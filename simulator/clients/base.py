"""What all clients share: finding leaders, connections, requests.

Clients use the connection of `ottla.client`. Their own logic is kept small, so that a violation points to the
cluster and not to them.
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
from simulator.history.operations import PartitionName
from simulator.world import World

REQUEST_TIMEOUT_MS = 3_000
BACKOFF_S = (0.02, 0.2)

Response = TypeVar("Response", bound=Message)
Address = tuple[str, int]


class RetryLater(Exception):
    """The request failed; retry after a pause."""


class Client:
    """Finds leaders and keeps a connection to each node. All of it runs in the client's own process."""

    def __init__(self, world: World, name: str, topic: str = "") -> None:
        self.world = world
        self.name = name
        self.topic = topic
        self.process = world.add_client(name)
        self.rng = world.rng(name)
        self.topic_id = bytes(16)
        self.replicas: dict[int, list[Address]] = {}  # in-sync replicas by partition
        self._connections: dict[Address, Connection] = {}
        self._leaders: dict[int, Address] = {}
        self.epochs: dict[int, int] = {}  # newest known leader epoch by partition
        self._opening: dict[Address, asyncio.Lock] = {}

    async def connection(self, address: Address) -> Connection:
        async with self._opening.setdefault(address, asyncio.Lock()):
            known = self._connections.get(address)
            if known is None or not known.is_open:
                known = await Connection.open(*address, client_id=self.name, timeout_ms=REQUEST_TIMEOUT_MS)
                self._connections[address] = known
            return known

    async def request_any(
        self, message: Message, response: type[Response], *, timeout_ms: float = REQUEST_TIMEOUT_MS
    ) -> Response:
        """Send a request to a random node; raise RetryLater if it fails."""
        node = self.rng.choice(self.world.brokers)
        return await self.request_from(node.host_port, message, response, timeout_ms=timeout_ms)

    async def request_from(
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
            raise RetryLater(str(error)) from error

    async def leader_of(self, index: int) -> Connection:
        if index not in self._leaders:
            await self.refresh()
        try:
            return await self.connection(self._leaders[index])
        except ClientError as error:
            self._leaders.clear()
            raise RetryLater(str(error)) from error
        except KeyError:
            raise RetryLater(f"{self.topic}-{index} has no leader") from None

    def forget_leader(self, index: int) -> None:
        self._leaders.pop(index, None)

    async def refresh(self) -> MetadataResponse:
        """Fetch metadata, and record the leaders in the history."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=self.topic)], allow_auto_topic_creation=False
        )
        answer = await self.request_any(request, MetadataResponse)
        addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self._leaders.clear()
        self.replicas.clear()
        for topic in answer.topics:
            if topic.error_code:
                raise RetryLater(f"{topic.name}: {topic.error_code}")
            if topic.topic_id != self.topic_id:
                self.epochs.clear()
            self.topic_id = topic.topic_id
            for partition in topic.partitions:
                index = partition.partition_index
                self.replicas[index] = [addresses[each] for each in partition.isr_nodes if each in addresses]
                if partition.leader_epoch < self.epochs.get(index, -1):
                    continue  # stale metadata: do not go back to an old leader
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
