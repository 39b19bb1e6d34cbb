"""One partition of __transaction_state: requests, time and records in, outcomes out.

The host replays the log through `apply` (or `apply_bytes`), calls `loaded`, and from then on passes requests
to `decide_*` and the time to `tick` when `next_wake_ms` is reached. It appends the records of an outcome as
one batch; when they are committed it sends the replies and passes the markers to the marker queue. It calls
`markers_written` once all partitions have them. Records are applied when they are decided; if an append
fails, the host drops the machine (`abandon`) and rebuilds it from the log.

Durable state, changed by `ShardContext.apply` alone: the transactions. Soft state, rebuilt by `loaded`: the
deadlines of ongoing transactions (`deadlines`) and the expiry scan (`expiry`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ottla.machines.outcome import Outcome, RequestContext, Token
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnTransaction
from ottla.protocol.messages.describe_transactions_response import TransactionState as DescribedTransaction
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.list_transactions_response import TransactionState as ListedTransaction
from ottla.protocol.messages.transaction_log_key import TransactionLogKey
from ottla.transactions import admin
from ottla.transactions.add import Add
from ottla.transactions.config import TransactionsConfig
from ottla.transactions.context import ShardContext
from ottla.transactions.end import End
from ottla.transactions.expiry import Expiry
from ottla.transactions.init import Init
from ottla.transactions.markers import Markers, TopicPartition
from ottla.transactions.record_codec import decode_record
from ottla.transactions.transaction import Transaction

NO_FRESH_ID = -1
_NONE_REFUSED: Mapping[TopicPartition, ErrorCode] = {}


class TransactionShard:
    """`coordinator_epoch` is the leader epoch of the partition: markers of an earlier one are refused."""

    __slots__ = ("_add", "_end", "_expiry", "_init", "context")

    def __init__(self, config: TransactionsConfig, coordinator_epoch: int) -> None:
        self.context = ShardContext(config, coordinator_epoch)
        self._end = End(self.context)
        self._init = Init(self.context, self._end)
        self._add = Add(self.context)
        self._expiry = Expiry(self.context)

    # Records.

    def apply(self, key: Message, value: Message | None, timestamp_ms: int, producer_id: int = -1) -> None:
        """Apply a record of the log. Unknown types are ignored."""
        if isinstance(key, TransactionLogKey):
            self.context.apply(key, value)

    def apply_bytes(self, key: bytes, value: bytes | None, timestamp_ms: int, producer_id: int = -1) -> None:
        """Apply an encoded record during a load. Raises DecodeError."""
        decoded = decode_record(key, value)
        if decoded is not None:
            self.apply(*decoded, timestamp_ms)

    def apply_marker(self, producer_id: int, committed: bool) -> None:
        """No transaction writes to this log."""

    def loaded(self, now_ms: int) -> Outcome:
        """The log is applied to its end: continue unfinished transactions; requests may come."""
        outcome = Outcome()
        self._expiry.start(now_ms)
        self._end.loaded(outcome, now_ms)
        return outcome

    def abandon(self, code: ErrorCode) -> list[tuple[Token, Message]]:
        """The shard has moved, or its append failed. No request waits inside it."""
        return []

    # Time.

    @property
    def next_wake_ms(self) -> int | None:
        due_ms, deadline_ms = self._expiry.due_ms, self.context.deadlines.next_ms
        if due_ms is None or deadline_ms is None:
            return deadline_ms if due_ms is None else due_ms
        return min(due_ms, deadline_ms)

    def tick(self, now_ms: int) -> Outcome:
        outcome = Outcome()
        self._end.time_out(outcome, now_ms)
        self._expiry.run(outcome, now_ms)
        return outcome

    # Requests. `fresh_id` is an unused producer id, after NEEDS_PRODUCER_ID was the reply.

    def decide_init_producer_id(
        self, request: InitProducerIdRequest, ctx: RequestContext, now_ms: int, fresh_id: int = NO_FRESH_ID
    ) -> Outcome:
        """Decide for a client with a transactional id: other clients need no coordinator."""
        return self._init.init(request, ctx, now_ms, fresh_id)

    def decide_add_partitions(
        self,
        asked: AddPartitionsToTxnTransaction,
        ctx: RequestContext,
        now_ms: int,
        refused: Mapping[TopicPartition, ErrorCode] = _NONE_REFUSED,
    ) -> Outcome:
        """One transaction of a request (see `transactions_of` and `response_of` in ottla.transactions.add).

        `refused` are partitions that do not exist or that the client may not write to.
        """
        return self._add.add_partitions(asked, ctx, now_ms, refused)

    def decide_add_offsets(
        self,
        request: AddOffsetsToTxnRequest,
        ctx: RequestContext,
        now_ms: int,
        offsets_partition: TopicPartition,
    ) -> Outcome:
        """`offsets_partition` is where the group's offsets are: ("__consumer_offsets", partition)."""
        return self._add.add_offsets(request, ctx, now_ms, offsets_partition)

    def decide_end_txn(
        self, request: EndTxnRequest, ctx: RequestContext, now_ms: int, fresh_id: int = NO_FRESH_ID
    ) -> Outcome:
        return self._end.end(request, ctx, now_ms, fresh_id)

    def markers_written(self, markers: Markers, now_ms: int) -> Outcome:
        """Every partition of these markers has them, or does not exist any more."""
        return self._end.markers_written(markers, now_ms)

    # Queries.

    def transaction(self, transactional_id: str) -> Transaction | None:
        return self.context.transactions.get(transactional_id)

    def describe_transaction(self, transactional_id: str) -> DescribedTransaction:
        """One id of a DescribeTransactions."""
        return admin.describe(self.context, transactional_id)

    def list_transactions(
        self,
        now_ms: int,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        longer_than_ms: int = -1,
        matches: Callable[[str], bool] | None = None,
    ) -> list[ListedTransaction]:
        """The shard's part of a ListTransactions; `matches` is its pattern."""
        return admin.listed(self.context, now_ms, states, producer_ids, longer_than_ms, matches)
