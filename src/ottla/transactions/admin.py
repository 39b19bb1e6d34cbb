"""DescribeTransactions and ListTransactions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_transactions_response import TopicData
from ottla.protocol.messages.describe_transactions_response import TransactionState as DescribedTransaction
from ottla.protocol.messages.list_transactions_response import TransactionState as ListedTransaction
from ottla.transactions.context import ShardContext
from ottla.transactions.transaction import PREPARE_EPOCH_FENCE_NAME, STATE_NAMES, Transaction

_KNOWN_NAMES = (*STATE_NAMES, PREPARE_EPOCH_FENCE_NAME)


def unknown_states(names: Sequence[str]) -> list[str]:
    """Return the unknown states of a ListTransactions, which the response names."""
    return [name for name in names if name not in _KNOWN_NAMES]


def describe(context: ShardContext, transactional_id: str) -> DescribedTransaction:
    if not transactional_id:
        return DescribedTransaction(transactional_id=transactional_id, error_code=ErrorCode.INVALID_REQUEST)
    transaction = context.transactions.get(transactional_id)
    if transaction is None:
        return DescribedTransaction(
            transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        )
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=STATE_NAMES[transaction.state],
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=max(transaction.start_ms, -1),
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=partitions)
            for topic, partitions in transaction.by_topic().items()
        ],
    )


def listed(
    context: ShardContext,
    now_ms: int,
    states: Collection[str],
    producer_ids: Collection[int],
    longer_than_ms: int,
    matches: Callable[[str], bool] | None,
) -> list[ListedTransaction]:
    def is_wanted(transaction: Transaction) -> bool:
        if states and STATE_NAMES[transaction.state] not in states:
            return False
        if producer_ids and transaction.producer_id not in producer_ids:
            return False
        # As in Kafka, the time counts from the start also after the end; an id that has no start is listed.
        has_started = transaction.start_ms >= 0
        if longer_than_ms >= 0 and has_started and now_ms - transaction.start_ms <= longer_than_ms:
            return False
        return matches is None or matches(transaction.transactional_id)

    return [
        ListedTransaction(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            transaction_state=STATE_NAMES[transaction.state],
        )
        for transaction in context.transactions.values()
        if is_wanted(transaction)
    ]
