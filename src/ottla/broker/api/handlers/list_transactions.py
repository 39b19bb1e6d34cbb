"""ListTransactions (66): the transactional ids that this broker looks after."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.groups import together
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.list_transactions_request import ListTransactionsRequest
from ottla.protocol.messages.list_transactions_response import ListTransactionsResponse, TransactionState
from ottla.transactions.admin import unknown_states

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node
    from ottla.transactions.shard import TransactionShard

API_KEY = 66
_SYNTAX = frozenset(r".*+?()[]{}|\^$")


def handle(broker: Node, request: Request, message: ListTransactionsRequest) -> Any:
    from ottla.groups.consumer.pattern_syntax import PatternError

    try:
        select = _selection(message.transactional_id_pattern)
    except PatternError:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)

    def see(shard: TransactionShard, now_ms: int) -> list[TransactionState]:
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
            transaction_states=[state for state, is_wanted in zip(found, wanted, strict=True) if is_wanted],
        )

    answers = broker.transactions.look_everywhere(see)
    if isinstance(answers, ErrorCode):
        return ListTransactionsResponse(error_code=answers)
    return together(answers, merge)


def _selection(pattern: str | None) -> Callable[[list[str]], list[bool]]:
    """Which of the ids match, in time that no pattern can blow up. Of characters beyond ASCII a pattern knows
    only that there is one."""
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
