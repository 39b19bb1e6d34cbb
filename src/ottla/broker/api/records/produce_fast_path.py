"""The fast path of Produce for the most common request: one partition, one batch, no tagged fields.

Between two such requests of a producer only the correlation id and the records differ. Everything else, from
the client id to the partition's index, is one key. The first request is decoded and handled by `produce.py`
and its key remembered; the next ones find their partition and the shape of their response with one look-up.
Requests to one partition that arrive together are appended with one write.

Requests that are not remembered, or fail here, are handled by `produce.py`. Nothing of a request has been
appended when the fast path leaves it to the handler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import TYPE_CHECKING, cast

from ottla.broker.api.records.leader_hints import add_leader
from ottla.broker.replicas.partition import Partition
from ottla.controller.topics.names import INTERNAL_TOPICS
from ottla.protocol.api import API_BY_KEY
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.frames import encode_response
from ottla.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.protocol.versions import (
    PRODUCE_CURRENT_LEADER_SINCE,
    PRODUCE_TOPIC_IDS_SINCE,
    PRODUCE_ZSTD_SINCE,
)
from ottla.records.batch import ATTRIBUTES_POS, PRODUCER_ID_POS, TRANSACTIONAL_BIT, RecordsError
from ottla.records.validate import CheckedRecords, check_produce
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.replicas.partition_table import PartitionTable
    from ottla.protocol.messages.produce_request import ProduceRequest
    from ottla.storage.log import AppendResult

FIRST_VERSION = PRODUCE_ZSTD_SINCE  # the handler refuses zstd in older versions
FIRST_FLEXIBLE_VERSION = API_BY_KEY[ApiKey.PRODUCE].flexible_from
ROUTES_MAX = 10_000
KEY_BYTES_MAX = 1000  # clients choose their ids: long ones would make the keys large
TOPIC_ID_BYTES = 16
ACKS_ALL = -1
_PRODUCE = int(ApiKey.PRODUCE)
_head = Struct(">hhih").unpack_from
_int16 = Struct(">h").unpack_from
_int32 = Struct(">i").unpack_from
_producer = Struct(">qh").unpack_from
_PLACEHOLDER = 0x1122334455667788
_PLACEHOLDERS = Struct(">qqq").pack(_PLACEHOLDER, _PLACEHOLDER, _PLACEHOLDER)
_LOW_ATTRIBUTES_POS = ATTRIBUTES_POS + 1


# A whole frame, or its future while the records are not committed.
ResponseFrame = bytes | asyncio.Future[bytes]


class _Route:
    """The partition of requests with the same key, and the template of their responses."""

    __slots__ = (
        "_topic_id",
        "_topic_name",
        "after",
        "all_replicas",
        "before",
        "is_transactional",
        "pack",
        "partition",
        "size",
        "timeout_ms",
        "version",
    )

    def __init__(self, partition: Partition, version: int, message: ProduceRequest) -> None:
        self.partition = partition
        self.timeout_ms = message.timeout_ms
        self.version = version
        self.all_replicas = message.acks == ACKS_ALL
        self.is_transactional = message.transactional_id is not None
        self._topic_name = message.topic_data[0].name
        self._topic_id = message.topic_data[0].topic_id
        response = PartitionProduceResponse(
            index=partition.index,
            base_offset=_PLACEHOLDER,
            log_append_time_ms=_PLACEHOLDER,
            log_start_offset=_PLACEHOLDER,
        )
        parts = encode_response(_PRODUCE, version, 0, self.response_with(response))
        frame = b"".join(cast("list[bytes]", parts))
        position = frame.index(_PLACEHOLDERS)
        self.size = frame[:4]
        self.before = frame[8:position]
        self.after = frame[position + len(_PLACEHOLDERS) :]
        self.pack = Struct(f">4si{len(self.before)}sqqq{len(self.after)}s").pack

    def response_with(self, response: PartitionProduceResponse) -> ProduceResponse:
        topic = TopicProduceResponse(
            name=self._topic_name, topic_id=self._topic_id, partition_responses=[response]
        )
        return ProduceResponse(responses=[topic])


class ProduceFrame:
    """A request that the fast path has accepted; the handler needs its frame if the append fails."""

    __slots__ = ("checked", "correlation_id", "frame", "partition", "route")

    def __init__(
        self, frame: memoryview, route: _Route, correlation_id: int, checked: CheckedRecords
    ) -> None:
        self.frame = frame
        self.route = route
        self.partition = route.partition
        self.correlation_id = correlation_id
        self.checked = checked


class _Waiting:
    """A response that waits until its records are committed.

    The partition completes it like a future; `frame` is the future that the connection waits for.
    """

    __slots__ = ("_correlation_id", "_metadata", "_result", "_route", "_timer", "frame")

    def __init__(self, metadata: MetadataCache, request: ProduceFrame, result: AppendResult) -> None:
        self._metadata = metadata
        self._route = request.route
        self._correlation_id = request.correlation_id
        self._result = result
        self._timer: asyncio.TimerHandle
        self.frame: asyncio.Future[bytes]

    def start(self) -> asyncio.Future[bytes]:
        loop = asyncio.get_running_loop()
        self.frame = loop.create_future()
        self._timer = loop.call_later(max(0, self._route.timeout_ms) / 1000, self._time_out)
        return self.frame

    def response(self) -> bytes:
        route, result = self._route, self._result
        start_offset = route.partition.log.log_start_offset
        return route.pack(
            route.size, self._correlation_id, route.before, result[0], result[2], start_offset, route.after
        )

    def done(self) -> bool:
        return self.frame.done()

    def set_result(self, _: None) -> None:
        self._timer.cancel()
        self.frame.set_result(self.response())

    def set_exception(self, error: BaseException) -> None:
        self._timer.cancel()
        self._refuse(getattr(error, "code", ErrorCode.KAFKA_STORAGE_ERROR))

    def _time_out(self) -> None:
        if not self.frame.done():
            self._refuse(ErrorCode.REQUEST_TIMED_OUT)

    def _refuse(self, code: ErrorCode) -> None:
        route = self._route
        response = PartitionProduceResponse(index=route.partition.index, error_code=code, base_offset=-1)
        if route.version >= PRODUCE_CURRENT_LEADER_SINCE:
            add_leader(self._metadata.image, route.partition.topic_id, response, response.index, code)
        parts = encode_response(_PRODUCE, route.version, self._correlation_id, route.response_with(response))
        self.frame.set_result(b"".join(cast("list[bytes]", parts)))


class ProduceFastPath:
    __slots__ = ("_clock", "_metadata", "_partitions", "_routes")

    def __init__(self, partitions: PartitionTable, metadata: MetadataCache, clock: Callable[[], int]) -> None:
        self._partitions = partitions
        self._metadata = metadata
        self._clock = clock
        self._routes: list[dict[bytes, _Route]] = [
            {} for _ in range(API_BY_KEY[ApiKey.PRODUCE].max_version + 1)
        ]

    def __len__(self) -> int:
        return sum(map(len, self._routes))

    def forget(self) -> None:
        """Drop every route: the metadata has changed."""
        for routes in self._routes:
            routes.clear()

    def accept(self, frame: memoryview) -> ProduceFrame | None:
        """Return a request whose route is known and whose records can be appended, else None."""
        try:
            api_key, version, correlation_id, client_id_bytes = _head(frame)
            if api_key != _PRODUCE or version < FIRST_VERSION:
                return None
            start = _records_length_pos(frame, version, client_id_bytes)
            route = self._routes[version].get(bytes(frame[8:start]))
            if route is None:
                return None
            records = _records(frame, version, start)
            if records is None:
                return None
            if (
                route.is_transactional or records[_LOW_ATTRIBUTES_POS] & TRANSACTIONAL_BIT
            ) and not _continues_transaction(route, records):
                return None
            checked = check_produce(records, route.partition.rules, self._clock())
        except (IndexError, StructError, RecordsError):
            return None
        return ProduceFrame(frame, route, correlation_id, checked)

    def append(self, requests: Sequence[ProduceFrame]) -> list[ResponseFrame]:
        """Append requests to one partition; returns fewer responses than requests if the handler must decide
        the next one."""
        partition = requests[0].partition
        try:
            results = partition.append_group([request.checked for request in requests], self._clock())
        except (RecordsError, StorageError):
            return []
        responses: list[ResponseFrame] = []
        # The maximum, not the last: the last may be a duplicate of an old batch.
        if max(result[1] for result in results) >= partition.high_watermark:
            for request, result in zip(requests, results, strict=False):
                waiting = _Waiting(self._metadata, request, result)
                local = not request.route.all_replicas
                if partition.when_committed(result.last_offset + 1, waiting, local=local):
                    responses.append(waiting.start())
                else:
                    responses.append(waiting.response())
            return responses
        log_start_offset = partition.log.log_start_offset
        for request, result in zip(requests, results, strict=False):
            route = request.route
            response = route.pack(
                route.size,
                request.correlation_id,
                route.before,
                result[0],
                result[2],
                log_start_offset,
                route.after,
            )
            responses.append(response)
        return responses

    def remember(self, frame: memoryview, version: int, message: ProduceRequest) -> None:
        """Remember the route of a request that the handler has decoded, if it has the common shape."""
        topics = message.topic_data
        if version < FIRST_VERSION or message.acks not in (-1, 1):
            return
        if len(topics) != 1 or len(topics[0].partition_data) != 1:
            return
        topic, data = topics[0], topics[0].partition_data[0]
        partitions = self._partitions
        if version >= PRODUCE_TOPIC_IDS_SINCE:
            partition = partitions.by_id(topic.topic_id, data.index)
        else:
            partition = partitions.by_name(topic.name, data.index)
        if partition is None or not partition.is_leader or partition.topic in INTERNAL_TOPICS:
            return
        if data.records is None or not partition.rules.plain:
            return  # the batch would be changed in place, and the handler could not retry it
        start = _records_length_pos(frame, version, _head(frame)[3])
        records = _records(frame, version, start) if start < len(frame) else None
        if records is None or len(records) != len(data.records) or start > KEY_BYTES_MAX:
            return  # tagged fields, or names too long for the fast path
        key = bytes(frame[8:start])
        if key in self._routes[version]:
            return  # the first batch of another transaction
        if len(self) >= ROUTES_MAX:
            self.forget()
        self._routes[version][key] = _Route(partition, version, message)


def _continues_transaction(route: _Route, records: memoryview) -> bool:
    """Whether the batch belongs to a transaction open in the partition. The handler decides all other batches
    of transactional producers."""
    if not (route.is_transactional and records[_LOW_ATTRIBUTES_POS] & TRANSACTIONAL_BIT):
        return False
    producer_id, producer_epoch = _producer(records, PRODUCER_ID_POS)
    entry = route.partition.log.producer_state.entries.get(producer_id)
    return entry is not None and entry.is_in_transaction(producer_epoch)


def _records_length_pos(frame: memoryview, version: int, client_id_bytes: int) -> int:
    """The position of the records' length, if the request has one topic with one partition."""
    pos = 10 + client_id_bytes if client_id_bytes > 0 else 10
    if version >= FIRST_FLEXIBLE_VERSION:
        transactional_id_length = frame[pos + 1]  # and one; 0 is none
        if transactional_id_length:
            pos += transactional_id_length - 1
        if version >= PRODUCE_TOPIC_IDS_SINCE:
            # tags of the header, transactional id, acks, time-out, count; the id; count, partition
            return pos + 9 + TOPIC_ID_BYTES + 5
        return pos + 9 + frame[pos + 9] + 5
    transactional_id_bytes = int(_int16(frame, pos)[0])
    if transactional_id_bytes > 0:
        pos += transactional_id_bytes
    return pos + 14 + int(_int16(frame, pos + 12)[0]) + 8


def _records(frame: memoryview, version: int, pos: int) -> memoryview | None:
    """Return the records if only empty tag sections follow them in the frame."""
    if version < FIRST_FLEXIBLE_VERSION:
        length = _int32(frame, pos)[0]
        records = frame[pos + 4 :]
        return records if len(records) == length else None
    length = shift = 0
    while True:
        byte = frame[pos]
        pos += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            return None
    end = pos + length - 1
    if not length or len(frame) != end + 3 or frame[end] or frame[end + 1] or frame[end + 2]:
        return None  # null, or with tagged fields of the partition, the topic or the request
    return frame[pos:end]
