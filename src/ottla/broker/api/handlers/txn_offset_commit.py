"""TxnOffsetCommit (28): offsets of a group that count when a transaction is committed.

They are written into the group's partition as a part of the transaction: like any other first write, the
first of them needs the word of the transaction's coordinator.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.api.refusals import refused
from ottla.broker.coordinators.first_writes import take_ticket
from ottla.broker.coordinators.groups import context_of
from ottla.broker.coordinators.transactions import in_background
from ottla.broker.coordinators.verification import question
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from ottla.transactions.partition import needs_ticket, refusal_of_write

if TYPE_CHECKING:
    from ottla.broker.coordinators.hosted_shard import HostedShard
    from ottla.broker.coordinators.writing import Ticket as Waiting
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node
    from ottla.groups.shard import GroupShard
    from ottla.storage.producers.state import ProducerEntry
    from ottla.transactions.partition import Ticket

API_KEY = 28
FIRST_VERSION_THAT_ADDS = 5
FIRST_VERSION_WITH_ABORTABLE = 4
NO_SEQUENCE = -1


def handle(broker: Node, request: Request, message: TxnOffsetCommitRequest) -> Any:
    if not message.group_id:
        return refused(message, ErrorCode.INVALID_GROUP_ID)
    shard = broker.groups.shard_of(message.group_id)
    if isinstance(shard, ErrorCode):
        return refused(message, shard)
    commit = _Commit(broker, request, message, shard)
    code = commit.begin()
    if code:
        return refused(message, code)
    if commit.ticket is not None and broker.verification.is_wanted(commit.adds):
        return in_background(commit.verified())
    return commit.submit()


class _Commit:
    __slots__ = ("_broker", "_message", "_request", "_shard", "adds", "ticket")

    def __init__(
        self, broker: Node, request: Request, message: TxnOffsetCommitRequest, shard: HostedShard
    ) -> None:
        self._broker = broker
        self._request = request
        self._message = message
        self._shard = shard
        self.adds = request.version >= FIRST_VERSION_THAT_ADDS
        self.ticket: Ticket | None = None

    @property
    def _entry(self) -> ProducerEntry | None:
        return self._shard.partition.log.producer_state.entries.get(self._message.producer_id)

    def begin(self) -> ErrorCode:
        """Take a ticket if one is needed; or why not."""
        message, entry = self._message, self._entry
        if entry is not None and message.producer_epoch < entry.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if needs_ticket(entry, message.producer_epoch):
            self.ticket = take_ticket(
                self._shard.partition,
                message.producer_id,
                message.producer_epoch,
                NO_SEQUENCE,
                self._broker.clock(),
                adds=self.adds,
            )
            if self.ticket is None:
                return ErrorCode.INVALID_PRODUCER_EPOCH
        return ErrorCode.NONE

    async def verified(self) -> Any:
        message, partition = self._message, self._shard.partition
        place = (partition.topic, partition.index)
        asked = question(
            message.transactional_id, message.producer_id, message.producer_epoch, [place], self.adds
        )
        code = (await self._broker.verification.ask(asked))[place]
        if code:
            assert self.ticket is not None
            if partition.tickets is not None:
                partition.tickets.refused(self.ticket, code)
            knows_abortable = self._request.version >= FIRST_VERSION_WITH_ABORTABLE
            code = refusal_of_write(code, adds=self.adds, knows_abortable=knows_abortable)
            if code == ErrorCode.NOT_ENOUGH_REPLICAS:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE  # which those who commit offsets try again
            return refused(message, code)
        answer = self.submit()
        return await answer if isinstance(answer, asyncio.Future) else answer

    def submit(self) -> Any:
        return self._shard.submit(self._decide, partial(refused, self._message))

    def _decide(self, machine: GroupShard, waiting: Waiting, now_ms: int) -> Outcome:
        code = self._refusal()
        if code:
            return Outcome(refused(self._message, code))
        context = context_of(self._request, waiting)
        return machine.decide_txn_offset_commit(self._message, context, now_ms)

    def _refusal(self) -> ErrorCode:
        """Asked right before the offsets are written: markers come only behind what was decided before."""
        epoch, entry = self._message.producer_epoch, self._entry
        if entry is not None and epoch < entry.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if self.ticket is None:
            return ErrorCode.INVALID_TXN_STATE if needs_ticket(entry, epoch) else ErrorCode.NONE
        tickets = self._shard.partition.tickets
        if tickets is None:
            return ErrorCode.NOT_COORDINATOR
        # The ticket stays until the marker: the batch is not in the log before this turn of the loop ends.
        return tickets.check(self.ticket, entry, NO_SEQUENCE)
