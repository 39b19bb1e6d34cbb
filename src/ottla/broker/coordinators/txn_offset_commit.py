"""Commits offsets of a group in a transaction.

The offsets are written to the group's partition as part of the transaction: like any other first write, the
first of them is verified with the transaction coordinator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.coordinators.produce_verification import start_verification
from ottla.broker.coordinators.replies import in_background
from ottla.broker.coordinators.verification import transaction_partitions
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.protocol.versions import (
    TXN_OFFSET_COMMIT_ADDS_PARTITIONS_SINCE,
    TXN_OFFSET_COMMIT_TRANSACTION_ABORTABLE_SINCE,
)
from ottla.transactions.partition import needs_verification, refusal_of_write

if TYPE_CHECKING:
    from ottla.broker.coordinators.groups import GroupCoordinator
    from ottla.broker.coordinators.hosted_shard import HostedShard
    from ottla.broker.coordinators.replies import Refuse, Reply
    from ottla.broker.coordinators.verification import Verification
    from ottla.groups.shard import GroupShard
    from ottla.machines.outcome import RequestContext
    from ottla.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
    from ottla.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
    from ottla.storage.producers.state import ProducerEntry
    from ottla.transactions.partition import VerificationGuard

NO_SEQUENCE = -1


def txn_offset_commit(
    request: TxnOffsetCommitRequest,
    context: RequestContext,
    refuse: Refuse[TxnOffsetCommitResponse],
    *,
    groups: GroupCoordinator,
    verification: Verification,
    monotonic_ms: Callable[[], int],
) -> Reply[TxnOffsetCommitResponse]:
    shard = groups.shards.of_key(request.group_id)
    if isinstance(shard, ErrorCode):
        return refuse(shard)
    commit = _Commit(request, context, refuse, shard)
    code = commit.begin(monotonic_ms())
    if code:
        return refuse(code)
    if commit.guard is not None and verification.is_wanted(commit.adds):
        return in_background(commit.verify_and_submit(verification))
    return commit.submit()


class _Commit:
    __slots__ = ("_context", "_refuse", "_request", "_shard", "adds", "guard")

    def __init__(
        self,
        request: TxnOffsetCommitRequest,
        context: RequestContext,
        refuse: Refuse[TxnOffsetCommitResponse],
        shard: HostedShard,
    ) -> None:
        self._request = request
        self._context = context
        self._refuse = refuse
        self._shard = shard
        self.adds = context.api_version >= TXN_OFFSET_COMMIT_ADDS_PARTITIONS_SINCE
        self.guard: VerificationGuard | None = None

    @property
    def _entry(self) -> ProducerEntry | None:
        return self._shard.partition.log.producer_state.entries.get(self._request.producer_id)

    def begin(self, now_ms: int) -> ErrorCode:
        """Take a guard if the commit must be verified."""
        request, entry = self._request, self._entry
        if entry is not None and request.producer_epoch < entry.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if needs_verification(entry, request.producer_epoch):
            self.guard = start_verification(
                self._shard.partition,
                request.producer_id,
                request.producer_epoch,
                NO_SEQUENCE,
                now_ms,
                adds=self.adds,
            )
            if self.guard is None:
                return ErrorCode.INVALID_PRODUCER_EPOCH
        return ErrorCode.NONE

    async def verify_and_submit(self, verification: Verification) -> TxnOffsetCommitResponse:
        request, partition = self._request, self._shard.partition
        topic_partition = (partition.topic, partition.index)
        transaction = transaction_partitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [topic_partition],
            self.adds,
        )
        code = (await verification.verify(transaction))[topic_partition]
        if code:
            assert self.guard is not None
            if partition.verification_guards is not None:
                partition.verification_guards.refused(self.guard, code)
            knows_abortable = self._context.api_version >= TXN_OFFSET_COMMIT_TRANSACTION_ABORTABLE_SINCE
            code = refusal_of_write(code, adds=self.adds, knows_abortable=knows_abortable)
            if code == ErrorCode.NOT_ENOUGH_REPLICAS:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE  # retriable for a client that commits offsets
            return self._refuse(code)
        reply = self.submit()
        return await reply if isinstance(reply, asyncio.Future) else reply

    def submit(self) -> Reply[TxnOffsetCommitResponse]:
        return self._shard.submit(self._decide, self._refuse, self._context)

    def _decide(self, machine: GroupShard, now_ms: int) -> Outcome:
        code = self._error()
        if code:
            return Outcome(self._refuse(code))
        return machine.decide_txn_offset_commit(self._request, self._context, now_ms)

    def _error(self) -> ErrorCode:
        """Checked right before the offsets are written: a marker comes only after what was decided before
        it."""
        epoch, entry = self._request.producer_epoch, self._entry
        if entry is not None and epoch < entry.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if self.guard is None:
            return ErrorCode.INVALID_TXN_STATE if needs_verification(entry, epoch) else ErrorCode.NONE
        guards = self._shard.partition.verification_guards
        if guards is None:
            return ErrorCode.NOT_COORDINATOR
        # The guard stays until the marker: the batch is in the log only after this iteration of the event
        # loop.
        return guards.check(self.guard, entry, NO_SEQUENCE)
