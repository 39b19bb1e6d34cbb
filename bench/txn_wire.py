"""A transactional producer that sends raw requests, with version 2 of the protocol (KIP-890)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from struct import Struct

from bench.broker import BenchError
from bench.wire import CLIENT_ID, Wire
from ottla.protocol.errors import ErrorCode
from ottla.protocol.frames import encode_request, read_response_header
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.end_txn_response import EndTxnResponse
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.produce_response import ProduceResponse
from ottla.records.batch import CRC_POS, HEADER_BYTES, PRODUCER_ID_POS, compute_crc
from ottla.records.build import build_batch

PRODUCE_VERSION = 12  # the first that adds partitions implicitly, the last with topic names
END_VERSION = 5
INIT_VERSION = 5
FIND_VERSION = 4
TRANSACTION = 1
TIMEOUT_MS = 60_000
LOOK_SECONDS = 0.005
PAIR_AND_SEQUENCE = Struct(">qhi")
_CRC = Struct(">I")


def coordinator_of(wire: Wire, transactional_id: str) -> int:
    """Return the coordinator of a transactional id; wait until there is one."""
    request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])
    deadline_s = time.monotonic() + TIMEOUT_MS / 1000
    while True:
        found = wire.call(FIND_VERSION, request, FindCoordinatorResponse).coordinators[0]
        if not found.error_code:
            return found.node_id
        if time.monotonic() > deadline_s:
            raise BenchError(f"no coordinator: error code {found.error_code}")
        time.sleep(LOOK_SECONDS)


class TxnProducer:
    """`wire` is connected to the leader of the partitions, `coordinator` to the transaction coordinator."""

    def __init__(
        self,
        wire: Wire,
        coordinator: Wire,
        transactional_id: str,
        topic: str,
        batches: Sequence[bytearray],
        *,
        acks: int = -1,
    ) -> None:
        self._wire = wire
        self._coordinator = coordinator
        self._transactional_id = transactional_id
        self._acks = acks
        self._batches = [bytearray(batch) for batch in batches]
        rows = [PartitionProduceData(index=number, records=b) for number, b in enumerate(self._batches)]
        self._produce = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=topic, partition_data=rows)],
        )
        self._init()

    def _init(self) -> None:
        request = InitProducerIdRequest(
            transactional_id=self._transactional_id, transaction_timeout_ms=TIMEOUT_MS
        )
        while True:
            answer = self._coordinator.call(INIT_VERSION, request, InitProducerIdResponse)
            if answer.error_code in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR):
                time.sleep(LOOK_SECONDS)
                continue
            if answer.error_code:
                raise BenchError(f"InitProducerId: error code {answer.error_code}")
            self.producer = answer.producer_id, answer.producer_epoch
            return

    def send(self) -> None:
        """Return a request with the first batches of the next transaction, one for each partition."""
        for batch in self._batches:
            PAIR_AND_SEQUENCE.pack_into(batch, PRODUCER_ID_POS, *self.producer, 0)
            seal_batch(batch, 0, len(batch))
        frame = self._wire.exchange(encode_request(PRODUCE_VERSION, 1, CLIENT_ID, self._produce))
        _, position = read_response_header(ProduceRequest.API_KEY, PRODUCE_VERSION, frame)
        answer = ProduceResponse.decode(PRODUCE_VERSION, frame, position)
        codes = {row.error_code for topic in answer.responses for row in topic.partition_responses}
        if codes != {0}:
            raise BenchError(f"Produce: error codes {sorted(codes)}")

    def end(self, *, commit: bool = True) -> None:
        request = EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            committed=commit,
        )
        answer = self._coordinator.call(END_VERSION, request, EndTxnResponse)
        if answer.error_code:
            raise BenchError(f"EndTxn: error code {answer.error_code}")
        self.producer = answer.producer_id, answer.producer_epoch

    def transaction(self, *, commit: bool = True) -> None:
        self.send()
        self.end(commit=commit)


def seal_batch(buffer: bytearray, at: int, size_bytes: int) -> None:
    _CRC.pack_into(buffer, at + CRC_POS, compute_crc(buffer, at, size_bytes))


def transactional_batch(records: int, value_bytes: int, *, transactional: bool = True) -> bytearray:
    now_ms = time.time_ns() // 1_000_000
    rows = [(now_ms, None, bytes(value_bytes), ()) for _ in range(records)]
    batch = build_batch(rows, producer_id=0, producer_epoch=0, base_sequence=0, transactional=transactional)
    assert len(batch) > HEADER_BYTES
    return batch
