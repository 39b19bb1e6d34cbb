"""State that the parts of a transaction shard share: transactions, settings and deadlines."""

from __future__ import annotations

from ottla.machines.outcome import Outcome
from ottla.protocol.message import Message
from ottla.protocol.messages.transaction_log_key import TransactionLogKey
from ottla.protocol.messages.transaction_log_value import TransactionLogValue
from ottla.transactions.config import TransactionsConfig
from ottla.transactions.deadlines import Deadlines
from ottla.transactions.markers import Markers
from ottla.transactions.transaction import (
    DEAD,
    ONGOING,
    PREPARE_COMMIT,
    PREPARED,
    Transaction,
)


class ShardContext:
    """`transactions` is changed by `apply` alone."""

    __slots__ = ("config", "coordinator_epoch", "deadlines", "transactions")

    def __init__(self, config: TransactionsConfig, coordinator_epoch: int) -> None:
        self.config = config
        self.coordinator_epoch = coordinator_epoch
        self.deadlines = Deadlines()
        self.transactions: dict[str, Transaction] = {}

    def apply(self, key: Message, value: Message | None) -> None:
        assert isinstance(key, TransactionLogKey)
        if value is None:
            self.transactions.pop(key.transactional_id, None)
            return
        assert isinstance(value, TransactionLogValue)
        transaction = Transaction.of(key.transactional_id, value)
        if transaction.state == DEAD:
            self.transactions.pop(key.transactional_id, None)
        else:
            self.transactions[key.transactional_id] = transaction

    def write(self, outcome: Outcome, changed: Transaction, now_ms: int) -> Transaction:
        """Add a record to the outcome and apply it at once: later decisions build on it."""
        changed.last_update_ms = now_ms
        key, value = changed.key(), changed.value()
        outcome.records.append((key, value))
        self.apply(key, value)
        written = self.transactions[changed.transactional_id]
        self.watch(written)
        if written.state in PREPARED:
            assert written.partitions, "nothing to mark"
            outcome.effects.append(self.markers_of(written))
        return written

    def remove(self, outcome: Outcome, transactional_id: str) -> None:
        key = TransactionLogKey(transactional_id=transactional_id)
        outcome.records.append((key, None))
        self.apply(key, None)

    def watch(self, transaction: Transaction) -> None:
        if transaction.state == ONGOING:
            deadline_ms = transaction.deadline_ms
            if deadline_ms is not None:
                self.deadlines.set(transaction.transactional_id, deadline_ms)

    def markers_of(self, transaction: Transaction) -> Markers:
        assert transaction.state in PREPARED
        return Markers(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            committed=transaction.state == PREPARE_COMMIT,
            coordinator_epoch=self.coordinator_epoch,
            transaction_version=transaction.client_version,
            partitions=[*transaction.partitions],
        )
