"""The end of transactions: EndTxn in both versions of the protocol, fencing, and what follows the markers.

An end is a record in state Prepare*, then markers in all partitions, then a record in state Complete*. Only
the first of them decides: from then on the transaction cannot end in another way.

In the second version of the protocol (EndTxn 5 and later) the markers carry the epoch after that of the
transaction, and the client continues with it: late writes of the ended transaction are refused by their
epoch.
"""

from __future__ import annotations

from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.end_txn_response import EndTxnResponse
from ottla.protocol.versions import END_TXN_EPOCH_BUMP_SINCE, END_TXN_PRODUCER_FENCED_SINCE
from ottla.transactions.context import ShardContext
from ottla.transactions.markers import NEEDS_PRODUCER_ID, Markers
from ottla.transactions.transaction import (
    CLIENT_EPOCH_MAX,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    COMPLETED,
    EPOCH_MAX,
    NO_EPOCH,
    NO_ID,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
    VERSION_OF_FENCE,
    VERSION_WITH_EPOCH_BUMP,
    Transaction,
)

# Is it committed?
_RESULTS = {PREPARE_COMMIT: True, COMPLETE_COMMIT: True, PREPARE_ABORT: False, COMPLETE_ABORT: False}


class End:
    __slots__ = ("context",)

    def __init__(self, context: ShardContext) -> None:
        self.context = context

    # Requests of the client.

    def end(self, request: EndTxnRequest, ctx: RequestContext, now_ms: int, fresh_id: int) -> Outcome:
        transaction = self.context.transactions.get(request.transactional_id)
        code = self._refusal(transaction, request, ctx)
        if code is not None:
            return _refused(code, ctx)
        assert transaction is not None
        bumps = ctx.api_version >= END_TXN_EPOCH_BUMP_SINCE
        if transaction.state in COMPLETED and (not bumps or _pair_of(request) == transaction.client_before):
            return Outcome(_answer(transaction, bumps))
        if bumps and transaction.client[1] >= CLIENT_EPOCH_MAX and fresh_id < 0:
            return Outcome(NEEDS_PRODUCER_ID)
        outcome = Outcome()
        changed = transaction.copy()
        if transaction.state == ONGOING:
            changed.state = PREPARE_COMMIT if request.committed else PREPARE_ABORT
        else:
            # Nothing was written in it, and nothing is to be marked.
            changed.state = COMPLETE_ABORT
            changed.start_ms = now_ms
        if bumps:
            _bump(changed, fresh_id)
            changed.client_version = VERSION_WITH_EPOCH_BUMP
        else:
            if transaction.is_kept:
                # The client has a higher epoch, so that the marker fences the previous instance.
                changed.producer_epoch += 1
            changed.client_version = 0
        if changed.state in COMPLETED:
            _take_next_pair(changed)
        outcome.reply = _answer(self.context.write(outcome, changed, now_ms), bumps)
        return outcome

    def _refusal(
        self, transaction: Transaction | None, request: EndTxnRequest, ctx: RequestContext
    ) -> ErrorCode | None:
        """Return None if the transaction is to be ended, or its end is to be confirmed once more."""
        if not request.transactional_id:
            return ErrorCode.INVALID_REQUEST
        if transaction is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        bumps = ctx.api_version >= END_TXN_EPOCH_BUMP_SINCE
        state = transaction.state
        is_retry = False
        if bumps and state != ONGOING:
            is_retry = state in (*PREPARED, *COMPLETED) and _pair_of(request) == transaction.client_before
        if not is_retry:
            code = transaction.refuses(request.producer_id, request.producer_epoch)
            if code is not None:
                return code
        if state == ONGOING:
            return None
        if bumps and not is_retry:
            # The next transaction, before anything was written in it.
            if request.committed:
                return ErrorCode.INVALID_TXN_STATE
            return ErrorCode.CONCURRENT_TRANSACTIONS if state in PREPARED else None
        if not bumps and transaction.client_version >= VERSION_WITH_EPOCH_BUMP:
            return ErrorCode.INVALID_TXN_STATE  # what ended had the epoch before
        if _RESULTS.get(state) != request.committed:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.CONCURRENT_TRANSACTIONS if state in PREPARED else None

    # Without the client.

    def fence(self, outcome: Outcome, transaction: Transaction, now_ms: int) -> None:
        """Abort an ongoing transaction, and leave its client no usable epoch."""
        assert transaction.state == ONGOING
        changed = transaction.copy()
        changed.state = PREPARE_ABORT
        assert changed.producer_epoch < EPOCH_MAX
        changed.producer_epoch += 1
        if transaction.is_kept:
            assert changed.next_producer_epoch < EPOCH_MAX
            changed.next_producer_epoch += 1
        changed.client_version = VERSION_OF_FENCE
        self.context.write(outcome, changed, now_ms)

    def time_out(self, outcome: Outcome, now_ms: int) -> None:
        deadlines = self.context.deadlines
        while (transactional_id := deadlines.pop_due(now_ms)) is not None:
            transaction = self.context.transactions.get(transactional_id)
            deadline_ms = None if transaction is None else transaction.deadline_ms
            if transaction is None or deadline_ms is None:
                continue
            if deadline_ms > now_ms:
                deadlines.set(transactional_id, deadline_ms)
            else:
                self.fence(outcome, transaction, now_ms)

    # After the markers.

    def markers_written(self, markers: Markers, now_ms: int) -> Outcome:
        """Complete a transaction whose markers are all written; ignore markers of any other."""
        outcome = Outcome()
        transaction = self.context.transactions.get(markers.transactional_id)
        if (
            transaction is not None
            and transaction.state in PREPARED
            and markers.coordinator_epoch == self.context.coordinator_epoch
            and markers.producer_id == transaction.producer_id
            and markers.producer_epoch == transaction.producer_epoch
            and markers.committed == (transaction.state == PREPARE_COMMIT)
        ):
            self._complete(outcome, transaction, now_ms)
        return outcome

    def _complete(self, outcome: Outcome, transaction: Transaction, now_ms: int) -> None:
        changed = transaction.copy()
        changed.state = COMPLETE_COMMIT if transaction.state == PREPARE_COMMIT else COMPLETE_ABORT
        changed.partitions = {}
        _take_next_pair(changed)
        self.context.write(outcome, changed, now_ms)

    def loaded(self, outcome: Outcome, now_ms: int) -> None:
        """Continue what the previous coordinator has left unfinished."""
        for transaction in [*self.context.transactions.values()]:
            if transaction.state not in PREPARED:
                self.context.watch(transaction)
            elif transaction.partitions:
                outcome.effects.append(self.context.markers_of(transaction))
            else:
                self._complete(outcome, transaction, now_ms)


