"""Clients that live in the simulated world and write down what they are told.

They speak through the shipped `ottla.client.connection`; what they do with the answers is kept short here, so
that a checker's complaint is about the cluster and not about them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TypeVar

from ottla.client.connection import Connection
from ottla.client.errors import ClientError
from ottla.protocol.errors import RETRIABLE, ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.create_topics_response import CreateTopicsResponse
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.fetch_response import FetchResponse, PartitionData
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.metadata_response import MetadataResponse
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse
from ottla.records.batch import CorruptBatch, crc_ok, iter_headers
from ottla.records.build import build_batch
from ottla.records.record import iter_records
from ottla.testing.simulation.history import Operation, PartitionName
from ottla.testing.simulation.world import Node, World

REQUEST_TIMEOUT_MS = 3_000
BACKOFF_S = (0.02, 0.2)
FETCH_WAIT_MS = 200
FETCH_BYTES = 64 * 1024
ALL_REPLICAS = -1
WINDOW_MAX = 5  # batches per partition that the broker recognizes again
FIRST_PRODUCE_WITH_TOPIC_IDS = 13
FIRST_FETCH_WITH_TOPIC_IDS = 13
# The broker does not know what came before: never the fault of a client that sends in order.
SEQUENCE_LOST = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)

Response = TypeVar("Response", bound=Message)


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
        self._connections: dict[tuple[str, int], Connection] = {}
        self._leaders: dict[int, tuple[str, int]] = {}
        self._opening: dict[tuple[str, int], asyncio.Lock] = {}

    async def connection(self, address: tuple[str, int]) -> Connection:
        async with self._opening.setdefault(address, asyncio.Lock()):
            known = self._connections.get(address)
            if known is None or not known.is_open:
                known = await Connection.open(*address, client_id=self.name, timeout_ms=REQUEST_TIMEOUT_MS)
                self._connections[address] = known
            return known

    async def ask_anyone(self, message: Message, response: type[Response]) -> Response:
        """The answer of some node; NotNow if the one that was drawn does not give any."""
        node = self.rng.choice(list(self.world.nodes.values()))
        try:
            connection = await self.connection(node.host_port)
            return await connection.request(message, response, timeout_ms=REQUEST_TIMEOUT_MS)
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
        for topic in answer.topics:
            if topic.error_code:
                raise NotNow(f"{topic.name}: {topic.error_code}")
            self.topic_id = topic.topic_id
            for partition in topic.partitions:
                if partition.leader_id in addresses:
                    self._leaders[partition.partition_index] = addresses[partition.leader_id]
                    name = PartitionName(self.topic, partition.partition_index)
                    self.world.history.saw_leader(name, partition.leader_epoch, partition.leader_id)
        return answer

    async def back_off(self) -> None:
        await asyncio.sleep(self.rng.uniform(*BACKOFF_S))

    async def close(self) -> None:
        for connection in self._connections.values():
            await connection.close()


class Admin(Client):
    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        configs: dict[str, str] | None = None,
    ) -> None:
        """Create, and try again until it is there."""
        history = self.world.history
        operation = history.invoke(self.name, "create-topic", name)
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=REQUEST_TIMEOUT_MS)
        while True:
            try:
                result = (await self.ask_anyone(request, CreateTopicsResponse)).topics[0]
            except NotNow:
                await self.back_off()
                continue
            if result.error_code in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
                operation.ok(None if result.error_code else result.topic_id)
                return
            if result.error_code not in RETRIABLE:
                operation.fail(result.error_code)
                raise AssertionError(f"topic {name} not created: {result.error_code} {result.error_message}")
            await self.back_off()

    async def topics(self) -> dict[str, bytes]:
        """Name and id of every topic, once some node tells."""
        while True:
            try:
                answer = await self.ask_anyone(MetadataRequest(topics=None), MetadataResponse)
                return {str(topic.name): topic.topic_id for topic in answer.topics}
            except NotNow:
                await self.back_off()


class _Batch:
    __slots__ = ("bytes", "operation", "sequence")

    def __init__(self, operation: Operation, sequence: int, data: bytes) -> None:
        self.operation = operation
        self.sequence = sequence
        self.bytes = data


class Producer(Client):
    """An idempotent producer with acks=all that never gives a batch up while it runs.

    `stopping = True` lets it finish what it has begun; `run` ends then.
    """

    def __init__(
        self,
        world: World,
        name: str,
        topic: str,
        partitions: int,
        *,
        window: int = WINDOW_MAX,
        pause_s: tuple[float, float] = (0.0, 0.05),
        records_max: int = 4,
        value_bytes: int = 40,
    ) -> None:
        super().__init__(world, name, topic)
        self.partitions = partitions
        self.stopping = False
        self._window = window
        self._pause_s = pause_s
        self._records_max = records_max
        self._value_bytes = value_bytes
        self._numbers = dict.fromkeys(range(partitions), 0)

    async def run(self) -> None:
        await asyncio.gather(*(self._write_to(index) for index in range(self.partitions)))

    async def _write_to(self, index: int) -> None:
        waiting: deque[_Batch] = deque()
        producer = await self._new_id()
        sequence = 0
        while True:
            for _ in range(self.rng.randint(1, self._window) - len(waiting)):
                if not self.stopping:
                    batch, sequence = self._new_batch(index, producer, sequence)
                    waiting.append(batch)
            if not waiting:
                if self.stopping:
                    return
                await asyncio.sleep(0.01)
                continue
            answers = await self._send(index, waiting)
            if self._settle(index, waiting, answers):
                # The broker has lost track of us: nobody knows what became of these.
                for batch in waiting:
                    batch.operation.info("sequence lost")
                waiting.clear()
                producer, sequence = await self._new_id(), 0
            if waiting:
                self.forget_leader(index)
                await self.back_off()
            else:
                await asyncio.sleep(self.rng.uniform(*self._pause_s))

    async def _new_id(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        while True:
            try:
                answer = await self.ask_anyone(request, InitProducerIdResponse)
                if not answer.error_code:
                    return answer.producer_id, answer.producer_epoch
            except NotNow:
                pass
            await self.back_off()

    def _new_batch(self, index: int, producer: tuple[int, int], sequence: int) -> tuple[_Batch, int]:
        count = self.rng.randint(1, self._records_max)
        first = self._numbers[index]
        self._numbers[index] = first + count
        values = tuple(f"{self.name}.{index}.{first + number}" for number in range(count))
        partition = PartitionName(self.topic, index)
        operation = self.world.history.invoke(self.name, "produce", partition, values)
        records = [(self.world.now_ms, None, _padded(value, self._value_bytes), ()) for value in values]
        data = build_batch(
            records, producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence
        )
        return _Batch(operation, sequence, bytes(data)), sequence + count

    async def _send(self, index: int, waiting: Iterable[_Batch]) -> list[PartitionProduceResponse | None]:
        """An answer per batch, in order; None where there was none."""
        batches = list(waiting)
        try:
            connection = await self.leader_of(index)
        except NotNow:
            return [None] * len(batches)
        requests = (self._request(connection, index, batch) for batch in batches)
        answers = await asyncio.gather(
            *(
                connection.request(request, ProduceResponse, timeout_ms=REQUEST_TIMEOUT_MS)
                for request in requests
            ),
            return_exceptions=True,
        )
        results: list[PartitionProduceResponse | None] = []
        for answer in answers:
            if isinstance(answer, ClientError):
                results.append(None)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                results.append(answer.responses[0].partition_responses[0])
        return results

    def _request(self, connection: Connection, index: int, batch: _Batch) -> ProduceRequest:
        data = [PartitionProduceData(index=index, records=batch.bytes)]
        if connection.version_for(ProduceRequest.API_KEY) >= FIRST_PRODUCE_WITH_TOPIC_IDS:
            topic = TopicProduceData(topic_id=self.topic_id, partition_data=data)
        else:
            topic = TopicProduceData(name=self.topic, partition_data=data)
        return ProduceRequest(acks=ALL_REPLICAS, timeout_ms=REQUEST_TIMEOUT_MS // 2, topic_data=[topic])

    def _settle(
        self, index: int, waiting: deque[_Batch], answers: list[PartitionProduceResponse | None]
    ) -> bool:
        """Take the answered batches out; True if the rest can never be answered."""
        open_before = False
        for batch, answer in zip(list(waiting), answers, strict=True):
            code = None if answer is None else answer.error_code
            if answer is not None and code in (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                waiting.remove(batch)
                batch.operation.ok(answer.base_offset if answer.base_offset >= 0 else None)
            elif code in SEQUENCE_LOST:
                if not open_before:  # behind a batch that failed it is only natural
                    text = (
                        f"{ErrorCode(code or 0).name} for {batch.operation.value[0]} of {self.topic}-{index}"
                    )
                    self.world.history.surprise(self.name, text)
                    return True
            elif code is not None and code not in RETRIABLE:
                text = f"{ErrorCode(code).name} for {batch.operation.value[0]} of {self.topic}-{index}"
                self.world.history.surprise(self.name, text)
                return True
            else:
                open_before = True
        return False


class Consumer(Client):
    """Reads every partition from the beginning, and goes on for as long as the world does."""

    def __init__(self, world: World, name: str, topic: str, partitions: int) -> None:
        super().__init__(world, name, topic)
        self.partitions = partitions
        self.stopping = False
        self.positions = dict.fromkeys(range(partitions), 0)

    async def run(self) -> None:
        await asyncio.gather(*(self._follow(index) for index in range(self.partitions)))

    async def _follow(self, index: int) -> None:
        history = self.world.history
        name = PartitionName(self.topic, index)
        while not self.stopping:
            position = self.positions[index]
            try:
                data = await self._fetch(index, position)
            except NotNow:
                self.forget_leader(index)
                await self.back_off()
                continue
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                history.surprise(self.name, f"{name}@{position} is out of range")
                self.positions[index] = max(0, data.log_start_offset)
                await self.back_off()
                continue
            history.saw_watermark(self.name, name, data.high_watermark)
            for offset, value in self._records(name, data, position):
                history.read(self.name, name, offset, value)
                self.positions[index] = offset + 1

    async def read_all(self, index: int) -> list[tuple[int, str]]:
        """Every record from the beginning to the high watermark; tries until it has them."""
        found: list[tuple[int, str]] = []
        name = PartitionName(self.topic, index)
        position = 0
        while True:
            try:
                data = await self._fetch(index, position)
                if data.error_code:
                    raise NotNow(f"{name}: {data.error_code}")
            except NotNow:
                self.forget_leader(index)
                await self.back_off()
                continue
            position = max(position, data.log_start_offset)
            new = list(self._records(name, data, position))
            found += new
            if new:
                position = new[-1][0] + 1
            elif position >= data.high_watermark:
                return found
            else:
                await self.back_off()

    async def _fetch(self, index: int, position: int) -> PartitionData:
        connection = await self.leader_of(index)
        partition = FetchPartition(
            partition=index, fetch_offset=position, partition_max_bytes=FETCH_BYTES, current_leader_epoch=-1
        )
        if connection.version_for(FetchRequest.API_KEY) >= FIRST_FETCH_WITH_TOPIC_IDS:
            topic = FetchTopic(topic_id=self.topic_id, partitions=[partition])
        else:
            topic = FetchTopic(topic=self.topic, partitions=[partition])
        request = FetchRequest(max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=FETCH_BYTES, topics=[topic])
        try:
            answer = await connection.request(request, FetchResponse, timeout_ms=REQUEST_TIMEOUT_MS)
        except ClientError as error:
            raise NotNow(str(error)) from error
        if answer.error_code:
            raise NotNow(f"fetch: {answer.error_code}")
        data = answer.responses[0].partitions[0]
        if data.error_code and data.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            raise NotNow(f"fetch: {data.error_code}")
        return data

    def _records(self, name: PartitionName, data: PartitionData, position: int) -> Iterable[tuple[int, str]]:
        """(offset, value) from `position` on; a batch that is damaged is a surprise and ends it."""
        try:
            yield from values_in(bytes(data.records or b""), position)
        except CorruptBatch as error:
            self.world.history.surprise(self.name, f"{name}@{position}: {error}")


def values_in(batches: bytes, position: int = 0) -> Iterable[tuple[int, str]]:
    """(offset, value) of the records from `position` on; raises CorruptBatch."""
    for start, header in iter_headers(batches):
        if not crc_ok(batches, start, header):
            raise CorruptBatch(f"the batch at offset {header.base_offset} fails its checksum")
        if not header.is_control:
            for record in iter_records(batches, start, header):
                if record.offset >= position:
                    yield record.offset, bytes(record.value or b"").decode("latin-1").rstrip()


def replica_records(node: Node, name: PartitionName) -> list[tuple[int, str]] | None:
    """What a node holds of a partition below its high watermark, looked at behind its back, or None."""
    partition = node.broker.partitions.by_name(*name) if node.broker is not None else None
    if partition is None:
        return None
    found: list[tuple[int, str]] = []
    position = partition.log.log_start_offset
    while position < partition.high_watermark:
        region = partition.log.read(position, FETCH_BYTES, partition.high_watermark)
        found += values_in(region.read(), position)
        if not found or found[-1][0] < position:
            break
        position = found[-1][0] + 1
    return found


def _padded(value: str, nbytes: int) -> bytes:
    return value.ljust(nbytes).encode("latin-1")
