"""Producers that record the responses they receive.

`Producer` is idempotent, uses acks=all and never drops a batch. At random it resends acknowledged batches
after new ones in one write, as a client that lost the responses would: it must receive the same offsets.
`ResendingProducer` does so in every write, one write at a time.
`UnreliableProducer` uses acks=1 without retries, so its records may be lost but not duplicated.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from ottla.client import Connection
from ottla.client.errors import ClientError
from ottla.protocol.errors import RETRIABLE, ErrorCode
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse
from ottla.protocol.versions import PRODUCE_TOPIC_IDS_SINCE
from ottla.records.build import build_batch
from simulator.clients.base import REQUEST_TIMEOUT_MS, Client, RetryLater
from simulator.history.operations import PRODUCE, PRODUCE_UNRELIABLE, Operation, PartitionName
from simulator.world import World

ALL_REPLICAS = -1
LEADER_ONLY = 1
WINDOW_MAX = 5  # batches per partition that the broker deduplicates
REPEAT_CHANCE = 0.2
VALUE_BYTES = 40
# The broker lost the producer's state: never caused by a client that sends in order.
SEQUENCE_LOST = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)

Answer = PartitionProduceResponse | None


class Batch:
    __slots__ = ("bytes", "operation", "sequence")

    def __init__(self, operation: Operation, sequence: int, data: bytes) -> None:
        self.operation = operation
        self.sequence = sequence
        self.bytes = data


class UnreliableProducer(Client):
    """acks=1, no retries, no sequence numbers."""

    kind = PRODUCE_UNRELIABLE
    acks = LEADER_ONLY

    def __init__(
        self,
        world: World,
        name: str,
        topic: str,
        partitions: int,
        *,
        pause_s: tuple[float, float] = (0.0, 0.05),
        records_max: int = 4,
        record_bytes: int = VALUE_BYTES,
    ) -> None:
        super().__init__(world, name, topic)
        self.partitions = partitions
        self.stopping = False
        self._pause_s = pause_s
        self._records_max = records_max
        self._record_bytes = record_bytes
        self._numbers = dict.fromkeys(range(partitions), 0)

    async def run(self) -> None:
        await asyncio.gather(*(self._write_to(index) for index in range(self.partitions)))

    async def _write_to(self, index: int) -> None:
        while not self.stopping:
            batches = [self._new_batch(index, (-1, -1), -1) for _ in range(self.rng.randint(1, 3))]
            answers = await self._send(index, batches)
            for batch, answer in zip(batches, answers, strict=True):
                if answer is None or answer.error_code:
                    batch.operation.info(None if answer is None else answer.error_code)
                    self.forget_leader(index)
                else:
                    batch.operation.ok(answer.base_offset)
            await asyncio.sleep(self.rng.uniform(*self._pause_s))

    def _new_batch(self, index: int, producer: tuple[int, int], sequence: int) -> Batch:
        count = self.rng.randint(1, self._records_max)
        first = self._numbers[index]
        self._numbers[index] = first + count
        values = tuple(f"{self.name}.{index}.{first + number}" for number in range(count))
        operation = self.world.history.invoke(self.name, self.kind, PartitionName(self.topic, index), values)
        records = [(self.world.now_ms, None, _padded(value, self._record_bytes), ()) for value in values]
        data = build_batch(
            records, producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence
        )
        return Batch(operation, sequence, bytes(data))

    async def _send(self, index: int, batches: Sequence[Batch]) -> list[Answer]:
        """Return one response for each batch, in order; None if there was none."""
        try:
            connection = await self.leader_of(index)
        except RetryLater:
            return [None] * len(batches)
        requests = (self._request(connection, index, batch) for batch in batches)
        answers = await asyncio.gather(
            *(
                connection.request(request, ProduceResponse, timeout_ms=REQUEST_TIMEOUT_MS)
                for request in requests
            ),
            return_exceptions=True,
        )
        results: list[Answer] = []
        for answer in answers:
            if isinstance(answer, ClientError):
                results.append(None)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                results.append(answer.responses[0].partition_responses[0])
        return results

    def _request(self, connection: Connection, index: int, batch: Batch) -> ProduceRequest:
        data = [PartitionProduceData(index=index, records=batch.bytes)]
        if connection.version_for(ProduceRequest.API_KEY) >= PRODUCE_TOPIC_IDS_SINCE:
            topic = TopicProduceData(topic_id=self.topic_id, partition_data=data)
        else:
            topic = TopicProduceData(name=self.topic, partition_data=data)
        return ProduceRequest(acks=self.acks, timeout_ms=REQUEST_TIMEOUT_MS // 2, topic_data=[topic])


class Producer(UnreliableProducer):
    """Idempotent, acks=all. After `stopping = True`, `run` completes all sent batches and returns."""

    kind = PRODUCE
    acks = ALL_REPLICAS

    async def _write_to(self, index: int) -> None:
        waiting: deque[Batch] = deque()
        recent: deque[Batch] = deque(maxlen=WINDOW_MAX)  # the last acknowledged batches
        producer, sequence = await self._new_id(), 0
        while True:
            # One batch until the broker knows the producer: without state it accepts any first sequence.
            window = 1 if sequence == 0 or not recent else self.rng.randint(1, WINDOW_MAX)
            while len(waiting) < window and not self.stopping:
                waiting.append(self._new_batch(index, producer, sequence))
                sequence += len(waiting[-1].operation.value)
            if not waiting:
                return
            repeated = self._repeated(waiting, recent)
            answers = await self._send(index, [*waiting, *repeated])
            self._check_repeated(repeated, answers[len(waiting) :])
            if self._handle_answers(index, waiting, answers[: len(waiting)], recent):
                # The broker lost the producer's state: the outcome of these is unknown.
                for batch in waiting:
                    batch.operation.info("sequence lost")
                waiting.clear()
                recent.clear()
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
                answer = await self.request_any(request, InitProducerIdResponse)
                if not answer.error_code:
                    self.world.history.producer_ids.append((answer.producer_id, self.name))
                    return answer.producer_id, answer.producer_epoch
            except RetryLater:
                pass
            await self.back_off()

    def _repeated(self, waiting: Sequence[Batch], recent: Sequence[Batch]) -> list[Batch]:
        """Draw batches to resend after `waiting`, among those that the broker must deduplicate."""
        known = [*recent, *waiting][-WINDOW_MAX:]
        if self.rng.random() >= REPEAT_CHANCE:
            return []
        return self.rng.sample(known, self.rng.randint(1, len(known)))

    def _check_repeated(self, repeated: Sequence[Batch], answers: Sequence[Answer]) -> None:
        """A success must have the original offset; errors are allowed."""
        for batch, answer in zip(repeated, answers, strict=True):
            reported = batch.operation.result if answer is not None and not answer.error_code else None
            if answer is not None and reported is not None and answer.base_offset not in (-1, reported):
                text = (
                    f"{batch.operation.value[0]} was acknowledged at {reported}, now at {answer.base_offset}"
                )
                self.world.history.surprise(self.name, text)

    def _handle_answers(
        self, index: int, waiting: deque[Batch], answers: Sequence[Answer], recent: deque[Batch]
    ) -> bool:
        """Remove acknowledged batches; return True if the rest can never be acknowledged."""
        open_before = False
        for batch, answer in zip(list(waiting), answers, strict=True):
            code = None if answer is None else answer.error_code
            if answer is not None and code in (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                waiting.remove(batch)
                recent.append(batch)
                batch.operation.ok(answer.base_offset if answer.base_offset >= 0 else None)
            elif code in SEQUENCE_LOST:
                if not open_before:  # expected after a failed batch
                    self._surprise(index, code, batch)
                    return True
            elif code is not None and code not in RETRIABLE:
                self._surprise(index, code, batch)
                return True
            else:
                open_before = True
        return False

    def _surprise(self, index: int, code: int | None, batch: Batch) -> None:
        text = f"{ErrorCode(code or 0).name} for {batch.operation.value[0]} of {self.topic}-{index}"
        self.world.history.surprise(self.name, text)


class ResendingProducer(Producer):
    """Sends an acknowledged batch again, as the last one of a write of new batches."""

    async def write_round(self, index: int, before_resend: Callable[[], None]) -> None:
        """Write one batch; then new ones and the first again, until all of them are acknowledged."""
        producer = await self._new_id()
        first = self._new_batch(index, producer, 0)
        recent: deque[Batch] = deque(maxlen=WINDOW_MAX)
        await self._send_until_acknowledged(index, deque([first]), [], recent)
        waiting: deque[Batch] = deque()
        sequence = len(first.operation.value)
        for _ in range(self.rng.randint(1, WINDOW_MAX - 1)):
            waiting.append(self._new_batch(index, producer, sequence))
            sequence += len(waiting[-1].operation.value)
        before_resend()
        await self._send_until_acknowledged(index, waiting, [first], recent)

    async def _send_until_acknowledged(
        self, index: int, waiting: deque[Batch], repeated: Sequence[Batch], recent: deque[Batch]
    ) -> None:
        while waiting:
            answers = await self._send(index, [*waiting, *repeated])
            self._check_repeated(repeated, answers[len(waiting) :])
            if self._handle_answers(index, waiting, answers[: len(waiting)], recent):
                return
            if waiting:
                self.forget_leader(index)
                await self.back_off()


def _padded(value: str, nbytes: int) -> bytes:
    return value.ljust(nbytes).encode("latin-1")