def _pair_of(request: EndTxnRequest) -> tuple[int, int]:
    return request.producer_id, request.producer_epoch


def _bump(changed: Transaction, fresh_id: int) -> None:
    """The markers get the epoch after that of the transaction, the client one that is at least as high."""
    client_id, client_epoch = changed.client
    was_kept = changed.next_producer_epoch >= 0
    assert changed.producer_epoch < EPOCH_MAX
    changed.producer_epoch += 1
    changed.previous_producer_id = client_id
    if client_epoch >= CLIENT_EPOCH_MAX:
        assert fresh_id >= 0
        changed.next_producer_id = fresh_id
        changed.next_producer_epoch = NO_EPOCH
    elif was_kept:
        changed.next_producer_epoch += 1


def _take_next_pair(changed: Transaction) -> None:
    changed.producer_id, changed.producer_epoch = changed.client
    changed.next_producer_id = NO_ID
    changed.next_producer_epoch = NO_EPOCH


def _answer(transaction: Transaction, bumps: bool) -> EndTxnResponse:
    if not bumps:
        return EndTxnResponse()
    producer_id, producer_epoch = transaction.client
    return EndTxnResponse(producer_id=producer_id, producer_epoch=producer_epoch)


def _refused(code: ErrorCode, ctx: RequestContext) -> Outcome:
    if code == ErrorCode.PRODUCER_FENCED and ctx.api_version < END_TXN_PRODUCER_FENCED_SINCE:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return Outcome(EndTxnResponse(error_code=code))
