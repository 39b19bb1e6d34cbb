"""A replicated partition as the log of a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ottla.broker.hosting.machine_log import NotLeader, Producer
from ottla.records.build import build_batch

if TYPE_CHECKING:
    from ottla.broker.replicas.partition import Partition

# Upper bound of what surrounds the key and value of a record, and of the header of a batch.
RECORD_OVERHEAD_BYTES = 30
HEADER_BYTES = 61

Encode = Callable[[Any], tuple[bytes, "bytes | None"]]


class ShardLog:
    """A `MachineLog`; `codec` compresses what it appends."""

    __slots__ = ("_clock", "_codec", "_encode", "_partition")

    def __init__(self, partition: Partition, encode: Encode, clock: Callable[[], int], codec: int) -> None:
        self._partition = partition
        self._encode = encode
        self._clock = clock
        self._codec = codec

    @property
    def end_offset(self) -> int:
        return self._partition.log.log_end_offset

    @property
    def committed_offset(self) -> int:
        return self._partition.high_watermark

    @property
    def has_records(self) -> bool:
        log = self._partition.log
        return log.log_end_offset > log.log_start_offset

    def append(self, records: list[Any], producer: Producer | None) -> None:
        partition = self._partition
        if not partition.is_leader:
            raise NotLeader(f"{partition.topic}-{partition.index} is led by {partition.leader_id}")
        now_ms = self._clock()
        bytes_max = partition.rules.max_message_bytes
        batches = bytearray()
        for batch in build_batches(records, producer, self._encode, now_ms, bytes_max, self._codec):
            batches += batch
        partition.append_internal(batches, now_ms)  # all or none

    def append_marker(self, batch: bytearray) -> None:
        self._partition.append_internal(batch, self._clock())

    def when_committed(
        self, offset: int, committed: Callable[[], None], failed: Callable[[BaseException], None]
    ) -> None:
        self._partition.when_committed(offset, _CommitWaiter(committed, failed))


class _CommitWaiter:
    """The part of a future that a partition uses."""

    __slots__ = ("_committed", "_failed")

    def __init__(self, committed: Callable[[], None], failed: Callable[[BaseException], None]) -> None:
        self._committed = committed
        self._failed = failed

    def done(self) -> bool:
        return False

    def set_result(self, result: None, /) -> None:
        self._committed()

    def set_exception(self, error: BaseException, /) -> None:
        self._failed(error)


def build_batches(
    records: Iterable[Any],
    producer: Producer | None,
    encode: Encode,
    now_ms: int,
    bytes_max: int,
    codec: int = 0,
) -> Iterator[bytearray]:
    """Yield the records as batches of at most `bytes_max`; a larger record has a batch of its own."""
    rows: list[tuple[int, bytes, bytes | None, tuple[()]]] = []
    size = HEADER_BYTES
    for record in records:
        key, value = encode(record)
        nbytes = len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES
        if rows and size + nbytes > bytes_max:
            yield _batch(rows, producer, codec)
            rows, size = [], HEADER_BYTES
        rows.append((now_ms, key, value, ()))
        size += nbytes
    if rows:
        yield _batch(rows, producer, codec)


def _batch(rows: list[Any], producer: Producer | None, codec: int) -> bytearray:
    if producer is None:
        return build_batch(rows, codec=codec)
    return build_batch(
        rows, codec=codec, producer_id=producer[0], producer_epoch=producer[1], transactional=True
    )
