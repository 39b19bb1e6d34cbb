"""InitProducerId: a client starts, restarts or recovers from an error, and its predecessor is fenced.

Without an expected pair (producer id and epoch) the client is a new instance: it gets an unused epoch. With
one it is the instance that has this pair and requests the next: if another instance came in between, it is
fenced. The response may be lost, so the same request gets the same response as long as nothing has happened
since.

An ongoing transaction is aborted first, and the client retries. With `keep_prepared_txn` it is kept instead:
the client gets a pair with which it may end the transaction, and the pair of the transaction, to compare it
with the state of its other resource.
"""

from __future__ import annotations

from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.versions import INIT_PRODUCER_ID_PRODUCER_FENCED_SINCE
from ottla.transactions.config import NO_TIMEOUT_MS
from ottla.transactions.context import ShardContext
from ottla.transactions.end import End
from ottla.transactions.markers import NEEDS_PRODUCER_ID
from ottla.transactions.transaction import (
    CLIENT_EPOCH_MAX,
    EMPTY,
    NO_EPOCH,
    NO_ID,
    NO_TIME,
    ONGOING,
    PREPARED,
    RESUMED_TIME,
    ProducerPair,
    Transaction,
)


class Init:
    __slots__ = ("_end", "context")

    def __init__(self, context: ShardContext, end: End) -> None:
        self.context = context
        self._end = end

    def init(
        self, request: InitProducerIdRequest, ctx: RequestContext, now_ms: int, fresh_id: int
    ) -> Outcome:
        code = self._refusal(request)
        if code is not None:
            return _refused(code, ctx)
        assert request.transactional_id is not None
        timeout_ms = NO_TIMEOUT_MS if request.enable2_pc else request.transaction_timeout_ms
        expected = None if request.producer_id < 0 else (request.producer_id, request.producer_epoch)
        transaction = self.context.transactions.get(request.transactional_id)
        if transaction is None:
            if fresh_id < 0:
                return Outcome(NEEDS_PRODUCER_ID)
            changed = Transaction(request.transactional_id, fresh_id, 0, timeout_ms)
            return self._empty(changed, now_ms, resumed=False)
        if transaction.state in PREPARED:
            is_fenced = expected is not None and expected not in (
                transaction.client,
                transaction.client_before,
            )
            return _refused(
                ErrorCode.PRODUCER_FENCED if is_fenced else ErrorCode.CONCURRENT_TRANSACTIONS, ctx
            )
        if transaction.state == ONGOING:
            if expected is not None and expected != transaction.client:
                return _refused(ErrorCode.PRODUCER_FENCED, ctx)
            if request.keep_prepared_txn:
                return self._keep(transaction, timeout_ms, now_ms, fresh_id)
            outcome = _refused(ErrorCode.CONCURRENT_TRANSACTIONS, ctx)
            self._end.fence(outcome, transaction, now_ms)
            return outcome
        return self._begin(transaction, expected, timeout_ms, ctx, now_ms, fresh_id)

    def _refusal(self, request: InitProducerIdRequest) -> ErrorCode | None:
        config = self.context.config
        if not request.transactional_id or (request.producer_id < 0) != (request.producer_epoch < 0):
            return ErrorCode.INVALID_REQUEST
        if (request.enable2_pc or request.keep_prepared_txn) and not config.two_phase_commit_enabled:
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if not request.enable2_pc and not 0 < request.transaction_timeout_ms <= config.max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        return None

    def _begin(
        self,
        transaction: Transaction,
        expected: ProducerPair | None,
        timeout_ms: int,
        ctx: RequestContext,
        now_ms: int,
        fresh_id: int,
    ) -> Outcome:
        """No transaction is open: return the next epoch, or the current one if the request is a retry."""
        changed = transaction.copy()
        changed.timeout_ms = timeout_ms
        if expected is not None and expected != transaction.client:
            if expected != transaction.client_before:
                return _refused(ErrorCode.PRODUCER_FENCED, ctx)
            return self._empty(changed, now_ms, resumed=True)
        changed.previous_producer_id = transaction.producer_id
        if transaction.producer_epoch >= CLIENT_EPOCH_MAX:
            if fresh_id < 0:
                return Outcome(NEEDS_PRODUCER_ID)
            changed.producer_id, changed.producer_epoch = fresh_id, 0
        else:
            changed.producer_epoch += 1
        return self._empty(changed, now_ms, resumed=expected is not None)

    def _empty(self, changed: Transaction, now_ms: int, *, resumed: bool) -> Outcome:
        changed.state = EMPTY
        changed.partitions = {}
        changed.start_ms = RESUMED_TIME if resumed else NO_TIME
        changed.client_version = 0
        assert changed.next_producer_id == NO_ID and changed.next_producer_epoch == NO_EPOCH
        outcome = Outcome()
        producer_id, producer_epoch = self.context.write(outcome, changed, now_ms).client
        outcome.reply = InitProducerIdResponse(producer_id=producer_id, producer_epoch=producer_epoch)
        return outcome

    def _keep(self, transaction: Transaction, timeout_ms: int, now_ms: int, fresh_id: int) -> Outcome:
        """The next pair leaves room for the epoch of the markers, the one after the transaction's."""
        producer_id, producer_epoch = transaction.client
        if not transaction.is_kept:
            producer_epoch += 1
        changed = transaction.copy()
        if producer_epoch >= CLIENT_EPOCH_MAX:
            if fresh_id < 0:
                return Outcome(NEEDS_PRODUCER_ID)
            producer_id, producer_epoch = fresh_id, -1
        changed.timeout_ms = timeout_ms
        changed.next_producer_id = producer_id
        changed.next_producer_epoch = producer_epoch + 1
        outcome = Outcome()
        self.context.write(outcome, changed, now_ms)
        outcome.reply = InitProducerIdResponse(
            producer_id=changed.next_producer_id,
            producer_epoch=changed.next_producer_epoch,
            ongoing_txn_producer_id=changed.producer_id,
            ongoing_txn_producer_epoch=changed.producer_epoch,
        )
        return outcome


def _refused(code: ErrorCode, ctx: RequestContext) -> Outcome:
    if code == ErrorCode.PRODUCER_FENCED and ctx.api_version < INIT_PRODUCER_ID_PRODUCER_FENCED_SINCE:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return Outcome(InitProducerIdResponse(error_code=code))
