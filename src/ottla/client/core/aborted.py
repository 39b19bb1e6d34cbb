"""Which batches of a log belong to aborted transactions."""

from __future__ import annotations

from ottla.protocol.messages.fetch_response import PartitionData
from ottla.records.batch import BatchHeader, Buffer
from ottla.records.control import ABORT, parse_control_key
from ottla.records.record import iter_records


class AbortedTransactions:
    """Which batches belong to transactions that were aborted, followed in the order of the log."""

    def __init__(self) -> None:
        self._pending: list[tuple[int, int]] = []
        self._aborted: dict[int, bool] = {}

    def update(self, row: PartitionData) -> None:
        """Take over the list of a response, which covers all records of the response."""
        rows = [(item.first_offset, item.producer_id) for item in row.aborted_transactions or ()]
        self._pending = sorted(rows, reverse=True)

    def hides(self, data: Buffer, position: int, header: BatchHeader) -> bool:
        """Whether readers of committed records must not see the batch."""
        while self._pending and self._pending[-1][0] <= header.last_offset:
            self._aborted[self._pending.pop()[1]] = True
        if header.is_control:
            for record in iter_records(data, position, header):
                if parse_control_key(record.key)[1] == ABORT:
                    self._aborted.pop(header.producer_id, None)
            return True
        return header.is_transactional and header.producer_id in self._aborted
