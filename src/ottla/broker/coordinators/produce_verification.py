"""Verifies the first batches of transactions in a produce request with their coordinator.

The rest of the request waits with them, and so do the connection's next requests: they may hold the next
batches of the same producer.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING

from ottla.broker.coordinators.verification import Codes, Verification, transaction_partitions
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest
from ottla.protocol.versions import (
    PRODUCE_ADDS_PARTITIONS_SINCE,
    PRODUCE_TOPIC_IDS_SINCE,
    PRODUCE_TRANSACTION_ABORTABLE_SINCE,
)
from ottla.records.batch import ATTRIBUTES_POS, HEADER_BYTES, PRODUCER_ID_POS, TRANSACTIONAL_BIT
from ottla.transactions.partition import VerificationGuard, is_past, needs_verification, refusal_of_write

if TYPE_CHECKING:
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.replicas.partition_table import PartitionTable
    from ottla.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnTransaction

GUARDS_MANY = 1000
GUARD_EXPIRATION_MS = 600_000
_producer = Struct(">qhi").unpack_from


def is_transactional(records: memoryview | bytes | bytearray) -> bool:
    return len(records) >= HEADER_BYTES and bool(records[ATTRIBUTES_POS + 1] & TRANSACTIONAL_BIT)


def start_verification(
    partition: Partition, producer_id: int, producer_epoch: int, sequence: int, now_ms: int, *, adds: bool
) -> VerificationGuard | None:
    """Return None if the producer has written with a later epoch."""
    guards = partition.guards_of_first_writes()
    if len(guards) >= GUARDS_MANY:
        guards.expire(now_ms, GUARD_EXPIRATION_MS)
    return guards.take(producer_id, producer_epoch, sequence, now_ms, adds=adds)


class _FirstWrite:
    __slots__ = ("guard", "partition", "sequence")

    def __init__(self, partition: Partition, guard: VerificationGuard | None, sequence: int) -> None:
        self.partition = partition
        self.guard = guard
        self.sequence = sequence


class ProduceVerification:
    """The first writes of one request, by topic and partition."""

    def __init__(
        self,
        message: ProduceRequest,
        version: int,
        *,
        partitions: PartitionTable,
        verification: Verification,
        monotonic_ms: Callable[[], int],
    ) -> None:
        self._verification = verification
        self._message = message
        self._adds = version >= PRODUCE_ADDS_PARTITIONS_SINCE
        self._by_id = version >= PRODUCE_TOPIC_IDS_SINCE
        self._knows_abortable = version >= PRODUCE_TRANSACTION_ABORTABLE_SINCE
        self._found: dict[tuple[str, int], _FirstWrite] = {}
        self._codes: Codes = {}
        now_ms = monotonic_ms()
        for topic in message.topic_data:
            for data in topic.partition_data:
                if self._by_id:
                    partition = partitions.by_id(topic.topic_id, data.index)
                else:
                    partition = partitions.by_name(topic.name, data.index)
                if partition is not None and partition.is_leader:
                    self._look(partition, data, now_ms)

    def __bool__(self) -> bool:
        """Whether there is something to verify."""
        return bool(self._found) and self._verification.is_wanted(self._adds)

    def _look(self, partition: Partition, data: PartitionProduceData, now_ms: int) -> None:
        records = data.records
        if records is None or not is_transactional(records):
            return
        producer_id, producer_epoch, sequence = _producer(records, PRODUCER_ID_POS)
        entry = partition.log.producer_state.entries.get(producer_id)
        if not needs_verification(entry, producer_epoch) or is_past(entry, producer_epoch, sequence):
            return
        if entry is not None and producer_epoch < entry.producer_epoch:
            return
        guard = start_verification(partition, producer_id, producer_epoch, sequence, now_ms, adds=self._adds)
        self._found[partition.topic, partition.index] = _FirstWrite(partition, guard, sequence)

    # -- with the coordinator

    def known_now(self) -> bool:
        """Verify what needs no waiting; return whether that was all."""
        for transaction in self._transactions():
            codes = self._verification.known_now(transaction)
            if codes is None:
                return False
            self._codes.update(codes)
        return True

    async def verify(self) -> None:
        """Wait for the coordinator. The records are copied first: the connection reuses its buffer."""
        for topic in self._message.topic_data:
            for data in topic.partition_data:
                if data.records is not None:
                    data.records = memoryview(bytearray(data.records))
        for transaction in self._transactions():
            self._codes.update(await self._verification.verify(transaction))

    def _transactions(self) -> list[AddPartitionsToTxnTransaction]:
        """One verification per producer; ordinary requests have one producer."""
        producers: dict[tuple[int, int], list[tuple[str, int]]] = {}
        for topic_partition, write in self._found.items():
            if write.guard is not None:
                producer = (write.guard.producer_id, write.guard.producer_epoch)
                producers.setdefault(producer, []).append(topic_partition)
        transactional_id = self._message.transactional_id
        assert transactional_id is not None
        return [
            transaction_partitions(transactional_id, *producer, partitions, self._adds)
            for producer, partitions in producers.items()
        ]

    # -- around the append

    def refusal(self, partition: Partition, records: memoryview) -> ErrorCode:
        """Return the error if this transactional batch must not be appended."""
        producer_id, producer_epoch, sequence = _producer(records, PRODUCER_ID_POS)
        entry = partition.log.producer_state.entries.get(producer_id)
        if entry is not None and producer_epoch < entry.producer_epoch:
            return ErrorCode.NONE  # refused by its epoch
        if is_past(entry, producer_epoch, sequence):
            return ErrorCode.NONE  # a duplicate, or refused by its sequence
        write = self._found.get((partition.topic, partition.index))
        if write is None:
            # A marker was written while other batches of the request waited.
            return (
                ErrorCode.INVALID_TXN_STATE if needs_verification(entry, producer_epoch) else ErrorCode.NONE
            )
        if write.guard is None:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if write.partition is not partition or partition.verification_guards is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        code = self._codes.get((partition.topic, partition.index), ErrorCode.NONE)
        if code:
            partition.verification_guards.refused(write.guard, code)
            return refusal_of_write(code, adds=self._adds, knows_abortable=self._knows_abortable)
        return partition.verification_guards.check(write.guard, entry, sequence)

    def opened(self, partition: Partition, records: memoryview) -> None:
        if partition.verification_guards is not None and (partition.topic, partition.index) in self._found:
            partition.verification_guards.opened(_producer(records, PRODUCER_ID_POS)[0])
