"""A broker small enough to misbehave on demand: it speaks the real protocol, keeps records in lists."""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict, deque
from collections.abc import Callable

import pytest

from ottla.protocol.api import API_BY_KEY
from ottla.protocol.frames import encode_response, read_request_header
from ottla.protocol.messages import (
    api_versions_response,
    fetch_response,
    init_producer_id_response,
    list_offsets_response,
    metadata_response,
    produce_response,
)
from ottla.records.batch import iter_headers, stamp
from ottla.records.record import iter_records


class StubBroker:
    """One node; every API handler may be overridden once per queued misbehaviour in `plans`."""

    CLOSE = object()
    SILENCE = object()

    def __init__(self) -> None:
        self.node_id = 1
        self.versions = {
            key: (0 if key == 0 else api.min_version, api.max_version) for key, api in API_BY_KEY.items()
        }
        self.topics: dict[str, int] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.logs: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        self.ends: dict[tuple[str, int], int] = defaultdict(int)
        self.starts: dict[tuple[str, int], int] = defaultdict(int)
        self.sequences: dict[tuple[str, int, int], int] = {}
        self.requests: list[tuple[str, int, object]] = []
        self.plans: dict[str, deque[Callable | object]] = defaultdict(deque)
        self.next_producer_id = 1000
        self.connections = 0
        self.piece_bytes: int | None = None

    def add_topic(self, name: str, partitions: int = 1) -> None:
        self.topics[name] = partitions
        self.topic_ids[name] = name.encode().ljust(16, b"\1")[:16]

    def name_of(self, topic_id: bytes) -> str:
        return next((name for name, other in self.topic_ids.items() if other == topic_id), "")

    async def start(self) -> None:
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        self.bootstrap = f"127.0.0.1:{self.port}"

    async def stop(self) -> None:
        self.server.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                head = read_request_header(frame)
                api = API_BY_KEY[head.api_key]
                low, high = self.versions[head.api_key]
                if head.api_key == 18 and not low <= head.api_version <= high:
                    answer, version = self.api_versions(error=35), 0
                else:
                    request = api.request_class().decode(head.api_version, frame, head.body_pos)
                    self.requests.append((api.name, head.api_version, request))
                    answer, version = await self.answer(api.name, request), head.api_version
                if answer is self.CLOSE:
                    return
                if answer is self.SILENCE:
                    while await reader.read(65536):  # answers come in order: none is to come after it either
                        pass
                    return
                if isinstance(answer, bytes):
                    await self.write(writer, answer)
                elif answer is not None:
                    parts = encode_response(head.api_key, version, head.correlation_id, answer)
                    await self.write(writer, b"".join(parts))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def write(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        """All at once, or in pieces that arrive one by one."""
        step = self.piece_bytes or len(data)
        for at in range(0, len(data), step):
            writer.write(data[at : at + step])
            if self.piece_bytes is not None:
                await asyncio.sleep(0.001)

    async def answer(self, name: str, request: object) -> object:
        plan = self.plans[name].popleft() if self.plans[name] else None
        if plan is not None:
            return plan(request) if callable(plan) else plan
        handler = {
            "ApiVersions": lambda _: self.api_versions(),
            "Metadata": self.metadata,
            "Produce": self.produce,
            "Fetch": self.fetch,
            "ListOffsets": self.list_offsets,
            "InitProducerId": self.init_producer_id,
        }[name]
        answer = handler(request)
        if name == "Fetch" and not any(row.records for topic in answer.responses for row in topic.partitions):
            await asyncio.sleep(min(request.max_wait_ms, 20) / 1000)
            answer = handler(request)
        return answer

    def api_versions(self, error: int = 0) -> object:
        wire = api_versions_response
        rows = [
            wire.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.versions.items()
        ]
        return wire.ApiVersionsResponse(error_code=error, api_keys=rows)

    def metadata(self, request) -> object:
        wire = metadata_response
        names = list(self.topics) if request.topics is None else [row.name for row in request.topics]
        topics = [self._topic(name) for name in names]
        broker = wire.MetadataResponseBroker(node_id=self.node_id, host="127.0.0.1", port=self.port)
        return wire.MetadataResponse(
            brokers=[broker], controller_id=self.node_id, cluster_id="stub", topics=topics
        )

    def _topic(self, name: str):
        wire = metadata_response
        if name not in self.topics:
            return wire.MetadataResponseTopic(name=name, error_code=3)
        partitions = [
            wire.MetadataResponsePartition(
                partition_index=index,
                leader_id=self.node_id,
                leader_epoch=0,
                replica_nodes=[1],
                isr_nodes=[1],
            )
            for index in range(self.topics[name])
        ]
        return wire.MetadataResponseTopic(name=name, topic_id=self.topic_ids[name], partitions=partitions)

    def produce(self, request, error: int = 0) -> object:
        wire = produce_response
        topics = []
        for topic in request.topic_data:
            name = topic.name or self.name_of(topic.topic_id)
            rows = []
            for row in topic.partition_data:
                base, code = (-1, error) if error else self.append(name, row.index, bytes(row.records))
                rows.append(wire.PartitionProduceResponse(index=row.index, base_offset=base, error_code=code))
            topics.append(
                wire.TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=rows)
            )
        return None if request.acks == 0 else wire.ProduceResponse(responses=topics)

    def append(self, topic: str, partition: int, data: bytes) -> tuple[int, int]:
        """Like a broker: duplicates are recognised, gaps in sequence numbers refused."""
        key = (topic, partition)
        batch = bytearray(data)
        ((position, header),) = iter_headers(batch)
        if header.producer_id >= 0:
            who = (topic, partition, header.producer_id)
            expected = self.sequences.get(who, 0)
            if header.base_sequence < expected:
                return -1, 46
            if header.base_sequence != expected:
                return -1, 45
            self.sequences[who] = header.base_sequence + header.records_count
        base = self.ends[key]
        stamp(batch, position, base, 0)
        self.logs[key].append(bytes(batch))
        self.ends[key] = base + header.records_count
        return base, 0

    def records(self, topic: str, partition: int = 0) -> list:
        found = []
        for batch in self.logs[topic, partition]:
            for position, header in iter_headers(batch):
                found += iter_records(batch, position, header)
        return found

    def fetch(self, request) -> object:
        wire = fetch_response
        topics = []
        for topic in request.topics:
            name = topic.topic or self.name_of(topic.topic_id)
            rows = []
            for row in topic.partitions:
                key = (name, row.partition)
                code = 0 if self.starts[key] <= row.fetch_offset <= self.ends[key] else 1
                data = b""
                for batch in self.logs[key]:
                    (_, header) = next(iter(iter_headers(batch)))
                    if header.next_offset > row.fetch_offset:
                        data += batch
                data = data if code == 0 else b""
                rows.append(
                    wire.PartitionData(
                        partition_index=row.partition,
                        error_code=code,
                        high_watermark=self.ends[key],
                        records=data,
                    )
                )
            topics.append(
                wire.FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=rows)
            )
        return wire.FetchResponse(responses=topics)

    def list_offsets(self, request) -> object:
        wire = list_offsets_response
        topics = []
        for topic in request.topics:
            rows = []
            for row in topic.partitions:
                key = (topic.name, row.partition_index)
                if row.timestamp == -1:
                    offset = self.ends[key]
                elif row.timestamp == -2:
                    offset = self.starts[key]
                else:
                    late = [r.offset for r in self.records(*key) if r.timestamp >= row.timestamp]
                    offset = min(late, default=-1)
                rows.append(
                    wire.ListOffsetsPartitionResponse(partition_index=row.partition_index, offset=offset)
                )
            topics.append(wire.ListOffsetsTopicResponse(name=topic.name, partitions=rows))
        return wire.ListOffsetsResponse(topics=topics)

    def init_producer_id(self, request) -> object:
        self.next_producer_id += 1
        return init_producer_id_response.InitProducerIdResponse(
            producer_id=self.next_producer_id, producer_epoch=0
        )

    def asked(self, name: str) -> list:
        return [request for api, _, request in self.requests if api == name]


@pytest.fixture
def with_stub() -> Callable:
    """Run `scenario(stub)` on a fresh loop with a fresh stub broker."""

    def run(scenario: Callable, timeout_s: float = 10) -> object:
        async def whole() -> object:
            stub = StubBroker()
            await stub.start()
            try:
                async with asyncio.timeout(timeout_s):
                    return await scenario(stub)
            finally:
                await stub.stop()

        return asyncio.run(whole())

    return run
