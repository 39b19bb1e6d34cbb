"""ListTransactions (66): the transactional ids that this broker coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.coordinators.replies import merge_replies
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.list_transactions_request import ListTransactionsRequest
from ottla.protocol.messages.list_transactions_response import ListTransactionsResponse, TransactionState
from ottla.transactions.admin import unknown_states

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request
    from ottla.transactions.shard import TransactionShard

_SYNTAX = frozenset(r".*+?()[]{}|\^$")


def create(parts: ApiParts) -> Handler:
    shards = parts.transactions.shards

    def handle(request: Request, message: ListTransactionsRequest) -> Any:
        from ottla.groups.consumer.pattern_syntax import PatternError

        try:
            select = _selection(message.transactional_id_pattern)
        except PatternError:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)

        def view(shard: TransactionShard, now_ms: int) -> list[TransactionState]:
            return shard.list_transactions(
                now_ms, message.state_filters, message.producer_id_filters, message.duration_filter
            )

        def merge(parts: list[list[TransactionState] | None]) -> Message:
            if None in parts:
                return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            found = [state for part in parts for state in part or ()]
            try:
                wanted = select([state.transactional_id for state in found])
            except PatternError:
                return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
            return ListTransactionsResponse(
                unknown_state_filters=unknown_states(message.state_filters),
                transaction_states=[
                    state for state, is_wanted in zip(found, wanted, strict=True) if is_wanted
                ],
            )

        lists = shards.read_all(view)
        if isinstance(lists, ErrorCode):
            return ListTransactionsResponse(error_code=lists)
        return merge_replies(lists, merge)

    return handle


def _selection(pattern: str | None) -> Callable[[list[str]], list[bool]]:
    """Return a filter for ids, which takes time linear in their length for any pattern. To a
    pattern, all characters beyond ASCII are the same."""
    if not pattern:
        return lambda ids: [True] * len(ids)
    if not _SYNTAX.intersection(pattern):
        return lambda ids: [each == pattern for each in ids]
    from ottla.groups.consumer.pattern_syntax import BITS, OTHER
    from ottla.groups.consumer.topic_pattern import TopicPattern

    compiled = TopicPattern(pattern)

    def select(ids: list[str]) -> list[bool]:
        names = ["".join(letter if letter in BITS else OTHER for letter in each) for each in ids]
        matching = set(compiled.matching(dict.fromkeys(names)))
        return [name in matching for name in names]

    return select


API = ApiDeclaration(ApiKey.LIST_TRANSACTIONS, create)
