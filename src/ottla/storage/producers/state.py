"""Producer state of a partition: the last five batches of each producer, and open transactions.

The rules for a batch with a producer id, in order:

    epoch lower than the known one           INVALID_PRODUCER_EPOCH
    same epoch and sequences as one of the
    last five batches                        a duplicate: the result is that of the original
    higher epoch, state exists             must begin with sequence 0, else OUT_OF_ORDER_SEQUENCE_NUMBER
    same epoch                               must follow the last sequence, else OUT_OF_ORDER_SEQUENCE_NUMBER
    no state (new, or expired)               any sequence; in a log that was always empty only 0
    base sequence -1 (coordinators)          only the epoch is checked
    no transaction bit, transaction open     INVALID_TXN_STATE

A transaction is open from its first batch to its marker. The last stable offset is the first offset of the
oldest transaction that is open, or whose marker is not yet below the high watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ottla.protocol.errors import ErrorCode
from ottla.records.batch import SEQUENCE_MAX, BatchHeader, RecordsError, increment_sequence
from ottla.storage.index.txn_index import AbortedTransaction

BATCHES_KEPT = 5
NO_OFFSET = -1


class KeptBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerEntry:
    __slots__ = (
        "batches",
        "complete",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_data_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.batches: list[KeptBatch] = []
        self.complete = True  # False: the log may contain earlier batches to keep
        self.coordinator_epoch = -1
        self.current_txn_first_offset = NO_OFFSET
        self.last_data_offset = NO_OFFSET  # in this epoch, including batches without a sequence
        self.last_timestamp = -1

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def next_sequence(self) -> int:
        last = self.last_sequence
        return 0 if last == SEQUENCE_MAX else last + 1

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def is_in_transaction(self, producer_epoch: int) -> bool:
        """Whether a transaction of this epoch is open."""
        return self.current_txn_first_offset >= 0 and self.producer_epoch == producer_epoch

    def duplicate_of(self, header: BatchHeader) -> KeptBatch | None:
        if header.producer_epoch != self.producer_epoch:
            return None
        first, last = header.base_sequence, header.last_sequence
        for batch in self.batches:
            if batch[0] == first and batch[1] == last:
                return batch
        return None

    def take_epoch(self, producer_epoch: int) -> None:
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()
            self.last_data_offset = NO_OFFSET
            self.complete = True

    def keep(self, batch: KeptBatch) -> None:
        if len(self.batches) == BATCHES_KEPT:
            del self.batches[0]
        self.batches.append(batch)
        self.last_timestamp = batch.timestamp


class ProducerState:
    """The state after every batch below `map_end_offset`."""

    __slots__ = ("_ongoing", "_unreplicated", "entries", "last_change_offset", "map_end_offset", "recall")

    def __init__(self, map_end_offset: int = 0) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        # Open transactions: first offset -> producer id. Inserted in offset order: the first is the oldest.
        self._ongoing: dict[int, int] = {}
        # Ended transactions whose marker the high watermark has not passed: first offset -> marker offset.
        self._unreplicated: dict[int, int] = {}
        self.map_end_offset = map_end_offset
        # The last batch of a producer or marker that was applied, or what a snapshot may contain.
        self.last_change_offset = map_end_offset - 1
        # Completes an entry that was loaded from a snapshot.
        self.recall: Callable[[ProducerEntry], None] | None = None

    # -- before the append -----------------------------------------------------------------------------------

    def check(self, header: BatchHeader) -> KeptBatch | None:
        """Check a produced batch: return the original if it is a duplicate, None if it can be appended.

        Raises RecordsError if it must be rejected.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            if header.base_sequence > 0 and self.map_end_offset == 0:
                self._refuse_to_begin(header)
            return None
        if header.producer_epoch < entry.producer_epoch:
            raise RecordsError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {header.producer_epoch}, "
                f"but epoch {entry.producer_epoch} was seen",
            )
        if header.base_sequence >= 0:
            duplicate = entry.duplicate_of(header)
            if duplicate is None and not entry.complete:
                duplicate = self._recalled(entry, header)
            if duplicate is not None:
                return duplicate
            _check_sequence(entry, header.producer_epoch, header.base_sequence)
        if entry.current_txn_first_offset >= 0 and not header.is_transactional:
            raise RecordsError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} sent a non-transactional batch while its transaction is open",
            )
        return None

    def _refuse_to_begin(self, header: BatchHeader) -> None:
        """Reject a first batch with a sequence other than 0.

        The partition may have rejected the batches before it because it had no leader yet. If this one were
        accepted, their retries would be out of order for ever, and lost (KAFKA-15591).
        """
        raise RecordsError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} starts with sequence {header.base_sequence} "
            "in an empty log; expected 0",
        )

    def _recalled(self, entry: ProducerEntry, header: BatchHeader) -> KeptBatch | None:
        """Look for the original of an out-of-order batch that the snapshot does not contain."""
        if self.recall is None or header.base_sequence == entry.next_sequence:
            return None
        self.recall(entry)
        return entry.duplicate_of(header)

    def check_marker(self, producer_id: int, producer_epoch: int, coordinator_epoch: int) -> None:
        """Reject a transaction marker of a fenced producer or coordinator."""
        entry = self.entries.get(producer_id)
        if entry is None:
            return
        if producer_epoch < entry.producer_epoch:
            raise RecordsError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"marker for producer {producer_id} has epoch {producer_epoch} < {entry.producer_epoch}",
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise RecordsError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {coordinator_epoch} < {entry.coordinator_epoch}",
            )

    # -- after the append, and in recovery -------------------------------------------------------------------

    def update(self, header: BatchHeader, first_offset: int) -> None:
        """Apply a data batch that was appended at `first_offset`."""
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id, header.producer_epoch)
        else:
            entry.take_epoch(header.producer_epoch)
        last_offset = entry.last_data_offset = first_offset + header.last_offset_delta
        sequence = header.base_sequence
        if sequence >= 0:
            last_sequence = increment_sequence(sequence, header.last_offset_delta)
            entry.keep(KeptBatch(sequence, last_sequence, first_offset, last_offset, header.max_timestamp))
        else:
            entry.last_timestamp = header.max_timestamp
        if header.is_transactional and entry.current_txn_first_offset < 0:
            entry.current_txn_first_offset = first_offset
            self._ongoing[first_offset] = producer_id
        self.last_change_offset = last_offset
        self.map_end_offset = last_offset + 1

    def end_transaction(
        self, header: BatchHeader, offset: int, coordinator_epoch: int, *, aborted: bool
    ) -> CompletedTransaction | None:
        """Apply a marker at `offset`; return the transaction it ended, None if that had no data."""
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id, header.producer_epoch)
        else:
            entry.take_epoch(max(header.producer_epoch, entry.producer_epoch))
        entry.coordinator_epoch = max(entry.coordinator_epoch, coordinator_epoch)
        entry.last_timestamp = header.max_timestamp
        first_offset = entry.current_txn_first_offset
        entry.current_txn_first_offset = NO_OFFSET
        self.last_change_offset = offset
        self.map_end_offset = offset + 1
        if first_offset < 0:
            return None
        del self._ongoing[first_offset]
        self._unreplicated[first_offset] = offset
        return CompletedTransaction(producer_id, first_offset, offset, aborted)

    def aborted_entry(self, completed: CompletedTransaction) -> AbortedTransaction:
        """Return the entry for the transaction index, with the current last stable offset."""
        stable = next(iter(self._ongoing), completed.last_offset + 1)
        return AbortedTransaction(
            completed.producer_id, completed.first_offset, completed.last_offset, stable
        )

    # -- last stable offset ----------------------------------------------------------------------------------

    def committed(self, high_watermark: int) -> None:
        """Forget completed transactions whose marker is below the high watermark.

        Call it whenever the high watermark moves, or their number grows.
        """
        unreplicated = self._unreplicated
        if not unreplicated:
            return
        if unreplicated[next(reversed(unreplicated))] < high_watermark:
            unreplicated.clear()
            return
        passed = [first for first, marker in unreplicated.items() if marker < high_watermark]
        for first in passed:
            del unreplicated[first]

    def last_stable_offset(self, high_watermark: int) -> int:
        self.committed(high_watermark)
        stable = high_watermark
        if self._ongoing:
            stable = min(stable, next(iter(self._ongoing)))
        if self._unreplicated:
            stable = min(stable, *self._unreplicated)
        return stable

    def ongoing(self) -> Iterator[ProducerEntry]:
        for producer_id in self._ongoing.values():
            yield self.entries[producer_id]

    # -- upkeep ----------------------------------------------------------------------------------------------

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that were idle for `expiration_ms` and have no open transaction; return their
        number."""
        old = [
            entry.producer_id
            for entry in self.entries.values()
            if entry.current_txn_first_offset < 0 and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in old:
            del self.entries[producer_id]
        return len(old)

    def load(self, entries: Iterable[ProducerEntry], map_end_offset: int) -> None:
        """Replace the state by the content of a snapshot."""
        self.entries = {entry.producer_id: entry for entry in entries}
        open_offsets = sorted(
            (entry.current_txn_first_offset, entry.producer_id)
            for entry in self.entries.values()
            if entry.current_txn_first_offset >= 0
        )
        self._ongoing = dict(open_offsets)
        self._unreplicated = {}
        self.map_end_offset = map_end_offset
        self.last_change_offset = map_end_offset - 1


def _check_sequence(entry: ProducerEntry, producer_epoch: int, base_sequence: int) -> None:
    expected = 0 if producer_epoch != entry.producer_epoch else entry.next_sequence
    if base_sequence != expected:
        raise RecordsError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {entry.producer_id} epoch {producer_epoch}: "
            f"sequence {base_sequence} received, {expected} expected",
        )
