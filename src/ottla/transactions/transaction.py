"""One transactional id: what its last record in the log says, and what follows from that.

Two pairs of producer id and epoch are in play. `producer_id` and `producer_epoch` are those of the
transaction: its batches and markers carry them. The client's pair is the same, except
- while a prepared transaction is kept for a new instance of the client (two-phase commit): that instance has
  the next pair, with which it may end the transaction but not write into it;
- while the markers of a transaction are written whose end exhausted the epochs: the client continues with the
  next producer id.
"""

from __future__ import annotations

from typing import TypeAlias

from ottla.protocol.errors import DecodeError, ErrorCode
from ottla.protocol.messages.transaction_log_key import TransactionLogKey
from ottla.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from ottla.transactions.config import NO_TIMEOUT_MS
from ottla.transactions.markers import TopicPartition

EMPTY = 0
ONGOING = 1
PREPARE_COMMIT = 2
PREPARE_ABORT = 3
COMPLETE_COMMIT = 4
COMPLETE_ABORT = 5
DEAD = 6
STATE_NAMES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead")
# A name that clients may filter by. It is never written: fencing is one step here.
PREPARE_EPOCH_FENCE_NAME = "PrepareEpochFence"
PREPARED = (PREPARE_COMMIT, PREPARE_ABORT)
COMPLETED = (COMPLETE_COMMIT, COMPLETE_ABORT)
AT_REST = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)

NO_ID = -1
NO_EPOCH = -1
NO_TIME = -1
# The start time of an empty transaction whose epoch was given to a client that named the previous epoch: the
# same request gets the same response. Other brokers write NO_TIME there, or ignore it.
RESUMED_TIME = -2
EPOCH_MAX = (1 << 15) - 1
# The last epoch that a client may have. The one above it is kept for fencing.
CLIENT_EPOCH_MAX = EPOCH_MAX - 1
# From this version on every end of a transaction gives the client a new epoch.
VERSION_WITH_EPOCH_BUMP = 2
# Written with an abort that the client did not request: its epoch must not pass for the answer to a retry.
VERSION_OF_FENCE = 1

ProducerPair: TypeAlias = tuple[int, int]


class Transaction:
    __slots__ = (
        "client_version",
        "last_update_ms",
        "next_producer_epoch",
        "next_producer_id",
        "partitions",
        "previous_producer_id",
        "producer_epoch",
        "producer_id",
        "start_ms",
        "state",
        "timeout_ms",
        "transactional_id",
    )

    def __init__(self, transactional_id: str, producer_id: int, producer_epoch: int, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.previous_producer_id = NO_ID
        self.next_producer_id = NO_ID
        self.next_producer_epoch = NO_EPOCH
        self.timeout_ms = timeout_ms
        self.state = EMPTY
        self.partitions: dict[TopicPartition, None] = {}
        self.last_update_ms = NO_TIME
        self.start_ms = NO_TIME
        self.client_version = 0

    def __repr__(self) -> str:
        return (
            f"Transaction({self.transactional_id!r}, {STATE_NAMES[self.state]}, producer {self.producer_id} "
            f"epoch {self.producer_epoch}, {len(self.partitions)} partitions)"
        )

    # Records.

    @classmethod
    def of(cls, transactional_id: str, value: TransactionLogValue) -> Transaction:
        """Raises DecodeError for a state that is never written."""
        if not 0 <= value.transaction_status <= DEAD:
            raise DecodeError(f"{transactional_id!r} in state {value.transaction_status}")
        found = cls(transactional_id, value.producer_id, value.producer_epoch, value.transaction_timeout_ms)
        found.previous_producer_id = value.previous_producer_id
        found.next_producer_id = value.next_producer_id
        found.next_producer_epoch = value.next_producer_epoch
        found.state = value.transaction_status
        found.partitions = {
            (topic.topic, partition): None
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        }
        found.last_update_ms = value.transaction_last_update_timestamp_ms
        found.start_ms = value.transaction_start_timestamp_ms
        found.client_version = value.client_transaction_version
        return found

    def key(self) -> TransactionLogKey:
        return TransactionLogKey(transactional_id=self.transactional_id)

    def value(self) -> TransactionLogValue:
        partitions = None
        if self.state != EMPTY:
            partitions = [
                PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in self.by_topic().items()
            ]
        return TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            producer_epoch=self.producer_epoch,
            next_producer_epoch=self.next_producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state,
            transaction_partitions=partitions,
            transaction_last_update_timestamp_ms=self.last_update_ms,
            transaction_start_timestamp_ms=self.start_ms,
            client_transaction_version=self.client_version,
        )

    def copy(self) -> Transaction:
        """To be changed and written; the partitions are shared until they are replaced."""
        found = Transaction.__new__(Transaction)
        for name in Transaction.__slots__:
            setattr(found, name, getattr(self, name))
        return found

    def by_topic(self) -> dict[str, list[int]]:
        topics: dict[str, list[int]] = {}
        for topic, partition in self.partitions:
            topics.setdefault(topic, []).append(partition)
        return topics

    # What follows.

    @property
    def client(self) -> ProducerPair:
        """The producer id and epoch that the client must send."""
        if self.next_producer_epoch >= 0:
            return self.next_producer_id, self.next_producer_epoch
        if self.next_producer_id >= 0:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch

    @property
    def client_before(self) -> ProducerPair | None:
        """The client's previous pair, if no other client may have had it.

        A client that sends it has missed our response. None if another client may have it: then it is fenced.
        """
        if self.state == EMPTY:
            if self.start_ms != RESUMED_TIME:
                return None
        elif self.state == ONGOING or self.client_version < VERSION_WITH_EPOCH_BUMP:
            return None
        producer_id, producer_epoch = self.client
        if producer_epoch > 0:
            return producer_id, producer_epoch - 1
        return None if self.previous_producer_id < 0 else (self.previous_producer_id, CLIENT_EPOCH_MAX)

    def refuses(self, producer_id: int, producer_epoch: int) -> ErrorCode | None:
        """Return why a client with this pair is refused; None if it is the current one.

        Epochs above those of clients exist after fencing. No client has them.
        """
        client_id, client_epoch = self.client
        if producer_id != client_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if producer_epoch != client_epoch or producer_epoch > CLIENT_EPOCH_MAX:
            return ErrorCode.PRODUCER_FENCED
        return None

    @property
    def is_kept(self) -> bool:
        """An ongoing transaction that its client has prepared: nothing more may be written into it."""
        return self.state == ONGOING and self.next_producer_epoch >= 0

    @property
    def is_running(self) -> bool:
        return self.state in (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)

    @property
    def deadline_ms(self) -> int | None:
        """When it is to be aborted; None for one that only its client may end."""
        if self.state != ONGOING or self.timeout_ms == NO_TIMEOUT_MS:
            return None
        return self.start_ms + self.timeout_ms
