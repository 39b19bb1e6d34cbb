"""A raw connection for requests in any version, for what no client can send."""

from __future__ import annotations

import socket
import struct
import time
from types import TracebackType
from typing import Any, Self

from ottla.protocol.api import API_BY_KEY
from ottla.protocol.errors import ErrorCode
from ottla.protocol.frames import encode_request, read_response_header
from ottla.protocol.message import Message
from ottla.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.batch import crc_ok, iter_headers
from ottla.records.build import build_batch
from ottla.records.record import Record, iter_records

TIMEOUT_S = 20.0


def batch_of(*values: bytes | None, timestamp_ms: int | None = None, **how: Any) -> bytes:
    """Return a batch without keys and headers, with one timestamp; `how` are options of build_batch."""
    at_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    return bytes(build_batch([(at_ms, None, value, ()) for value in values], **how))


class Wire:
    """`with Wire("127.0.0.1:9092") as wire: answer = wire.ask(MetadataRequest(...), version=12)`."""

    def __init__(self, servers: str) -> None:
        host, _, port = servers.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    # -- frames

    def send(self, message: Message, version: int | None = None) -> tuple[int, int, int]:
        """Send without reading; return the argument for `receive`."""
        version = message.MAX_STABLE_VERSION if version is None else version
        self._correlation_id += 1
        self._socket.sendall(encode_request(version, self._correlation_id, "wire", message))
        return message.API_KEY, version, self._correlation_id

    def receive(self, sent: tuple[int, int, int]) -> Any:
        api_key, version, correlation_id = sent
        (size,) = struct.unpack(">i", self.read(4))
        frame = self.read(size)
        answered, pos = read_response_header(api_key, version, frame)
        assert answered == correlation_id, "responses come in the order of the requests"
        return API_BY_KEY[api_key].response_class().decode(version, frame, pos)

    def ask(self, message: Message, version: int | None = None) -> Any:
        return self.receive(self.send(message, version))

    def send_bytes(self, data: bytes) -> None:
        """Send arbitrary bytes."""
        self._socket.sendall(data)

    def read(self, nbytes: int) -> bytearray:
        buffer = bytearray(nbytes)
        view, got = memoryview(buffer), 0
        while got < nbytes:
            received = self._socket.recv_into(view[got:])
            if not received:
                raise ConnectionError("the broker closed the connection")
            got += received
        return buffer

    def is_closed_by_broker(self) -> bool:
        """Return whether the broker closes the connection without sending anything."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionError:
            return True

    # -- topics

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> bytes:
        """Create a topic; return its id."""
        asked = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=-1,
            configs=[CreatableTopicConfig(name=key, value=str(value)) for key, value in configs.items()],
        )
        (result,) = self.ask(CreateTopicsRequest(topics=[asked], timeout_ms=10_000)).topics
        assert result.error_code == 0, (ErrorCode(result.error_code), result.error_message)
        return bytes(result.topic_id)

    def delete_topic(self, name: str) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)
        assert self.ask(request).responses[0].error_code == 0

    def topic_id(self, name: str) -> bytes:
        (found,) = self.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)])).topics
        return bytes(found.topic_id)

    def alter(self, topic: str, **configs: object) -> None:
        """Set topic configs; None restores the default."""
        self._alter(2, topic, configs)

    def alter_brokers(self, **configs: object) -> None:
        """Set configs of all brokers."""
        self._alter(4, "", configs)

    def _alter(self, resource_type: int, name: str, configs: dict[str, object]) -> None:
        entries = [
            AlterableConfig(name=key, config_operation=1 if value is None else 0, value=_text(value))
            for key, value in configs.items()
        ]
        resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=entries)
        (result,) = self.ask(IncrementalAlterConfigsRequest(resources=[resource])).responses
        assert result.error_code == 0, result.error_message

    # -- records

    def produce(
        self, topic: str, batch: bytes, *, partition: int = 0, acks: int = -1, version: int = 9
    ) -> Any:
        """Return the response for the partition."""
        sent = self.send_produce(topic, batch, partition=partition, acks=acks, version=version)
        return self.receive(sent).responses[0].partition_responses[0]

    def send_produce(
        self, topic: str, batch: bytes, *, partition: int = 0, acks: int = -1, version: int = 9
    ) -> tuple[int, int, int]:
        data = TopicProduceData(
            name=topic if version < 13 else "",
            topic_id=self.topic_id(topic) if version >= 13 else bytes(16),
            partition_data=[PartitionProduceData(index=partition, records=batch)],
        )
        return self.send(ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data]), version)

    def init_producer(self) -> tuple[int, int]:
        answer = self.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000))
        assert answer.error_code == 0
        return answer.producer_id, answer.producer_epoch

    def fetch(self, topic: str, offset: int = 0, **options: Any) -> Any:
        """Return the response for the partition (version 12); `options` are those of fetch_request."""
        (answered,) = self.ask(fetch_request(topic, offset, **options), 12).responses
        return answered.partitions[0]

    def records(self, topic: str, offset: int = 0, **options: Any) -> list[Record]:
        """Return all records to the end of the partition; check checksums and offsets."""
        found: list[Record] = []
        while True:
            data = self.fetch(topic, offset, **options)
            assert data.error_code == 0, ErrorCode(data.error_code)
            part = records_of(data.records)
            found += [record for record in part if record.offset >= offset]
            if not part or part[-1].offset + 1 >= data.high_watermark:
                return found
            offset = part[-1].offset + 1

    def list_offsets(self, topic: str, timestamp: int, *, version: int = 10, **how: Any) -> Any:
        isolation_level = how.pop("isolation_level", 0)
        asked = ListOffsetsPartition(partition_index=how.pop("partition", 0), timestamp=timestamp, **how)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name=topic, partitions=[asked])],
        )
        return self.ask(request, version).topics[0].partitions[0]


def fetch_request(
    topic: str | bytes | None,
    offset: int = 0,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50_000_000,
    partition_max_bytes: int = 10_000_000,
    isolation_level: int = 0,
    session: tuple[int, int] = (0, -1),
    partitions: list[FetchPartition] | None = None,
    forgotten: list[int] | None = None,
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
) -> FetchRequest:
    """Return a fetch of one topic by name (str) or id (bytes), or without topics (None)."""

    def named(kind: type[Any], **fields: Any) -> Any:
        return kind(**({"topic_id": topic} if isinstance(topic, bytes) else {"topic": topic}), **fields)

    if partitions is None:
        partitions = [
            FetchPartition(
                partition=partition,
                fetch_offset=offset,
                partition_max_bytes=partition_max_bytes,
                current_leader_epoch=current_leader_epoch,
                last_fetched_epoch=last_fetched_epoch,
            )
        ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=[named(FetchTopic, partitions=partitions)] if topic is not None and partitions else [],
        forgotten_topics_data=[named(ForgottenTopic, partitions=forgotten)] if forgotten else [],
    )


def records_of(data: Any) -> list[Record]:
    """Return the records of complete batches; a partial batch at the end is ignored, as in consumers."""
    buffer = bytes(data or b"")
    found: list[Record] = []
    end = 0
    for pos, header in iter_headers(_whole_batches(buffer)):
        assert crc_ok(buffer, pos, header), f"checksum of the batch at offset {header.base_offset}"
        assert not found or header.base_offset > found[-1].offset, "offsets grow"
        found += iter_records(buffer, pos, header)
        end = header.next_offset
        assert found[-1].offset == end - 1
    return found


def _whole_batches(buffer: bytes) -> bytes:
    pos = 0
    while pos + 12 <= len(buffer):
        size = 12 + struct.unpack_from(">i", buffer, pos + 8)[0]
        if pos + size > len(buffer):
            break
        pos += size
    return buffer[:pos]


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)
