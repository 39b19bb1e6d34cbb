"""A lightweight client on raw sockets: frames are prepared, and responses are discarded."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterable, Sequence
from struct import Struct
from types import TracebackType
from typing import NamedTuple, Protocol, Self, TypeVar

from bench.broker import BenchError
from ottla.protocol.api import API_BY_KEY
from ottla.protocol.frames import encode_request, read_response_header
from ottla.protocol.message import Message
from ottla.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.create_topics_response import CreateTopicsResponse
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.fetch_response import FetchResponse
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.list_offsets_response import ListOffsetsResponse
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE_VERSION = 10
FETCH_VERSION = 12  # the last with topic names, so that prepared frames need no topic id
LIST_OFFSETS_VERSION = 7
CREATE_TOPICS_VERSION = 7
LATEST = -1
TIMEOUT_SECONDS = 60
SCRATCH_BYTES = 4 * 1024 * 1024
CLIENT_ID = "bench"
_SIZE = Struct(">i")

AnyMessage = TypeVar("AnyMessage", bound=Message)


class Exchange(NamedTuple):
    """The frame to send, and the size of the response, known from an earlier one."""

    request: bytes
    answer_bytes: int


class Server(Protocol):
    @property
    def host_and_port(self) -> tuple[str, int]: ...


class Wire:
    """One connection."""

    def __init__(self, server: Server) -> None:
        self._socket = socket.create_connection(server.host_and_port, timeout=TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    # -- single requests with decoded responses

    def call(self, version: int, message: Message, answer_class: type[AnyMessage]) -> AnyMessage:
        answer, _ = self.call_sized(version, message, answer_class)
        return answer

    def call_sized(
        self, version: int, message: Message, answer_class: type[AnyMessage]
    ) -> tuple[AnyMessage, int]:
        """Return the response, and the size of its frame including the size field."""
        frame = self.exchange(encode_request(version, 1, CLIENT_ID, message))
        key = message.API_KEY
        assert API_BY_KEY[key].response_class() is answer_class
        _, position = read_response_header(key, version, frame)
        return answer_class.decode(version, frame, position), len(frame) + _SIZE.size

    def exchange(self, frame: bytes) -> bytes:
        """Send one frame; return the response without the size field."""
        self._socket.sendall(frame)
        (size,) = _SIZE.unpack(self._receive(_SIZE.size))
        return self._receive(size)

    def _receive(self, count: int) -> bytes:
        parts = []
        while count:
            part = self._socket.recv(min(count, SCRATCH_BYTES))
            if not part:
                raise BenchError("the broker closed the connection")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    # -- many requests with discarded responses

    def send(self, frame: bytes | bytearray) -> None:
        self._socket.sendall(frame)

    def discard(self, count: int) -> None:
        scratch, receive_into = self._scratch, self._socket.recv_into
        while count:
            received = receive_into(scratch, min(count, SCRATCH_BYTES))
            if not received:
                raise BenchError("the broker closed the connection")
            count -= received

    def run(self, exchanges: Iterable[Exchange], in_flight: int = 1) -> None:
        """Send all frames, with at most `in_flight` outstanding responses."""
        send = self._socket.sendall
        outstanding: deque[int] = deque()
        for request, answer_bytes in exchanges:
            if len(outstanding) == in_flight:
                self.discard(outstanding.popleft())
            send(request)
            outstanding.append(answer_bytes)
        self.discard(sum(outstanding))

    def log_end_offset(self, topic: str) -> int:
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=LATEST)]
                )
            ],
        )
        answer = self.call(LIST_OFFSETS_VERSION, request, ListOffsetsResponse)
        partition = answer.topics[0].partitions[0]
        _require(partition.error_code, f"ListOffsets of {topic}")
        return partition.offset

    def create_topic(self, topic: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic; config names have underscores for dots."""
        wanted = CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                CreatableTopicConfig(name=name.replace("_", "."), value=value)
                for name, value in configs.items()
            ],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_SECONDS * 1000)
        answer = self.call(CREATE_TOPICS_VERSION, request, CreateTopicsResponse)
        _require(answer.topics[0].error_code, f"CreateTopics of {topic}: {answer.topics[0].error_message}")


def produce_request(topic: str, batch: bytes) -> bytes:
    """Return a frame with acks=1."""
    data = PartitionProduceData(index=0, records=batch)
    request = ProduceRequest(
        acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    return encode_request(PRODUCE_VERSION, 1, CLIENT_ID, request)


def fetch_message(topic: str, offset: int, max_bytes: int) -> FetchRequest:
    """Return a fetch without a session, as librdkafka sends it."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


def fetch(wire: Wire, topic: str, offset: int, max_bytes: int) -> tuple[memoryview, int]:
    """Return the records at `offset`, and the size of the response."""
    message = fetch_message(topic, offset, max_bytes)
    answer, answer_bytes = wire.call_sized(FETCH_VERSION, message, FetchResponse)
    partition = answer.responses[0].partitions[0]
    _require(partition.error_code, f"Fetch of {topic} at {offset}")
    return memoryview(partition.records or b""), answer_bytes


def fetch_exchange(topic: str, offset: int, max_bytes: int, answer_bytes: int) -> Exchange:
    request = encode_request(FETCH_VERSION, 1, CLIENT_ID, fetch_message(topic, offset, max_bytes))
    return Exchange(request, answer_bytes)


def produce_exchanges(wire: Wire, topic: str, batches: Sequence[bytes]) -> list[Exchange]:
    """Prepare produce requests for these batches; the first one is sent to learn the size of the response."""
    from ottla.protocol.messages.produce_response import ProduceResponse

    frames = [produce_request(topic, batch) for batch in batches]
    answer = wire.exchange(frames[0])
    _, position = read_response_header(0, PRODUCE_VERSION, answer)
    decoded = ProduceResponse.decode(PRODUCE_VERSION, answer, position)
    _require(decoded.responses[0].partition_responses[0].error_code, f"Produce to {topic}")
    return [Exchange(frame, len(answer) + _SIZE.size) for frame in frames]


def joined(exchanges: Sequence[Exchange], count: int) -> list[Exchange]:
    """Join `count` requests into one send, as a busy client does."""
    return [
        Exchange(
            b"".join([exchange.request for exchange in exchanges[start : start + count]]),
            sum([exchange.answer_bytes for exchange in exchanges[start : start + count]]),
        )
        for start in range(0, len(exchanges) - count + 1, count)
    ]


def _require(error_code: int, what: str) -> None:
    if error_code:
        raise BenchError(f"{what}: error code {error_code}")
