"""Transactions as results of the client: plain values, no wire structures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.protocol.messages.describe_transactions_response import TransactionState

TopicPartition = tuple[str, int]

ONGOING = "Ongoing"
STATES = (
    "Empty",
    ONGOING,
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
# The time-out of transactions that only their client may end (two-phase commit).
NO_TIMEOUT_MS = 2**31 - 1


class TransactionListing(NamedTuple):
    """A transactional id in a list."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


class TransactionInfo(NamedTuple):
    """A transactional id; `started_ms` is -1 while no transaction is open."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int
    partitions: list[TopicPartition]
    coordinator: int

    @property
    def is_ongoing(self) -> bool:
        return self.state == ONGOING

    @property
    def has_timeout(self) -> bool:
        """Without one only its client ends it: it may be prepared for a two-phase commit."""
        return 0 <= self.timeout_ms < NO_TIMEOUT_MS


def info_of(row: TransactionState, coordinator: int) -> TransactionInfo:
    return TransactionInfo(
        row.transactional_id,
        row.transaction_state,
        row.producer_id,
        row.producer_epoch,
        row.transaction_timeout_ms,
        row.transaction_start_time_ms,
        sorted((topic.topic, number) for topic in row.topics for number in topic.partitions),
        coordinator,
    )


class ProducerState(NamedTuple):
    """The state of a producer in a partition; `txn_start_offset` is -1 without an open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    txn_start_offset: int


class HangingTransaction(NamedTuple):
    """A transaction that is open in a partition and that no coordinator will end.

    `transactional_id` is None if no transactional id has the producer id.
    """

    topic: str
    partition: int
    producer: ProducerState
    transactional_id: str | None
    idle_ms: int
