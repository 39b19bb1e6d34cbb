"""Readers under read_committed, which record last stable offsets, and readers of everything."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.protocol.messages.fetch_response import PartitionData
from ottla.records.batch import BatchHeader, crc_ok, iter_headers
from ottla.records.control import parse_control_key
from ottla.records.record import iter_records
from simulator.clients.consumers import Consumer
from simulator.history.operations import PartitionName
from simulator.history.transactions import ABORT, COMMIT, DATA, LogEntry, TxnLedger
from simulator.world import World

ABORT_TYPE = 0
READ_COMMITTED = 1


class TxnReader(Consumer):
    """Reads committed records of every partition from the beginning, until `stopping`."""

    isolation_level = READ_COMMITTED

    def __init__(self, world: World, name: str, ledger: TxnLedger) -> None:
        super().__init__(world, name, ledger.topic, ledger.partitions)
        self.ledger = ledger

    def _take(self, name: PartitionName, position: int, data: PartitionData) -> None:
        is_committed = self.isolation_level == READ_COMMITTED
        if is_committed:
            epoch = self.epochs.get(name.partition, -1)
            self.ledger.saw_stable(self.name, name, data.last_stable_offset, position, epoch)
        found, self.positions[name.partition] = self._visible(name, data, position)
        for offset, value in found:
            self.ledger.read(self.name, name, offset, value, committed=is_committed)

    def _visible(
        self, name: PartitionName, data: PartitionData, position: int
    ) -> tuple[list[tuple[int, str]], int]:
        batches = bytes(data.records or b"")
        aborted = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
        found: list[tuple[int, str]] = []
        skipped: dict[int, None] = {}
        for start, header in iter_headers(batches):
            if not crc_ok(batches, start, header):
                self.world.history.surprise(self.name, f"{name}@{header.base_offset} fails its checksum")
                break
            while aborted and aborted[0][0] <= header.last_offset:
                skipped[aborted.pop(0)[1]] = None
            if header.is_control:
                if _marker_kind(batches, start, header) == ABORT:
                    skipped.pop(header.producer_id, None)
            elif not (header.is_transactional and header.producer_id in skipped):
                found += [
                    (record.offset, bytes(record.value or b"").decode())
                    for record in iter_records(batches, start, header)
                    if record.offset >= position
                ]
            position = max(position, header.next_offset)
        return found, position

    def _is_end(self, data: PartitionData, position: int) -> bool:
        """The end is reached only if all transactions are decided."""
        return position >= data.high_watermark == data.last_stable_offset


class OpenReader(TxnReader):
    """Reads under read_uncommitted."""

    isolation_level = 0


class LogReader(Consumer):
    """Reads all batches of the log, markers included."""

    async def read_log(self, index: int) -> list[LogEntry]:
        found: list[LogEntry] = []
        position = 0
        while True:
            data = await self.fetch_with_retries(index, position)
            for entry, next_offset in log_entries(bytes(data.records or b"")):
                if entry.offset >= position:
                    found.append(entry)
                position = max(position, next_offset)
            if position >= data.high_watermark:
                return found


def log_entries(batches: bytes) -> Iterator[tuple[LogEntry, int]]:
    for start, header in iter_headers(batches):
        pair = (header.producer_id, header.producer_epoch)
        kind = DATA
        values: tuple[str, ...] = ()
        if header.is_control:
            kind = _marker_kind(batches, start, header)
        else:
            values = tuple(
                bytes(record.value or b"").decode() for record in iter_records(batches, start, header)
            )
        yield LogEntry(kind, header.base_offset, pair, values), header.next_offset


def _marker_kind(batches: bytes, start: int, header: BatchHeader) -> str:
    (record,) = iter_records(batches, start, header)
    key = None if record.key is None else bytes(record.key)
    return ABORT if parse_control_key(key)[1] == ABORT_TYPE else COMMIT
