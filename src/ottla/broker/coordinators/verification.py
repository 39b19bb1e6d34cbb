"""A leader's question to the coordinator of a transaction: does this partition belong to it?

Of clients with the second version of the protocol the leader adds the partition itself; of older ones it asks
whether they have done so. The coordinator may be this broker: then it is asked directly. What is asked of
another broker in one turn of the loop goes there in one request.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.links import Links
from ottla.broker.net.peer import PeerLost
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
)

if TYPE_CHECKING:
    from ottla.broker.node import Node

ANSWER_WITHIN_MS = 5000
FIRST_PAUSE_MS = 1
# The version of AddPartitionsToTxn in which brokers speak with each other.
VERSION_OF_BROKERS = 5
# Of one request: an answer waits for all of its transactions.
TRANSACTIONS_MAX = 50

TopicPartition = tuple[str, int]
Codes = dict[TopicPartition, ErrorCode]
Question = tuple[AddPartitionsToTxnTransaction, "asyncio.Future[Codes]"]


class Verification:
    """One per broker."""

    def __init__(self, broker: Node) -> None:
        self._broker = broker
        self._links = Links(broker)
        self._pause_ms_max = broker.config.get_int("add.partitions.to.txn.retry.backoff.ms")
        self._patience_ms = broker.config.get_int("add.partitions.to.txn.retry.backoff.max.ms")
        self._waiting: dict[int, list[Question]] = {}
        self._calls: dict[asyncio.Task[None], None] = {}
        self._closed = False

    def close(self) -> None:
        self._closed = True
        for call in self._calls:
            call.cancel()
        self._links.close()

    def is_wanted(self, adds: bool) -> bool:
        """May writes begin without the coordinator's word?"""
        return adds or bool(self._broker.layers.broker_value("transaction.partition.verification.enable"))

    def known_now(self, asked: AddPartitionsToTxnTransaction) -> Codes | None:
        """The answer, if this broker has it and nothing has to be written for it."""
        if not asked.verify_only or self._coordinator_id(asked.transactional_id) != self._broker.node_id:
            return None
        found = self._ask_here(asked)
        return None if isinstance(found, asyncio.Future) else _codes_of(found)

    async def ask(self, asked: AddPartitionsToTxnTransaction) -> Codes:
        """Adding is tried again for a while if the transaction before is just being ended."""
        clock = self._broker.clock
        deadline_ms = clock() + self._patience_ms
        pause_ms = FIRST_PAUSE_MS
        while True:
            codes = await self._ask(asked)
            is_early = ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()
            if asked.verify_only or not is_early or clock() + pause_ms > deadline_ms:
                return codes
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, self._pause_ms_max)

    async def _ask(self, asked: AddPartitionsToTxnTransaction) -> Codes:
        node_id = self._coordinator_id(asked.transactional_id)
        if node_id is None or node_id < 0:
            return _all(asked, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if node_id == self._broker.node_id:
            found = self._ask_here(asked)
            return _codes_of(await found if isinstance(found, asyncio.Future) else found)
        return await self._ask_there(node_id, asked)

    def _ask_there(self, node_id: int, asked: AddPartitionsToTxnTransaction) -> asyncio.Future[Codes]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Codes] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._send)
        self._waiting.setdefault(node_id, []).append((asked, answer))
        return answer

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, {}
        loop = asyncio.get_running_loop()
        for node_id, questions in waiting.items():
            if self._closed:
                for asked, answer in questions:
                    answer.set_result(_all(asked, ErrorCode.NETWORK_EXCEPTION))
                continue
            for part in _requests_of(questions):
                call = loop.create_task(self._call(node_id, part), name="txn-verification")
                self._calls[call] = None
                call.add_done_callback(self._calls.__delitem__)

    async def _call(self, node_id: int, questions: dict[str, Question]) -> None:
        request = AddPartitionsToTxnRequest(transactions=[asked for asked, _ in questions.values()])
        codes: dict[str, Codes] = {}
        failure = ErrorCode.NETWORK_EXCEPTION
        try:
            answer = await self._links.call(node_id, request, AddPartitionsToTxnResponse, ANSWER_WITHIN_MS)
            if answer.error_code:
                failure = ErrorCode(answer.error_code)
            codes = {each.transactional_id: _codes_of(each) for each in answer.results_by_transaction}
        except PeerLost:
            pass  # told below, as is what an answer leaves out
        finally:
            for name, (asked, waiter) in questions.items():
                if not waiter.done():
                    waiter.set_result({**_all(asked, failure), **codes.get(name, {})})

    def _coordinator_id(self, transactional_id: str) -> int | None:
        coordinator = self._broker.transactions
        index = coordinator.index_of(transactional_id)
        topic = self._broker.image.topics_by_name.get(coordinator.TOPIC)
        state = None if topic is None or index is None else topic.partitions.get(index)
        return None if state is None else state.leader

    def _ask_here(self, asked: AddPartitionsToTxnTransaction) -> Any:
        from ottla.broker.coordinators.add_partitions import add_partitions

        return add_partitions(self._broker.transactions, self._broker.metadata, asked, VERSION_OF_BROKERS)


def question(
    transactional_id: str, producer_id: int, producer_epoch: int, partitions: list[TopicPartition], adds: bool
) -> AddPartitionsToTxnTransaction:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        verify_only=not adds,
        topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
    )


def _requests_of(questions: list[Question]) -> list[dict[str, Question]]:
    """Each with so many at most, and with no transactional id twice: it is what answers are told by."""
    requests: list[dict[str, Question]] = [{}]
    for asked, waiter in questions:
        if len(requests[-1]) >= TRANSACTIONS_MAX or asked.transactional_id in requests[-1]:
            requests.append({})
        requests[-1][asked.transactional_id] = (asked, waiter)
    return requests


def _all(asked: AddPartitionsToTxnTransaction, code: ErrorCode) -> Codes:
    return {(topic.name, index): code for topic in asked.topics for index in topic.partitions}


def _codes_of(*results: AddPartitionsToTxnResult) -> Codes:
    return {
        (topic.name, partition.partition_index): ErrorCode(partition.partition_error_code)
        for result in results
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
