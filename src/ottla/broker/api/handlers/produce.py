"""Produce (0): checks each partition's batch, appends it, and answers when the asked-for guarantee holds.

The records are a view of the connection's receive buffer: every append happens before this handler returns.
Only first batches of transactions may have to wait for their coordinator: those are copied.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ottla.broker.api.leader_hints import add_endpoints, add_leader
from ottla.broker.api.produce_wait import Waiting, when_committed
from ottla.broker.net.request import CloseConnection
from ottla.controller.topic_names import INTERNAL_TOPICS
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest
from ottla.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.records.batch import ATTRIBUTES_POS, HEADER_BYTES, TRANSACTIONAL_BIT, RecordsError
from ottla.records.compression import ZSTD
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.coordinators.first_writes import FirstWrites
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node
    from ottla.broker.replicas.partition import Partition

API_KEY = 0
FIRST_VERSION_WITH_TOPIC_IDS = 13
FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_WITH_LEADERS = 10
ACKS_ALL = -1
ADMIN_CLIENT_ID = "__admin_client"  # as in Kafka, whoever calls himself so knows what he does
_ATTRIBUTES_LOW_BYTE = ATTRIBUTES_POS + 1

log = logging.getLogger("ottla.produce")


def handle(broker: Node, request: Request, message: ProduceRequest) -> Any:
    append = _Appends(broker, request, message)
    if message.transactional_id is not None:
        from ottla.broker.coordinators.first_writes import FirstWrites

        append.first_writes = first_writes = FirstWrites(broker, request.version, message)
        if first_writes and message.acks and not first_writes.known_now():
            return _when_verified(append, first_writes)
    return append.answer_to()


async def _when_verified(append: _Appends, first_writes: FirstWrites) -> Any:
    await first_writes.ask()
    answer = append.answer_to()
    return await answer if isinstance(answer, asyncio.Future) else answer


def _answer_to(broker: Node, request: Request, message: ProduceRequest, append: _Appends) -> Any:
    answer = append.run()
    if message.acks == 0:
        if append.first_error is not None:
            # There is no response that could carry the error: closing tells the producer to look again.
            raise CloseConnection(f"produce with acks=0 failed: {append.first_error}")
        return None
    tells_leaders = request.version >= FIRST_VERSION_WITH_LEADERS
    if tells_leaders and append.first_error is not None:
        tell_leaders(broker, request.listener.name, answer)
    if not append.waiting:
        return answer
    done = when_committed(answer, append.waiting, message.timeout_ms)
    if tells_leaders:
        done.add_done_callback(lambda _: tell_leaders(broker, request.listener.name, answer))
    return done


def tell_leaders(broker: Node, listener_name: str, answer: ProduceResponse) -> None:
    """Where partitions that are led elsewhere are found."""
    leaders = [
        add_leader(broker, topic.name or topic.topic_id, data, data.index, data.error_code)
        for topic in answer.responses
        for data in topic.partition_responses
        if data.error_code
    ]
    if leaders:
        add_endpoints(broker, listener_name, answer, NodeEndpoint, leaders)


class _Appends:
    """The appends of one request, and which of them are not committed yet."""

    __slots__ = ("_broker", "_message", "_request", "answer", "first_error", "first_writes", "waiting")

    def __init__(self, broker: Node, request: Request, message: ProduceRequest) -> None:
        self._broker = broker
        self._request = request
        self._message = message
        self.answer = ProduceResponse()
        self.first_error: str | None = None
        self.waiting: Waiting = []
        self.first_writes: FirstWrites | None = None  # of a transactional producer

    def answer_to(self) -> Any:
        return _answer_to(self._broker, self._request, self._message, self)

    def run(self) -> ProduceResponse:
        broker = self._broker
        now_ms = broker.clock()
        by_id = self._request.version >= FIRST_VERSION_WITH_TOPIC_IDS
        for topic in self._message.topic_data:
            partition_answers: list[PartitionProduceResponse] = []
            for data in topic.partition_data:
                if by_id:
                    partition = broker.partitions.by_id(topic.topic_id, data.index)
                else:
                    partition = broker.partitions.by_name(topic.name, data.index)
                if partition is None:
                    known = broker.image.topics_by_id.get(topic.topic_id) if by_id else None
                    name = known.name if known is not None else topic.name
                    unknown_id = by_id and known is None
                    code = (
                        ErrorCode.UNKNOWN_TOPIC_ID if unknown_id else broker.why_not_hosted(name, data.index)
                    )
                    partition_answers.append(self._failed(data.index, code, None))
                else:
                    partition_answers.append(self._append(partition, data, now_ms))
            self.answer.responses.append(
                TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=partition_answers
                )
            )
        return self.answer

    def _append(
        self, partition: Partition, data: PartitionProduceData, now_ms: int
    ) -> PartitionProduceResponse:
        acks = self._message.acks
        if not -1 <= acks <= 1:
            return self._failed(
                data.index, ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}; -1, 0 and 1 are allowed"
            )
        records = data.records
        if records is None or not len(records):
            return self._failed(
                data.index, ErrorCode.INVALID_RECORD, "a produce request needs a record batch"
            )
        if partition.topic in INTERNAL_TOPICS and self._request.client_id != ADMIN_CLIENT_ID:
            reason = f"{partition.topic} is written by brokers alone"
            return self._failed(data.index, ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
        try:
            partition.check_append(acks_all=acks == ACKS_ALL)
            is_transactional = self._check_features(partition, records)
            result = partition.append(records, now_ms)
            if is_transactional and self.first_writes is not None:
                self.first_writes.opened(partition, records)
        except RecordsError as error:
            return self._failed(data.index, error.code, error.message or None, error.record_errors)
        except StorageError as error:
            log.error("append failed: partition=%s-%d error=%s", partition.topic, data.index, error)
            return self._failed(data.index, ErrorCode.KAFKA_STORAGE_ERROR, None)
        answer = PartitionProduceResponse(
            index=data.index,
            base_offset=result.first_offset,
            log_append_time_ms=result.log_append_time_ms,
            log_start_offset=partition.log.log_start_offset,
        )
        if acks:
            end_offset = result.last_offset + 1
            if end_offset > partition.high_watermark:
                committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                if partition.when_committed(end_offset, committed, local=acks != ACKS_ALL):
                    self.waiting.append((committed, answer))
        return answer

    def _check_features(self, partition: Partition, records: memoryview) -> bool:
        """What depends on the request rather than on the partition. Is the batch part of a transaction?"""
        if len(records) < HEADER_BYTES:
            return False  # too short to be a batch: the check of the records says so
        attributes = records[_ATTRIBUTES_LOW_BYTE]
        if attributes & 7 == ZSTD and self._request.version < FIRST_VERSION_WITH_ZSTD:
            raise RecordsError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"zstd needs Produce {FIRST_VERSION_WITH_ZSTD} or later, this is {self._request.version}",
            )
        if not attributes & TRANSACTIONAL_BIT:
            return False
        if self.first_writes is None:
            raise RecordsError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "no transactional id is given"
            )
        if not self._message.acks:
            raise RecordsError(
                ErrorCode.INVALID_REQUIRED_ACKS, "a transaction wants its records acknowledged"
            )
        code = self.first_writes.refusal(partition, records)
        if code:
            raise RecordsError(code, "the batch cannot be a part of the transaction")
        return True

    def _failed(
        self,
        index: int,
        code: ErrorCode,
        reason: str | None,
        record_errors: list[tuple[int, str]] | None = None,
    ) -> PartitionProduceResponse:
        if self.first_error is None:
            self.first_error = f"{code.name} {reason or ''}"
        return PartitionProduceResponse(
            index=index,
            error_code=code,
            base_offset=-1,
            error_message=reason,
            record_errors=[
                BatchIndexAndErrorMessage(batch_index=i, batch_index_error_message=text)
                for i, text in record_errors or ()
            ],
        )
