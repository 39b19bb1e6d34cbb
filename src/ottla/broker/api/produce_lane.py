"""The short way for the request that nearly every producer sends: one partition, one batch, nothing unusual.

Between two such requests of a producer only the correlation id and the records differ. So everything else,
from the client id to the partition's number, is one key: its first request takes the long way through
`handlers/produce.py`, which understands it byte for byte, and is remembered; the next ones find partition and
answer by one look-up. Requests of one partition that arrive together are appended with one write.

Whatever is not remembered, or goes wrong here, takes the long way and is answered there: this file decides
nothing by itself, and nothing of the request has been appended when it gives up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import TYPE_CHECKING, cast

from ottla.broker.api.leader_hints import add_leader
from ottla.broker.replicas.partition import Partition
from ottla.controller.topic_names import INTERNAL_TOPICS
from ottla.protocol.api import API_BY_KEY
from ottla.protocol.errors import ErrorCode
from ottla.protocol.frames import encode_response
from ottla.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.records.batch import ATTRIBUTES_POS, PRODUCER_ID_POS, TRANSACTIONAL_BIT, RecordsError
from ottla.records.validate import CheckedRecords, check_produce
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.protocol.messages.produce_request import ProduceRequest
    from ottla.storage.log import AppendResult

PRODUCE_KEY = 0
FIRST_VERSION = 7  # below it zstd must be refused, which is the long way's business
FIRST_FLEXIBLE_VERSION = 9
FIRST_VERSION_WITH_LEADERS = 10
FIRST_VERSION_WITH_TOPIC_IDS = 13
WAYS_MAX = 10_000
KEY_BYTES_MAX = 1000  # clients choose their ids: ways with long ones would fill the memory
TOPIC_ID_BYTES = 16
ACKS_ALL = -1
_head = Struct(">hhih").unpack_from
_int16 = Struct(">h").unpack_from
_int32 = Struct(">i").unpack_from
_producer = Struct(">qh").unpack_from
_PLACEHOLDER = 0x1122334455667788
_PLACEHOLDERS = Struct(">qqq").pack(_PLACEHOLDER, _PLACEHOLDER, _PLACEHOLDER)
_LOW_ATTRIBUTES_POS = ATTRIBUTES_POS + 1


# A whole frame, or the future of one where the records are not committed yet.
Answer = bytes | asyncio.Future[bytes]


class _Way:
    """Where requests with the same beginning go, and what their answer looks like."""

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
        answer = PartitionProduceResponse(
            index=partition.index,
            base_offset=_PLACEHOLDER,
            log_append_time_ms=_PLACEHOLDER,
            log_start_offset=_PLACEHOLDER,
        )
        parts = encode_response(PRODUCE_KEY, version, 0, self.response_with(answer))
        frame = b"".join(cast("list[bytes]", parts))
        position = frame.index(_PLACEHOLDERS)
        self.size = frame[:4]
        self.before = frame[8:position]
        self.after = frame[position + len(_PLACEHOLDERS) :]
        self.pack = Struct(f">4si{len(self.before)}sqqq{len(self.after)}s").pack

    def response_with(self, answer: PartitionProduceResponse) -> ProduceResponse:
        topic = TopicProduceResponse(
            name=self._topic_name, topic_id=self._topic_id, partition_responses=[answer]
        )
        return ProduceResponse(responses=[topic])


class Taken:
    """A request on the short way; its frame is kept for the long one."""

    __slots__ = ("checked", "correlation_id", "frame", "partition", "way")

    def __init__(self, frame: memoryview, way: _Way, correlation_id: int, checked: CheckedRecords) -> None:
        self.frame = frame
        self.way = way
        self.partition = way.partition
        self.correlation_id = correlation_id
        self.checked = checked


class _Waiting:
    """An answer that waits until its records are committed: all that a partition wants of a future, and a
    future of the whole frame for the connection."""

    __slots__ = ("_broker", "_correlation_id", "_frame", "_result", "_timer", "_way")

    def __init__(self, broker: Node, taken: Taken, result: AppendResult) -> None:
        self._broker = broker
        self._way = taken.way
        self._correlation_id = taken.correlation_id
        self._result = result
        self._frame: asyncio.Future[bytes]
        self._timer: asyncio.TimerHandle

    def begin(self) -> asyncio.Future[bytes]:
        loop = asyncio.get_running_loop()
        self._frame = loop.create_future()
        self._timer = loop.call_later(max(0, self._way.timeout_ms) / 1000, self._time_is_up)
        return self._frame

    def answer(self) -> bytes:
        way, result = self._way, self._result
        start_offset = way.partition.log.log_start_offset
        return way.pack(
            way.size, self._correlation_id, way.before, result[0], result[2], start_offset, way.after
        )

    def done(self) -> bool:
        return self._frame.done()

    def set_result(self, _: None) -> None:
        self._timer.cancel()
        self._frame.set_result(self.answer())

    def set_exception(self, error: BaseException) -> None:
        self._timer.cancel()
        self._refuse(getattr(error, "code", ErrorCode.KAFKA_STORAGE_ERROR))

    def _time_is_up(self) -> None:
        if not self._frame.done():
            self._refuse(ErrorCode.REQUEST_TIMED_OUT)

    def _refuse(self, code: ErrorCode) -> None:
        way = self._way
        answer = PartitionProduceResponse(index=way.partition.index, error_code=code, base_offset=-1)
        if way.version >= FIRST_VERSION_WITH_LEADERS:
            add_leader(self._broker, way.partition.topic_id, answer, answer.index, code)
        parts = encode_response(PRODUCE_KEY, way.version, self._correlation_id, way.response_with(answer))
        self._frame.set_result(b"".join(cast("list[bytes]", parts)))


class ProduceLane:
    __slots__ = ("_broker", "_ways")

    def __init__(self, broker: Node) -> None:
        self._broker = broker
        self._ways: list[dict[bytes, _Way]] = [{} for _ in range(API_BY_KEY[PRODUCE_KEY].max_version + 1)]

    def __len__(self) -> int:
        return sum(map(len, self._ways))

    def forget(self) -> None:
        """Metadata has changed: every way is looked for anew."""
        for ways in self._ways:
            ways.clear()

    def accept(self, frame: memoryview) -> Taken | None:
        """A request whose way is known and whose records are fit to be appended; None: take the long way."""
        try:
            api_key, version, correlation_id, client_id_bytes = _head(frame)
            if api_key != PRODUCE_KEY or version < FIRST_VERSION:
                return None
            start = _records_length_pos(frame, version, client_id_bytes)
            way = self._ways[version].get(bytes(frame[8:start]))
            if way is None:
                return None
            records = _records(frame, version, start)
            if records is None:
                return None
            if (way.is_transactional or records[_LOW_ATTRIBUTES_POS] & TRANSACTIONAL_BIT) and not _goes_on(
                way, records
            ):
                return None
            checked = check_produce(records, way.partition.rules, self._broker.clock())
        except (IndexError, StructError, RecordsError):
            return None
        return Taken(frame, way, correlation_id, checked)

    def append(self, group: Sequence[Taken]) -> list[Answer]:
        """Append requests of one partition; the answers, fewer than requests if one needs the long way."""
        partition = group[0].way.partition
        try:
            results = partition.append_group([taken.checked for taken in group], self._broker.clock())
        except (RecordsError, StorageError):
            return []
        log_start_offset = partition.log.log_start_offset
        # Not just the last one: that may repeat a batch of long ago, which says nothing of those before it.
        if max(result[1] for result in results) >= partition.high_watermark:
            return [
                self._when_committed(taken, result) for taken, result in zip(group, results, strict=False)
            ]
        answers: list[Answer] = []
        for taken, result in zip(group, results, strict=False):
            way = taken.way
            answer = way.pack(
                way.size, taken.correlation_id, way.before, result[0], result[2], log_start_offset, way.after
            )
            answers.append(answer)
        return answers

    def _when_committed(self, taken: Taken, result: AppendResult) -> Answer:
        way = taken.way
        partition = way.partition
        waiting = _Waiting(self._broker, taken, result)
        if not partition.when_committed(result.last_offset + 1, waiting, local=not way.all_replicas):
            return waiting.answer()
        return waiting.begin()

    def learn(self, frame: memoryview, version: int, message: ProduceRequest) -> None:
        """Remember a request that the long way has understood, if it is of the common shape."""
        topics = message.topic_data
        if version < FIRST_VERSION or message.acks not in (-1, 1):
            return
        if len(topics) != 1 or len(topics[0].partition_data) != 1:
            return
        topic, data = topics[0], topics[0].partition_data[0]
        partitions = self._broker.partitions
        if version >= FIRST_VERSION_WITH_TOPIC_IDS:
            partition = partitions.by_id(topic.topic_id, data.index)
        else:
            partition = partitions.by_name(topic.name, data.index)
        if partition is None or not partition.is_leader or partition.topic in INTERNAL_TOPICS:
            return
        if data.records is None or not partition.rules.plain:
            return  # a batch that the topic wants changed may not be given to the long way afterwards
        start = _records_length_pos(frame, version, _head(frame)[3])
        records = _records(frame, version, start) if start < len(frame) else None
        if records is None or len(records) != len(data.records) or start > KEY_BYTES_MAX:
            return  # tagged fields, or longer names than the short way reads
        key = bytes(frame[8:start])
        if key in self._ways[version]:
            return  # the first batch of another transaction
        if len(self) >= WAYS_MAX:
            self.forget()
        self._ways[version][key] = _Way(partition, version, message)


def _goes_on(way: _Way, records: memoryview) -> bool:
    """Is the batch part of a transaction that is open in the partition? All other batches of transactional
    producers take the long way."""
    if not (way.is_transactional and records[_LOW_ATTRIBUTES_POS] & TRANSACTIONAL_BIT):
        return False
    producer_id, producer_epoch = _producer(records, PRODUCER_ID_POS)
    entry = way.partition.log.producer_state.entries.get(producer_id)
    return entry is not None and entry.is_in_transaction(producer_epoch)


def _records_length_pos(frame: memoryview, version: int, client_id_bytes: int) -> int:
    """Where the length of the records stands, if the request has one topic with one partition."""
    pos = 10 + client_id_bytes if client_id_bytes > 0 else 10
    if version >= FIRST_FLEXIBLE_VERSION:
        transactional_id_length = frame[pos + 1]  # and one; 0 is none
        if transactional_id_length:
            pos += transactional_id_length - 1
        if version >= FIRST_VERSION_WITH_TOPIC_IDS:
            # tags of the header, transactional id, acks, time-out, count; the id; count, partition
            return pos + 9 + TOPIC_ID_BYTES + 5
        return pos + 9 + frame[pos + 9] + 5
    transactional_id_bytes = int(_int16(frame, pos)[0])
    if transactional_id_bytes > 0:
        pos += transactional_id_bytes
    return pos + 14 + int(_int16(frame, pos + 12)[0]) + 8


def _records(frame: memoryview, version: int, pos: int) -> memoryview | None:
    """The records, if they fill the rest of the frame but for empty tags."""
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
