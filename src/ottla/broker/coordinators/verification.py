"""A partition leader verifies with the transaction coordinator that a partition belongs to a transaction.

For clients of transaction protocol version 2 the leader adds the partition itself; for older ones it verifies
that the client has added it. If this broker is the coordinator, it is called directly. Verifications for
another broker from one iteration of the event loop share a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.net.peer import PeerLost
from ottla.machines.outcome import RequestContext
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
    from ottla.broker.background import BackgroundTasks
    from ottla.broker.coordinators.peer_pool import PeerPool
    from ottla.broker.coordinators.replies import Reply
    from ottla.broker.coordinators.transactions import TransactionCoordinator
    from ottla.broker.identity import NodeIdentity
    from ottla.config.load import BrokerConfig
    from ottla.config.topic_config import ConfigLayers

REQUEST_TIMEOUT_MS = 5000
FIRST_BACKOFF_MS = 1
# The version of AddPartitionsToTxn that brokers use among themselves.
INTER_BROKER_VERSION = 5
# Per request: its response waits for all of its transactions.
TRANSACTIONS_MAX = 50

TopicPartition = tuple[str, int]
Codes = dict[TopicPartition, ErrorCode]
_Waiting = tuple[AddPartitionsToTxnTransaction, "asyncio.Future[Codes]"]


class Verification:
    """One per broker; `peers` are its own, see PeerPool."""

    def __init__(
        self,
        config: BrokerConfig,
        layers: ConfigLayers,
        *,
        identity: NodeIdentity,
        transactions: TransactionCoordinator,
        peers: PeerPool,
        monotonic_ms: Callable[[], int],
        tasks: BackgroundTasks,
    ) -> None:
        self._layers = layers
        self._identity = identity
        self._transactions = transactions
        self._peers = peers
        self._monotonic_ms = monotonic_ms
        self._tasks = tasks
        self._backoff_ms_max = config.get_int("add.partitions.to.txn.retry.backoff.ms")
        self._retry_ms_max = config.get_int("add.partitions.to.txn.retry.backoff.max.ms")
        self._waiting: dict[int, list[_Waiting]] = {}
        self._calls: dict[asyncio.Task[None], None] = {}
        self._closed = False

    def close(self) -> None:
        self._closed = True
        for call in self._calls:
            call.cancel()
        self._peers.close()

    def is_wanted(self, adds: bool) -> bool:
        """Whether first writes are verified. A partition that the leader must add always is."""
        return adds or bool(self._layers.broker_value("transaction.partition.verification.enable"))

    def known_now(self, transaction: AddPartitionsToTxnTransaction) -> Codes | None:
        """Return the result if this broker is the coordinator and nothing has to be written."""
        if not transaction.verify_only:
            return None
        if self._transactions.shards.leader_of(transaction.transactional_id) != self._identity.node_id:
            return None
        found = self._verify_here(transaction)
        return None if isinstance(found, asyncio.Future) else _codes_of(found)

    async def verify(self, transaction: AddPartitionsToTxnTransaction) -> Codes:
        """Return an error code per partition. Adding is retried while the previous transaction is ending."""
        monotonic_ms = self._monotonic_ms
        deadline_ms = monotonic_ms() + self._retry_ms_max
        backoff_ms = FIRST_BACKOFF_MS
        while True:
            codes = await self._verify_once(transaction)
            is_early = ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()
            if transaction.verify_only or not is_early or monotonic_ms() + backoff_ms > deadline_ms:
                return codes
            await asyncio.sleep(backoff_ms / 1000)
            backoff_ms = min(2 * backoff_ms, self._backoff_ms_max)

    async def _verify_once(self, transaction: AddPartitionsToTxnTransaction) -> Codes:
        node_id = self._transactions.shards.leader_of(transaction.transactional_id)
        if node_id is None or node_id < 0:
            return _all(transaction, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if node_id == self._identity.node_id:
            found = self._verify_here(transaction)
            return _codes_of(await found if isinstance(found, asyncio.Future) else found)
        return await self._verify_there(node_id, transaction)

    def _verify_here(self, transaction: AddPartitionsToTxnTransaction) -> Reply[AddPartitionsToTxnResult]:
        return self._transactions.add_partitions(
            transaction, RequestContext(api_version=INTER_BROKER_VERSION)
        )

    def _verify_there(
        self, node_id: int, transaction: AddPartitionsToTxnTransaction
    ) -> asyncio.Future[Codes]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Codes] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._send)
        self._waiting.setdefault(node_id, []).append((transaction, answer))
        return answer

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for node_id, verifications in waiting.items():
            if self._closed:
                for transaction, answer in verifications:
                    answer.set_result(_all(transaction, ErrorCode.NETWORK_EXCEPTION))
                continue
            for part in _requests_of(verifications):
                call = self._tasks.run_once("txn-verification", self._call(node_id, part))
                self._calls[call] = None
                call.add_done_callback(self._calls.__delitem__)

    async def _call(self, node_id: int, verifications: dict[str, _Waiting]) -> None:
        request = AddPartitionsToTxnRequest(
            transactions=[transaction for transaction, _ in verifications.values()]
        )
        codes: dict[str, Codes] = {}
        failure = ErrorCode.NETWORK_EXCEPTION
        try:
            answer = await self._peers.call(node_id, request, AddPartitionsToTxnResponse, REQUEST_TIMEOUT_MS)
            if answer.error_code:
                failure = ErrorCode(answer.error_code)
            codes = {each.transactional_id: _codes_of(each) for each in answer.results_by_transaction}
        except PeerLost:
            pass  # reported below, like partitions that the response leaves out
        finally:
            for name, (transaction, waiter) in verifications.items():
                if not waiter.done():
                    waiter.set_result({**_all(transaction, failure), **codes.get(name, {})})


def transaction_partitions(
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


def _requests_of(verifications: list[_Waiting]) -> list[dict[str, _Waiting]]:
    """Split into requests of at most TRANSACTIONS_MAX, each with distinct transactional ids: results are
    matched by them."""
    requests: list[dict[str, _Waiting]] = [{}]
    for transaction, waiter in verifications:
        if len(requests[-1]) >= TRANSACTIONS_MAX or transaction.transactional_id in requests[-1]:
            requests.append({})
        requests[-1][transaction.transactional_id] = (transaction, waiter)
    return requests


def _all(transaction: AddPartitionsToTxnTransaction, code: ErrorCode) -> Codes:
    return {(topic.name, index): code for topic in transaction.topics for index in topic.partitions}


def _codes_of(*results: AddPartitionsToTxnResult) -> Codes:
    return {
        (topic.name, partition.partition_index): ErrorCode(partition.partition_error_code)
        for result in results
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
