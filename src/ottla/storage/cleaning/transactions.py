"""The state of transactions during a scan from the start of a log.

Below the last stable offset every transaction has ended, and the transaction indexes list the aborted ones. A
marker is needed as long as a batch of its transaction is left.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.records.batch import BatchHeader
from ottla.storage.index.txn_index import AbortedTransaction
from ottla.storage.producers.markers import TxnMarker


class CleanedTransactions:
    __slots__ = ("_aborted", "_committed_seen", "_next", "_ongoing", "still_needed")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted = sorted(aborted, key=lambda entry: entry.first_offset)
        self._next = 0
        # Aborted transactions that have begun, by producer: index entry, and whether a batch was seen.
        self._ongoing: dict[int, tuple[AbortedTransaction, bool]] = {}
        # Producers with a batch in a transaction that was not aborted, so far.
        self._committed_seen: dict[int, None] = {}
        # Index entries of aborted transactions that still have batches, for the new index.
        self.still_needed: list[AbortedTransaction] = []

    def _advance(self, offset: int) -> None:
        while self._next < len(self._aborted) and self._aborted[self._next].first_offset <= offset:
            entry = self._aborted[self._next]
            earlier = self._ongoing.get(entry.producer_id)
            if earlier is None or earlier[0].last_offset < entry.first_offset:
                self._ongoing[entry.producer_id] = (entry, False)
            self._next += 1

    def is_aborted(self, header: BatchHeader) -> bool:
        """Record a data batch; return whether it belongs to an aborted transaction."""
        if not header.is_transactional:
            return False
        self._advance(header.last_offset)
        found = self._ongoing.get(header.producer_id)
        if (
            found is None or found[0].last_offset < header.base_offset
        ):  # a transaction whose marker was not read yet
            self._committed_seen[header.producer_id] = None
            return False
        self._ongoing[header.producer_id] = (found[0], True)
        return True

    def is_marker_of_nothing(self, header: BatchHeader, marker: TxnMarker | None) -> bool:
        """Record a control batch; return whether no batch of its transaction is left."""
        self._advance(header.last_offset)
        if marker is None:
            return not header.records_count  # emptied by an earlier cleaning; otherwise not a marker
        if not marker.aborted:
            seen = header.producer_id in self._committed_seen
            self._committed_seen.pop(header.producer_id, None)
            return not seen
        found = self._ongoing.pop(header.producer_id, None)
        if found is None or not found[1]:
            return True
        self.still_needed.append(found[0])
        return False

    def take_still_needed(self) -> list[AbortedTransaction]:
        taken, self.still_needed = self.still_needed, []
        return taken
