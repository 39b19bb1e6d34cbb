"""A transactional producer of either protocol version that records the responses it receives.

Its timeout is shorter than that of the connection, and it retries on a new connection: the first request
may still arrive at any later time. In version 1 of the protocol only the epoch distinguishes such a request
from a new one, so this producer takes a new epoch after an end or a write without an immediate response.
(Otherwise a late EndTxn could end its next transaction: KAFKA-17754. Version 2 has no such gap.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from ottla.client.errors import ClientError
from ottla.protocol.errors import RETRIABLE, ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.end_txn_response import EndTxnResponse
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.produce_response import ProduceResponse
from ottla.records.build import build_batch
from simulator.clients.base import REQUEST_TIMEOUT_MS, Address, Client, RetryLater
from simulator.history.operations import PartitionName
from simulator.history.transactions import ABORTED, COMMITTED, UNKNOWN, Pair, TxnEntry, TxnLedger
from simulator.world import World

V1 = 1
V2 = 2
GROUP_KEY = 0
TRANSACTION_KEY = 1
ALL_REPLICAS = -1
HOSTS = "abcdef"
NO_PAIR: Pair = (-1, -1)
# The last API versions of transaction protocol version 1.
PRODUCE_V1 = 11
END_TXN_V1 = 4
ADD_PARTITIONS_V1 = 3
INIT_STABLE = 5
INIT_TWO_PHASE = 6
PATIENCE_S = (0.15, 0.5, 1.5)
WRITE_WITHIN_S = (0.5, 5.0)
HASTY_CHANCE = 0.06  # of not waiting for a write: the transaction is aborted while the write is in flight
HASTY_S = 0.003
GIVE_UP_CHANCE = 0.1
RENEW_CHANCE = 0.3  # if it is not needed

FENCED = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)
ELSEWHERE = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
# Errors of a batch whose transaction must be aborted.
MUST_ABORT = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)

Response = TypeVar("Response", bound=Message)


class Fenced(Exception):
    """Another instance has taken over, or the coordinator has fenced this one."""


class MustAbort(Exception):
    """The transaction must be aborted."""


class TxnClient(Client):
    """One instance of a transactional id. `ended` is set when it is fenced or has stopped."""

    two_phase = False
    gives_up = True  # stops retrying EndTxn at random
    hasty_chance = HASTY_CHANCE
    within_s = WRITE_WITHIN_S  # time limit of a write or AddPartitionsToTxn

    def __init__(
        self, world: World, ledger: TxnLedger, transactional_id: str, version: int, timeout_ms: int
    ) -> None:
        number = ledger.next_instance(transactional_id)
        # Instances that run at the same time are on different hosts.
        super().__init__(world, f"{transactional_id}{HOSTS[number % len(HOSTS)]}", ledger.topic)
        self.instance = f"{transactional_id}.{number}"
        self.rng = world.rng(f"txn {self.instance}")
        self.ledger = ledger
        self.transactional_id = transactional_id
        self.version = version
        self.timeout_ms = timeout_ms
        self.pair = NO_PAIR
        self.stopping = False
        self.ended = False
        self.is_fenced = False
        self.patience_s = self.rng.choice(PATIENCE_S)
        self.careful = True  # takes a new epoch where version 1 needs it
        self.must_bump = False
        self._added: dict[int | str, None] = {}
        self._may_be_added = False
        self._sequences: dict[int, int] = {}
        self._coordinators: dict[tuple[int, str], Address] = {}

    # -- requests

    async def call(
        self,
        address: Address,
        message: Message,
        response: type[Response],
        *,
        at_most: int | None = None,
        patience_s: float | None = None,
    ) -> Response:
        """Return the response or raise RetryLater; the request may still arrive at any later time."""
        try:
            connection = await self.connection(address)
            task = asyncio.ensure_future(
                connection.request(message, response, timeout_ms=REQUEST_TIMEOUT_MS, at_most=at_most)
            )
            done, _ = await asyncio.wait([task], timeout=patience_s or self.patience_s)
            if not done:
                self._connections.pop(address, None)
                task.add_done_callback(lambda task: task.cancelled() or task.exception())
                raise RetryLater(f"{address[0]} timed out")
            return task.result()
        except ClientError as error:
            raise RetryLater(str(error)) from error

    async def coordinator(self, key_type: int, key: str) -> Address:
        known = self._coordinators.get((key_type, key))
        if known is None:
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            node = self.rng.choice(self.world.brokers)
            found = (await self.call(node.host_port, request, FindCoordinatorResponse)).coordinators[0]
            if found.error_code:
                raise RetryLater(f"coordinator: {found.error_code}")
            known = self._coordinators[key_type, key] = (found.host, found.port)
        return known

    async def request_coordinator(
        self,
        message: Message,
        response: type[Response],
        *,
        at_most: int | None = None,
        group: str | None = None,
    ) -> Response:
        place = (TRANSACTION_KEY, self.transactional_id) if group is None else (GROUP_KEY, group)
        address = await self.coordinator(*place)
        try:
            answer = await self.call(address, message, response, at_most=at_most)
        except RetryLater as error:
            self._coordinators.pop(place, None)
            self.ledger.trace(self.instance, f"{type(message).__name__} of {address[0]}: {error}")
            raise
        code = getattr(answer, "error_code", 0)
        if code:
            self.ledger.trace(self.instance, f"{type(message).__name__} of {address[0]}: {code}")
        if code in ELSEWHERE:
            self._coordinators.pop(place, None)
        return answer

    def surprise(self, what: str, code: int) -> None:
        self.world.history.surprise(self.instance, f"{ErrorCode(code).name} for {what}")

    # -- producer id and epoch

    async def init(self, *, expected: Pair = NO_PAIR, keep_prepared: bool = False) -> InitProducerIdResponse:
        """Take a new epoch: with `expected` as the same producer, else as a new instance. Raises Fenced."""
        message = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
            enable2_pc=self.two_phase,
            keep_prepared_txn=keep_prepared,
        )
        at_most = INIT_TWO_PHASE if self.two_phase else INIT_STABLE
        while True:
            try:
                answer = await self.request_coordinator(message, InitProducerIdResponse, at_most=at_most)
            except RetryLater:
                await self.back_off()
                continue
            if not answer.error_code:
                self._take(answer.producer_id, answer.producer_epoch)
                if expected == NO_PAIR:
                    self.ledger.take_over(
                        self.transactional_id, self.instance, self.pair, keeps=keep_prepared
                    )
                self.must_bump = False
                return answer
            if answer.error_code in FENCED:
                raise Fenced(f"InitProducerId: {answer.error_code}")
            if answer.error_code not in RETRIABLE:
                self.surprise(f"InitProducerId {expected}", answer.error_code)
            await self.back_off()

    def _take(self, producer_id: int, producer_epoch: int) -> None:
        self.pair = (producer_id, producer_epoch)
        self._sequences.clear()
        self.ledger.issue(self.pair, self.transactional_id, self.instance)

    # -- transaction

    def begin(self) -> TxnEntry:
        self._added.clear()
        self._may_be_added = False
        return self.ledger.begin(self.transactional_id, self.instance, self.pair, self.version)

    async def add_partitions(self, indexes: Sequence[int]) -> None:
        """Version 1 only: register partitions with the coordinator before writing."""
        wanted = [index for index in indexes if index not in self._added]
        if self.version >= V2 or not wanted:
            return
        message = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.pair[0],
            v3_and_below_producer_epoch=self.pair[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self.topic, partitions=wanted)],
        )
        until_s = self.world.loop.time() + self.rng.uniform(*self.within_s)
        self._may_be_added = True
        while self.world.loop.time() < until_s:
            try:
                answer = await self.request_coordinator(
                    message, AddPartitionsToTxnResponse, at_most=ADD_PARTITIONS_V1
                )
            except RetryLater:
                await self.back_off()
                continue
            rows = [row for each in answer.results_by_topic_v3_and_below for row in each.results_by_partition]
            codes = [row.partition_error_code for row in rows]
            if not any(codes):
                self._added.update(dict.fromkeys(wanted))
                return
            self._handle_error("AddPartitionsToTxn", codes[0])
            await self.back_off()
        raise MustAbort("AddPartitionsToTxn timed out")

    def _handle_error(self, what: str, code: int) -> None:
        """Raise Fenced, MustAbort or RetryLater for the error of a coordinator."""
        if code in ELSEWHERE:
            self._coordinators.clear()
        elif code in FENCED:
            raise Fenced(f"{what}: {code}")
        elif code in MUST_ABORT:
            raise MustAbort(f"{what}: {code}")
        elif code not in RETRIABLE and code != ErrorCode.OPERATION_NOT_ATTEMPTED:
            self.surprise(what, code)
            raise MustAbort(f"{what}: {code}")

    async def write(self, entry: TxnEntry, index: int, values: Sequence[str]) -> None:
        """Write one batch; raises MustAbort if it is not acknowledged."""
        await self.write_batch(entry, index, values, self.new_batch(entry, index, values))

    def new_batch(self, entry: TxnEntry, index: int, values: Sequence[str]) -> bytes:
        for value in values:
            self.ledger.write(entry, value, PartitionName(self.topic, index))
        sequence = self._sequences.get(index, 0)
        self._sequences[index] = sequence + len(values)
        return bytes(
            build_batch(
                [(self.world.now_ms, None, value.encode(), ()) for value in values],
                producer_id=self.pair[0],
                producer_epoch=self.pair[1],
                base_sequence=sequence,
                transactional=True,
            )
        )

    async def write_batch(self, entry: TxnEntry, index: int, values: Sequence[str], batch: bytes) -> None:
        name = PartitionName(self.topic, index)
        invoked_ns = self.ledger.now_ns
        is_hasty = self.rng.random() < self.hasty_chance
        until_s = self.world.loop.time() + (0.0001 if is_hasty else self.rng.uniform(*self.within_s))
        while self.world.loop.time() < until_s:
            try:
                code = await self._produce(index, batch, HASTY_S if is_hasty else None)
            except RetryLater:
                self.forget_leader(index)
                await self.back_off()
                continue
            if code in (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                what = f"{','.join(values)} to {name}"
                self.ledger.acknowledge(self.transactional_id, self.instance, self.pair, invoked_ns, what)
                self.ledger.trace(self.instance, f"wrote {what}")
                return
            if code not in RETRIABLE:
                if code not in MUST_ABORT:
                    self.surprise(f"{values[0]} of {entry.name} to {name}", code)
                self.must_bump = True
                raise MustAbort(f"{name}: {code}")
            self.forget_leader(index)
            await self.back_off()
        self.must_bump = True
        raise MustAbort(f"{name}: not in time")

    async def _produce(self, index: int, batch: bytes, patience_s: float | None) -> int:
        address = await self.leader_address(index)
        at_most = PRODUCE_V1 if self.version < V2 else None
        request = self.produce_request(index, batch)
        answer = await self.call(address, request, ProduceResponse, at_most=at_most, patience_s=patience_s)
        return answer.responses[0].partition_responses[0].error_code

    async def leader_address(self, index: int) -> Address:
        if index not in self._leaders:
            await self.refresh()
        address = self._leaders.get(index)
        if address is None:
            raise RetryLater(f"{self.topic}-{index} has no leader")
        return address

    def produce_request(self, index: int, batch: bytes) -> ProduceRequest:
        data = [PartitionProduceData(index=index, records=batch)]
        topic = TopicProduceData(name=self.topic, partition_data=data)
        if self.version >= V2:
            topic = TopicProduceData(topic_id=self.topic_id, partition_data=data)
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=ALL_REPLICAS,
            timeout_ms=REQUEST_TIMEOUT_MS // 2,
            topic_data=[topic],
        )

    # -- end

    async def end(self, entry: TxnEntry, *, commit: bool) -> None:
        """Send EndTxn, mostly until there is a response. Records the outcome in the ledger. Raises Fenced."""
        if self.version < V2 and not self._may_be_added:
            self.ledger.ended(entry, ABORTED, "empty transaction")
            return
        message = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.pair[0],
            producer_epoch=self.pair[1],
            committed=commit,
        )
        self.ledger.end_sent(entry, commit=commit)
        at_most = END_TXN_V1 if self.version < V2 else None
        is_unclear = False
        while True:
            if is_unclear and self.gives_up and self.rng.random() < GIVE_UP_CHANCE:
                self.ledger.ended(entry, UNKNOWN if commit else ABORTED, "given up")
                await self.init()
                return
            try:
                answer = await self.request_coordinator(message, EndTxnResponse, at_most=at_most)
            except RetryLater:
                is_unclear = True
                await self.back_off()
                continue
            code = answer.error_code
            if not code:
                self._ended(entry, answer, commit=commit)
                break
            if code in RETRIABLE:
                is_unclear = is_unclear or code != ErrorCode.CONCURRENT_TRANSACTIONS
                await self.back_off()
                continue
            self.ledger.ended(entry, UNKNOWN if commit and is_unclear else ABORTED, f"refused: {code}")
            if code in FENCED:
                raise Fenced(f"EndTxn: {code}")
            nothing_there = self.version < V2 and not commit and code == ErrorCode.INVALID_TXN_STATE
            if not nothing_there:
                self.surprise(f"EndTxn of {entry}", code)
            break
        if is_unclear and (self.version < V2 or self.rng.random() < RENEW_CHANCE):
            self.must_bump = True

    def _ended(self, entry: TxnEntry, answer: EndTxnResponse, *, commit: bool) -> None:
        self.ledger.ended(entry, COMMITTED if commit else ABORTED)
        what = f"the {'commit' if commit else 'abort'} of {entry.name}"
        self.ledger.acknowledge(
            self.transactional_id, self.instance, self.pair, entry.end_invoked_ns, what, is_end=True
        )
        if self.version >= V2:
            if answer.producer_epoch < 0:
                self.surprise("EndTxn without an epoch", 0)
            self._take(answer.producer_id, answer.producer_epoch)
            self.must_bump = False

    async def renew(self) -> None:
        """Take a new epoch if a late request could become part of the next transaction."""
        if self.must_bump and (self.careful or self.version >= V2):
            await self.init(expected=self.pair)
        self.must_bump = False
