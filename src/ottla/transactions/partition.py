"""The partition leader's side: which writes are verified first, and which markers are late.

The first batch of a transaction in a partition is written only after the coordinator has confirmed that the
partition belongs to the transaction. Otherwise it could arrive after the markers, open a transaction that no
coordinator knows, and block readers for ever, or become part of the next transaction. Until the coordinator
responds, the producer has a verification guard here. A marker removes it: the response is out of date then.

Guards are soft state of a leader. A new leader starts without any.
"""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode
from ottla.records.batch import SEQUENCE_MAX
from ottla.storage.producers.state import ProducerEntry
from ottla.transactions.transaction import VERSION_WITH_EPOCH_BUMP


def needs_verification(entry: ProducerEntry | None, producer_epoch: int) -> bool:
    """For a transactional batch. A transaction that is open under another epoch is not the batch's own."""
    return entry is None or not entry.is_in_transaction(producer_epoch)


def is_past(entry: ProducerEntry | None, producer_epoch: int, base_sequence: int) -> bool:
    """Whether the log is past the batch. Then it is a duplicate, or refused by its sequence: it is not
    written in any case, and must not block the next transaction."""
    if entry is None or not entry.batches or entry.producer_epoch != producer_epoch or base_sequence < 0:
        return False
    behind = (entry.next_sequence - base_sequence) & SEQUENCE_MAX
    return 0 < behind <= SEQUENCE_MAX // 2


class VerificationGuard:
    """`adds`: the coordinator is to add the partition, not only to verify that the client did."""

    __slots__ = ("adds", "first_sequence", "last_used_ms", "producer_epoch", "producer_id")

    def __init__(self, producer_id: int, producer_epoch: int, adds: bool, first_sequence: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.adds = adds
        self.first_sequence = first_sequence
        self.last_used_ms = 0


class VerificationGuards:
    """Those of one partition."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, VerificationGuard] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def take(
        self, producer_id: int, producer_epoch: int, base_sequence: int, now_ms: int, *, adds: bool
    ) -> VerificationGuard | None:
        """For a batch that needs one. None if a later epoch has come: the batch is fenced.

        Batches of one transaction share a guard. The first to be written must be the lowest of them: they
        were sent in order, but the coordinator's answers may come in another one.
        """
        guard = self._by_producer.get(producer_id)
        if guard is not None and guard.producer_epoch > producer_epoch:
            return None
        if guard is None or guard.producer_epoch != producer_epoch:
            guard = self._by_producer[producer_id] = VerificationGuard(
                producer_id, producer_epoch, adds, base_sequence
            )
        elif base_sequence < guard.first_sequence:
            guard.first_sequence = base_sequence
        guard.last_used_ms = now_ms
        return guard

    def check(self, guard: VerificationGuard, entry: ProducerEntry | None, base_sequence: int) -> ErrorCode:
        """The coordinator has agreed: return the error if the batch must not be appended after all."""
        if not needs_verification(entry, guard.producer_epoch):
            return ErrorCode.NONE  # another batch of the same transaction was first
        if self._by_producer.get(guard.producer_id) is not guard:
            return ErrorCode.INVALID_TXN_STATE
        if base_sequence > guard.first_sequence:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if guard.adds and entry is None and base_sequence > 0:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER  # something before it is lost
        return ErrorCode.NONE

    def refused(self, guard: VerificationGuard, code: ErrorCode) -> None:
        """Drop the guard if the coordinator does not know the producer with that epoch: it must not block
        others. After any other refusal it stays: a batch that was confirmed may share it."""
        is_unknown = code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if is_unknown and self._by_producer.get(guard.producer_id) is guard:
            del self._by_producer[guard.producer_id]

    def opened(self, producer_id: int) -> None:
        """Drop the guard: the first batch is in the log, and opens the transaction there."""
        self._by_producer.pop(producer_id, None)

    def ended(self, producer_id: int, producer_epoch: int) -> None:
        """A marker is in the log. If epochs change with every transaction, the marker of the previous
        transaction may arrive while the next is being verified: it has the epoch of the next."""
        guard = self._by_producer.get(producer_id)
        if guard is not None and not (guard.adds and producer_epoch <= guard.producer_epoch):
            del self._by_producer[producer_id]

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Drop guards whose batches were never retried."""
        old = [
            producer_id
            for producer_id, guard in self._by_producer.items()
            if now_ms - guard.last_used_ms >= expiration_ms
        ]
        for producer_id in old:
            del self._by_producer[producer_id]


def check_marker(
    entry: ProducerEntry | None, producer_epoch: int, coordinator_epoch: int, transaction_version: int
) -> ErrorCode:
    """May this marker be written?

    Where epochs change with every transaction, a marker has the epoch after that of its transaction. One with
    the epoch of an open transaction is late: it belongs to the previous one.
    """
    if entry is None:
        return ErrorCode.NONE
    if coordinator_epoch < entry.coordinator_epoch:
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED
    is_late = producer_epoch < entry.producer_epoch
    if transaction_version >= VERSION_WITH_EPOCH_BUMP and producer_epoch == entry.producer_epoch:
        is_late = entry.current_txn_first_offset >= 0
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_late else ErrorCode.NONE


_RETRIABLE_FOR_ALL = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def refusal_of_write(code: ErrorCode, *, adds: bool, knows_abortable: bool) -> ErrorCode:
    """Return the producer's error code when the coordinator did not agree, in a form that its version knows.

    `knows_abortable`: Produce 11 and TxnOffsetCommit 4 or later.
    """
    if code in _RETRIABLE_FOR_ALL or (code == ErrorCode.CONCURRENT_TRANSACTIONS and not adds):
        return ErrorCode.NOT_ENOUGH_REPLICAS  # every producer retries it
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code == ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
