"""TxnOffsetCommit (28): offsets of a group that take effect when a transaction commits.

They are written to the group's partition as part of the transaction. As with any first write of a
transaction, the transaction coordinator verifies the first of them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.coordinators.first_writes import take_ticket
from ottla.broker.coordinators.groups import context_of
from ottla.broker.coordinators.transactions import in_background
from ottla.broker.coordinators.verification import question
from ottla.machines.outcome import Outcome
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from ottla.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.protocol.versions import (
    TXN_OFFSET_COMMIT_ADDS_PARTITIONS_SINCE,
    TXN_OFFSET_COMMIT_TRANSACTION_ABORTABLE_SINCE,
)
from ottla.transactions.partition import needs_ticket, refusal_of_write

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.coordinators.groups import GroupCoordinator
    from ottla.broker.coordinators.hosted_shard import HostedShard
    from ottla.broker.coordinators.verification import Verification
    from ottla.broker.coordinators.writing import Ticket as Waiting
    from ottla.broker.net.request import Request
    from ottla.groups.shard import GroupShard
    from ottla.storage.producers.state import ProducerEntry
    from ottla.transactions.partition import Ticket

NO_SEQUENCE = -1


def refuse(message: TxnOffsetCommitRequest, code: int, reason: str = "") -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )


class TxnOffsetCommit:
    def __init__(
        self, groups: GroupCoordinator, verification: Callable[[], Verification], clock: Callable[[], int]
    ) -> None:
        self._groups = groups
        self._verification = verification
        self.clock = clock

    def handle(self, request: Request, message: TxnOffsetCommitRequest) -> Any:
        if not message.group_id:
            return refuse(message, ErrorCode.INVALID_GROUP_ID)
        shard = self._groups.shard_of(message.group_id)
        if isinstance(shard, ErrorCode):
            return refuse(message, shard)
        commit = _Commit(self.clock, request, message, shard)
        code = commit.begin()
        if code:
            return refuse(message, code)
        if commit.ticket is not None:
            verification = self._verification()
            if verification.is_wanted(commit.adds):
                return in_background(commit.verify_then_submit(verification))
        return commit.submit()


def create(parts: ApiParts) -> Handler:
    return TxnOffsetCommit(parts.groups, parts.verification, parts.clock).handle


class _Commit:
    """One commit, with the ticket of its first write."""

    __slots__ = ("_clock", "_message", "_request", "_shard", "adds", "ticket")

    def __init__(
        self,
        clock: Callable[[], int],
        request: Request,
        message: TxnOffsetCommitRequest,
        shard: HostedShard,
    ) -> None:
        self._clock = clock
        self._request = request
        self._message = message
        self._shard = shard
        self.adds = request.version >= TXN_OFFSET_COMMIT_ADDS_PARTITIONS_SINCE
        self.ticket: Ticket | None = None

    @property
    def _entry(self) -> ProducerEntry | None:
        return self._shard.partition.log.producer_state.entries.get(self._message.producer_id)

    def begin(self) -> ErrorCode:
        """Take a ticket if one is needed; returns the error if none can be had."""
        message, entry = self._message, self._entry
        if entry is not None and message.producer_epoch < entry.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if needs_ticket(entry, message.producer_epoch):
            self.ticket = take_ticket(
                self._shard.partition,
                message.producer_id,
                message.producer_epoch,
                NO_SEQUENCE,
                self._clock(),
                adds=self.adds,
            )
            if self.ticket is None:
                return ErrorCode.INVALID_PRODUCER_EPOCH
        return ErrorCode.NONE

    async def verify_then_submit(self, verification: Verification) -> Any:
        message, partition = self._message, self._shard.partition
        place = (partition.topic, partition.index)
        asked = question(
            message.transactional_id, message.producer_id, message.producer_epoch, [place], self.adds
        )
        code = (await verification.ask(asked))[place]
        if code:
            assert self.ticket is not None
            if partition.tickets is not None:
                partition.tickets.refused(self.ticket, code)
            knows_abortable = self._request.version >= TXN_OFFSET_COMMIT_TRANSACTION_ABORTABLE_SINCE
            code = refusal_of_write(code, adds=self.adds, knows_abortable=knows_abortable)
            if code == ErrorCode.NOT_ENOUGH_REPLICAS:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE  # clients that commit offsets retry it
            return refuse(message, code)
        response = self.submit()
        return await response if isinstance(response, asyncio.Future) else response

    def submit(self) -> Any:
        return self._shard.submit(self._decide, lambda code: refuse(self._message, code))

    def _decide(self, machine: GroupShard, waiting: Waiting, now_ms: int) -> Outcome:
        code = self._refusal()
        if code:
            return Outcome(refuse(self._message, code))
        context = context_of(self._request, waiting)
        return machine.decide_txn_offset_commit(self._message, context, now_ms)

    def _refusal(self) -> ErrorCode:
        """Checked right before the offsets are written: a marker is appended only after them."""
        epoch, entry = self._message.producer_epoch, self._entry
        if entry is not None and epoch < entry.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if self.ticket is None:
            return ErrorCode.INVALID_TXN_STATE if needs_ticket(entry, epoch) else ErrorCode.NONE
        tickets = self._shard.partition.tickets
        if tickets is None:
            return ErrorCode.NOT_COORDINATOR
        # The ticket stays until the marker: the batch is in the log only after this iteration of the loop.
        return tickets.check(self.ticket, entry, NO_SEQUENCE)


API = ApiDeclaration(ApiKey.TXN_OFFSET_COMMIT, create, refuse=refuse)
