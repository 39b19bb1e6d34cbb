"""Replay of a coordinator's log into its machine."""

from __future__ import annotations

import gc
import logging
from typing import TYPE_CHECKING, Protocol

from ottla.records import faults, kernel
from ottla.records.batch import CorruptBatch, iter_headers
from ottla.records.record import iter_records, records_section

if TYPE_CHECKING:
    from ottla.records.batch import BatchHeader
    from ottla.storage.log import PartitionLog

log = logging.getLogger("ottla.coordinators")

# Bytes replayed per step: one or two milliseconds of small records. Larger steps do not load faster, and
# delay other work of the event loop.
STEP_BYTES = 64 * 1024
LOGGED_FAILURES_MAX = 10


class Replayed(Protocol):
    """A machine that can be rebuilt from its log."""

    def apply_bytes(
        self, key: bytes, value: bytes | None, timestamp_ms: int, producer_id: int = -1
    ) -> None: ...

    def apply_marker(self, producer_id: int, committed: bool) -> None: ...


class Replay:
    """Reads a log from start to end, one step at a time."""

    __slots__ = ("_log", "_machine", "_skipped", "offset", "records")

    def __init__(self, partition_log: PartitionLog, machine: Replayed) -> None:
        self._log = partition_log
        self._machine = machine
        self._skipped = 0
        self.offset = partition_log.log_start_offset
        self.records = 0

    def step(self) -> bool:
        """Apply the next batches; False when the end is reached. Raises StorageError and CorruptBatch."""
        if self.offset >= self._log.log_end_offset:
            return False
        data = self._log.read(self.offset, STEP_BYTES).read()
        if not data:
            return False  # the records at the end have been compacted away
        # Millions of objects are created here and none is garbage: collections would only take time.
        collects = gc.isenabled()
        gc.disable()
        try:
            for position, header in iter_headers(data):
                if header.last_offset >= self.offset:
                    self._apply(data, position, header)
                    self.offset = header.next_offset
        finally:
            if collects:
                gc.enable()
        return True

    def _apply(self, data: bytes, position: int, header: BatchHeader) -> None:
        if header.is_control:
            self._apply_control(data, position, header)
            return
        plain, start, end = records_section(data, position, header)
        appended_ms = header.max_timestamp if header.is_log_append_time else None
        reason, index, records = kernel.split(
            plain, start, end, header.records_count, header.base_offset, header.base_timestamp, appended_ms
        )
        if reason:
            raise CorruptBatch(
                f"record {index} of the batch at offset {header.base_offset}: {faults.TEXTS[reason]}"
            )
        apply_bytes = self._machine.apply_bytes
        producer_id = header.producer_id if header.is_transactional else -1
        for offset, timestamp_ms, key, value, _ in records:
            if offset < self.offset:
                continue
            try:
                if key is None:
                    raise ValueError("record without a key")
                apply_bytes(key, value, timestamp_ms, producer_id)
            except Exception as error:
                # A record that cannot be decoded must not make the others unusable.
                self._skip(offset, error)
        self.records += len(records)

    def _apply_control(self, data: bytes, position: int, header: BatchHeader) -> None:
        from ottla.records.control import ABORT, COMMIT, parse_control_key

        for record in iter_records(data, position, header):
            _, control_type = parse_control_key(record.key)
            if control_type in (ABORT, COMMIT):
                self._machine.apply_marker(header.producer_id, control_type == COMMIT)

    def _skip(self, offset: int, error: Exception) -> None:
        self._skipped += 1
        if self._skipped <= LOGGED_FAILURES_MAX:
            name = f"{self._log.topic}-{self._log.partition}"
            log.error("record passed over: partition=%s offset=%d error=%r", name, offset, error)
