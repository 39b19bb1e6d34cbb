"""A broker that fails on demand: it speaks the real protocol and keeps records in lists.

Several stubs form a cluster with `join`: they share topics, logs and leaders.
"""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from ottla.protocol.api import API_BY_KEY
from ottla.protocol.errors import ErrorCode
from ottla.protocol.frames import encode_response, read_request_header
from ottla.protocol.messages import (
    api_versions_response,
    fetch_response,
    find_coordinator_response,
    init_producer_id_response,
    list_offsets_response,
    metadata_response,
    produce_response,
)
from ottla.records.batch import iter_headers, stamp
from ottla.records.record import Record, iter_records

Handler = Callable[[Any], Any]
API_VERSIONS = 18


class StubBroker:
    """One node; each entry of `plans` replaces the handler of an API once."""

    CLOSE = object()
    SILENCE = object()

    def __init__(self, node_id: int = 1) -> None:
        self.node_id = node_id
        self.nodes: dict[int, StubBroker] = {node_id: self}
        self.versions = {
            key: (0 if key == 0 else api.min_version, api.max_version) for key, api in API_BY_KEY.items()
        }
        self.features: dict[str, int] = {}
        self.topics: dict[str, int] = {}
        self.topic_ids: dict[str, bytes] = {}
        # Leader and leader epoch of partitions that are not led by node 1 in epoch 0.
        self.leaders: dict[tuple[str, int], tuple[int, int]] = {}
        self.coordinators: dict[str, int] = {}
        self.gives_hints = False
        self.logs: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        self.ends: dict[tuple[str, int], int] = defaultdict(int)
        self.starts: dict[tuple[str, int], int] = defaultdict(int)
        self.sequences: dict[tuple[str, int, int], int] = {}
        self.requests: list[tuple[str, int, Any]] = []
        self.plans: dict[str, deque[Any]] = defaultdict(deque)
        self.handlers: dict[str, Handler] = {
            "ApiVersions": lambda _: self.api_versions(),
            "Metadata": self.metadata,
            "Produce": self.produce,
            "Fetch": self.fetch,
            "FindCoordinator": self.find_coordinator,
            "ListOffsets": self.list_offsets,
            "InitProducerId": self.init_producer_id,
        }
        self.next_producer_id = 1000
        self.connections = 0
        self.piece_bytes: int | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    def join(self, other: StubBroker) -> None:
        """Add this broker to the cluster of another stub."""
        for name in ("nodes", "topics", "topic_ids", "leaders", "coordinators", "logs", "ends", "sequences"):
            setattr(self, name, getattr(other, name))
        self.nodes[self.node_id] = self

    def add_topic(self, name: str, partitions: int = 1) -> None:
        self.topics[name] = partitions
        self.topic_ids[name] = name.encode().ljust(16, b"\1")[:16]

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        self.leaders[topic, partition] = (node_id, self.leader_of(topic, partition)[1] + 1)

    def leader_of(self, topic: str, partition: int) -> tuple[int, int]:
        return self.leaders.get((topic, partition), (1, 0))

    def name_of(self, topic_id: bytes) -> str:
        return next((name for name, other in self.topic_ids.items() if other == topic_id), "")

    async def start(self) -> None:
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        self.bootstrap = f"127.0.0.1:{self.port}"

    async def stop(self) -> None:
        self.server.close()

    async def crash(self) -> None:
        """Stop, and close every connection."""
        await self.stop()
        for writer in list(self._writers):
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                head = read_request_header(frame)
                api = API_BY_KEY[head.api_key]
                low, high = self.versions[head.api_key]
                answer: Any
                if head.api_key == API_VERSIONS and not low <= head.api_version <= high:
                    answer, version = self.api_versions(error=ErrorCode.UNSUPPORTED_VERSION), 0
                else:
                    request = api.request_class().decode(head.api_version, frame, head.body_pos)
                    self.requests.append((api.name, head.api_version, request))
                    answer, version = await self.answer(api.name, request), head.api_version
                if answer is self.CLOSE:
                    return
                if answer is self.SILENCE:
                    while await reader.read(65536):  # responses are ordered, so no later one is sent either
                        pass
                    return
                if isinstance(answer, bytes):
                    await self.write(writer, answer)
                elif answer is not None:
                    parts = encode_response(head.api_key, version, head.correlation_id, answer)
                    await self.write(writer, b"".join(parts))  # type: ignore[arg-type]
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def write(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Write all at once, or in pieces that arrive one by one."""
        step = self.piece_bytes or len(data)
        for at in range(0, len(data), step):
            writer.write(data[at : at + step])
            if self.piece_bytes is not None:
                await asyncio.sleep(0.001)

    async def answer(self, name: str, request: Any) -> Any:
        plan = self.plans[name].popleft() if self.plans[name] else None
        if plan is not None:
            return plan(request) if callable(plan) else plan
        handler = self.handlers[name]
        answer = handler(request)
        if name == "Fetch" and not any(row.records for topic in answer.responses for row in topic.partitions):
            await asyncio.sleep(min(request.max_wait_ms, 20) / 1000)
            answer = handler(request)
        return answer

    def api_versions(self, error: int = 0) -> Any:
        wire = api_versions_response
        rows = [
            wire.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.versions.items()
        ]
        features = [
            wire.FinalizedFeatureKey(name=name, max_version_level=level)
            for name, level in self.features.items()
        ]
        return wire.ApiVersionsResponse(error_code=error, api_keys=rows, finalized_features=features)

    def metadata(self, request: Any) -> Any:
        wire = metadata_response
        names = list(self.topics) if request.topics is None else [row.name for row in request.topics]
        brokers = [
            wire.MetadataResponseBroker(node_id=node_id, host="127.0.0.1", port=node.port)
            for node_id, node in self.nodes.items()
        ]
        return wire.MetadataResponse(
            brokers=brokers,
            controller_id=min(self.nodes),
            cluster_id="stub",
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> Any:
        wire = metadata_response
        if name not in self.topics:
            return wire.MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partitions = []
        for index in range(self.topics[name]):
            leader, epoch = self.leader_of(name, index)
            partitions.append(
                wire.MetadataResponsePartition(
                    partition_index=index,
                    leader_id=leader,
                    leader_epoch=epoch,
                    replica_nodes=list(self.nodes),
                    isr_nodes=list(self.nodes),
                )
            )
        return wire.MetadataResponseTopic(name=name, topic_id=self.topic_ids[name], partitions=partitions)

    def produce(self, request: Any, error: int = 0) -> Any:
        wire = produce_response
        topics = []
        moved = False
        for topic in request.topic_data:
            name = topic.name or self.name_of(topic.topic_id)
            rows = []
            for row in topic.partition_data:
                answer = wire.PartitionProduceResponse(index=row.index, base_offset=-1, error_code=error)
                leader, epoch = self.leader_of(name, row.index)
                if leader != self.node_id and not error:
                    answer.error_code, moved = ErrorCode.NOT_LEADER_OR_FOLLOWER, True
                    if self.gives_hints:
                        answer.current_leader = wire.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
                elif not error:
                    answer.base_offset, answer.error_code = self.append(name, row.index, bytes(row.records))
                rows.append(answer)
            topics.append(
                wire.TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=rows)
            )
        response = wire.ProduceResponse(responses=topics)
        if moved and self.gives_hints:
            response.node_endpoints = [
                wire.NodeEndpoint(node_id=node_id, host="127.0.0.1", port=node.port)
                for node_id, node in self.nodes.items()
            ]
        return None if request.acks == 0 else response

    def append(self, topic: str, partition: int, data: bytes) -> tuple[int, int]:
        """Append as a broker does: detect duplicates, reject gaps in sequence numbers."""
        key = (topic, partition)
        batch = bytearray(data)
        ((position, header),) = iter_headers(batch)
        if header.producer_id >= 0:
            producer = (topic, partition, header.producer_id)
            expected = self.sequences.get(producer, 0)
            if header.base_sequence < expected:
                return -1, ErrorCode.DUPLICATE_SEQUENCE_NUMBER
            if header.base_sequence != expected:
                return -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            self.sequences[producer] = header.base_sequence + header.records_count
        base = self.ends[key]
        stamp(batch, position, base, 0)
        self.logs[key].append(bytes(batch))
        self.ends[key] = base + header.records_count
        return base, 0

    def records(self, topic: str, partition: int = 0) -> list[Record]:
        found: list[Record] = []
        for batch in self.logs[topic, partition]:
            for position, header in iter_headers(batch):
                found += iter_records(batch, position, header)
        return found

    def fetch(self, request: Any) -> Any:
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
                rows.append(
                    wire.PartitionData(
                        partition_index=row.partition,
                        error_code=code,
                        high_watermark=self.ends[key],
                        records=data if code == 0 else b"",
                    )
                )
            topics.append(
                wire.FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=rows)
            )
        return wire.FetchResponse(responses=topics)

    def list_offsets(self, request: Any) -> Any:
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

    def find_coordinator(self, request: Any) -> Any:
        wire = find_coordinator_response
        keys = request.coordinator_keys or [request.key]
        rows = []
        for key in keys:
            node = self.nodes[self.coordinators.get(key, 1)]
            rows.append(wire.Coordinator(key=key, node_id=node.node_id, host="127.0.0.1", port=node.port))
        if request.coordinator_keys:
            return wire.FindCoordinatorResponse(coordinators=rows)
        return wire.FindCoordinatorResponse(node_id=rows[0].node_id, host="127.0.0.1", port=rows[0].port)

    def init_producer_id(self, request: Any) -> Any:
        self.next_producer_id += 1
        return init_producer_id_response.InitProducerIdResponse(
            producer_id=self.next_producer_id, producer_epoch=0
        )

    def asked(self, name: str) -> list[Any]:
        return [request for api, _, request in self.requests if api == name]
