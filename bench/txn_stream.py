"""A producer of raw requests at full speed, with or without transactions.

It has none of the overhead of a client (locks, threads, timers), so it shows the cost of the broker alone. It
keeps five batches in flight; at the end of a transaction it waits for their responses and for EndTxn.
"""

from __future__ import annotations

import time
from collections import deque

from bench.broker import BenchError, Broker
from bench.txn_wire import (
    END_VERSION,
    INIT_VERSION,
    PAIR_AND_SEQUENCE,
    PRODUCE_VERSION,
    TIMEOUT_MS,
    coordinator_of,
    seal_batch,
    transactional_batch,
)
from bench.wire import CLIENT_ID, Wire
from ottla.protocol.frames import encode_request
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.end_txn_response import EndTxnResponse
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.batch import PRODUCER_ID_POS

IN_FLIGHT = 5
RECORDS = 63
VALUE_BYTES = 1024


class Stream:
    def __init__(self, broker: Broker, topic: str, transactional_id: str | None) -> None:
        self._wire = Wire(broker)
        self._coordinator = Wire(broker)
        self._transactional_id = transactional_id
        if transactional_id is not None:
            coordinator_of(self._coordinator, transactional_id)
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS)
        answer = self._coordinator.call(INIT_VERSION, request, InitProducerIdResponse)
        if answer.error_code:
            raise BenchError(f"InitProducerId: error code {answer.error_code}")
        self._producer = answer.producer_id, answer.producer_epoch
        self._sequence = 0
        batch = transactional_batch(RECORDS, VALUE_BYTES, transactional=transactional_id is not None)
        produce = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topic_data=[
                TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
            ],
        )
        self._frame = bytearray(encode_request(PRODUCE_VERSION, 1, CLIENT_ID, produce))
        self._at = self._frame.index(batch)
        self._batch_bytes = len(batch)
        self.transactions = 0
        self.sent_records = 0  # in the last run
        self._stamp()
        self._answer_bytes = len(self._wire.exchange(bytes(self._frame))) + 4
        self._end()

    def close(self) -> None:
        for wire in (self._wire, self._coordinator):
            wire.__exit__(None, None, None)

    def run(self, seconds: float, transaction_seconds: float) -> float:
        """Return the acknowledged and committed megabytes of values per second."""
        began_s = time.perf_counter()
        sent = 0
        while (now_s := time.perf_counter()) - began_s < seconds:
            sent += self._send_until(now_s + min(transaction_seconds, seconds))
            self._end()
        self.sent_records = sent * RECORDS
        return sent * RECORDS * VALUE_BYTES / 1e6 / (time.perf_counter() - began_s)

    def _send_until(self, end_s: float) -> int:
        sent = 0
        waiting: deque[int] = deque()
        while time.perf_counter() < end_s:
            if len(waiting) == IN_FLIGHT:
                self._wire.discard(waiting.popleft())
            self._stamp()
            self._wire.send(self._frame)
            waiting.append(self._answer_bytes)
            sent += 1
        self._wire.discard(sum(waiting))
        return sent

    def _stamp(self) -> None:
        PAIR_AND_SEQUENCE.pack_into(self._frame, self._at + PRODUCER_ID_POS, *self._producer, self._sequence)
        seal_batch(self._frame, self._at, self._batch_bytes)
        self._sequence += RECORDS

    def _end(self) -> None:
        if self._transactional_id is None:
            return
        request = EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            committed=True,
        )
        answer = self._coordinator.call(END_VERSION, request, EndTxnResponse)
        if answer.error_code:
            raise BenchError(f"EndTxn: error code {answer.error_code}")
        self._producer, self._sequence = (answer.producer_id, answer.producer_epoch), 0
        self.transactions += 1
