"""First batches of transactions in a produce request: they wait for the word of the coordinator.

Whatever else the request has waits with them, and so do the connection's next requests: those may be the
next batches of the same producer.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from ottla.broker.coordinators.verification import Codes, question
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest
from ottla.records.batch import ATTRIBUTES_POS, HEADER_BYTES, PRODUCER_ID_POS, TRANSACTIONAL_BIT
from ottla.transactions.partition import Ticket, is_past, needs_ticket, refusal_of_write

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.broker.replicas.partition import Partition
    from ottla.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnTransaction

FIRST_VERSION_THAT_ADDS = 12
FIRST_VERSION_WITH_ABORTABLE = 11
FIRST_VERSION_WITH_TOPIC_IDS = 13
TICKETS_MANY = 1000
TICKET_MS = 600_000
_producer = Struct(">qhi").unpack_from


def is_transactional(records: memoryview | bytes | bytearray) -> bool:
    return len(records) >= HEADER_BYTES and bool(records[ATTRIBUTES_POS + 1] & TRANSACTIONAL_BIT)


def take_ticket(
    partition: Partition, producer_id: int, producer_epoch: int, sequence: int, now_ms: int, *, adds: bool
) -> Ticket | None:
    """None: a later epoch has come."""
    tickets = partition.first_write_tickets()
    if len(tickets) >= TICKETS_MANY:
        tickets.expire(now_ms, TICKET_MS)
    return tickets.take(producer_id, producer_epoch, sequence, now_ms, adds=adds)


class _FirstWrite:
    __slots__ = ("partition", "sequence", "ticket")

    def __init__(self, partition: Partition, ticket: Ticket | None, sequence: int) -> None:
        self.partition = partition
        self.ticket = ticket
        self.sequence = sequence


class FirstWrites:
    """Those of one request, by topic and number of their partitions."""

    def __init__(self, broker: Node, version: int, message: ProduceRequest) -> None:
        self._broker = broker
        self._message = message
        self._adds = version >= FIRST_VERSION_THAT_ADDS
        self._by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
        self._knows_abortable = version >= FIRST_VERSION_WITH_ABORTABLE
        self._found: dict[tuple[str, int], _FirstWrite] = {}
        self._codes: Codes = {}
        now_ms = broker.clock()
        for topic in message.topic_data:
            for data in topic.partition_data:
                if self._by_id:
                    partition = broker.partitions.by_id(topic.topic_id, data.index)
                else:
                    partition = broker.partitions.by_name(topic.name, data.index)
                if partition is not None and partition.is_leader:
                    self._look(partition, data, now_ms)

    def __bool__(self) -> bool:
        """Is there something to ask the coordinator?"""
        return bool(self._found) and self._broker.verification.is_wanted(self._adds)

    def _look(self, partition: Partition, data: PartitionProduceData, now_ms: int) -> None:
        records = data.records
        if records is None or not is_transactional(records):
            return
        producer_id, producer_epoch, sequence = _producer(records, PRODUCER_ID_POS)
        entry = partition.log.producer_state.entries.get(producer_id)
        if not needs_ticket(entry, producer_epoch) or is_past(entry, producer_epoch, sequence):
            return
        if entry is not None and producer_epoch < entry.producer_epoch:
            return
        ticket = take_ticket(partition, producer_id, producer_epoch, sequence, now_ms, adds=self._adds)
        self._found[partition.topic, partition.index] = _FirstWrite(partition, ticket, sequence)

    # -- the coordinator's word

    def known_now(self) -> bool:
        """Is it known without waiting?"""
        for asked in self._questions():
            codes = self._broker.verification.known_now(asked)
            if codes is None:
                return False
            self._codes.update(codes)
        return True

    async def ask(self) -> None:
        """The request's records are moved out of the way of what its connection reads next."""
        for topic in self._message.topic_data:
            for data in topic.partition_data:
                if data.records is not None:
                    data.records = memoryview(bytearray(data.records))
        for asked in self._questions():
            self._codes.update(await self._broker.verification.ask(asked))

    def _questions(self) -> list[AddPartitionsToTxnTransaction]:
        """One for each producer: honest requests have one."""
        producers: dict[tuple[int, int], list[tuple[str, int]]] = {}
        for place, write in self._found.items():
            if write.ticket is not None:
                producer = (write.ticket.producer_id, write.ticket.producer_epoch)
                producers.setdefault(producer, []).append(place)
        transactional_id = self._message.transactional_id
        assert transactional_id is not None
        return [
            question(transactional_id, *producer, partitions, self._adds)
            for producer, partitions in producers.items()
        ]

    # -- right before and after the append

    def refusal(self, partition: Partition, records: memoryview) -> ErrorCode:
        """May this transactional batch be appended?"""
        producer_id, producer_epoch, sequence = _producer(records, PRODUCER_ID_POS)
        entry = partition.log.producer_state.entries.get(producer_id)
        if entry is not None and producer_epoch < entry.producer_epoch:
            return ErrorCode.NONE  # refused by its epoch
        if is_past(entry, producer_epoch, sequence):
            return ErrorCode.NONE  # a repetition, or refused by its sequence
        write = self._found.get((partition.topic, partition.index))
        if write is None:
            # A marker has come while others of the request waited.
            return ErrorCode.INVALID_TXN_STATE if needs_ticket(entry, producer_epoch) else ErrorCode.NONE
        if write.ticket is None:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if write.partition is not partition or partition.tickets is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        code = self._codes.get((partition.topic, partition.index), ErrorCode.NONE)
        if code:
            partition.tickets.refused(write.ticket, code)
            return refusal_of_write(code, adds=self._adds, knows_abortable=self._knows_abortable)
        return partition.tickets.check(write.ticket, entry, sequence)

    def opened(self, partition: Partition, records: memoryview) -> None:
        if partition.tickets is not None and (partition.topic, partition.index) in self._found:
            partition.tickets.opened(_producer(records, PRODUCER_ID_POS)[0])
