"""The states of many transactional ids, with one request for each of their coordinators."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.client.core.cluster import UNREACHABLE
from ottla.client.core.steps import Pause, Steps
from ottla.client.core.transaction_api import TransactionApi
from ottla.client.core.transaction_types import TransactionInfo, info_of
from ottla.client.errors import ClientError, broker_error
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ottla.protocol.messages.describe_transactions_response import DescribeTransactionsResponse


def describe_all(
    api: TransactionApi, transactional_ids: Iterable[str]
) -> Steps[dict[str, TransactionInfo | None]]:
    """The coordinators' states of these ids; None for those that no coordinator knows."""
    pending = dict.fromkeys(transactional_ids)
    found: dict[str, TransactionInfo | None] = {}
    retry = api.cluster.retry()
    while pending:
        failure = yield from _describe_round(api, pending, found)
        pending = dict.fromkeys(name for name in pending if name not in found)
        if failure is not None:
            yield Pause(retry.pause_ms(failure))
    return found


def _describe_round(
    api: TransactionApi, pending: Iterable[str], found: dict[str, TransactionInfo | None]
) -> Steps[ClientError | None]:
    """Ask every coordinator once; a retriable error, if there was one. Raises others."""
    coordinators = api.coordinators
    failure: ClientError | None = None
    try:
        yield from coordinators.find_all(pending)
    except ClientError as error:
        if not error.retriable:
            raise
        failure = error
    groups: dict[int, list[str]] = {}
    for name in pending:
        node_id = coordinators.known(name)
        if node_id is not None:
            groups.setdefault(node_id, []).append(name)
    for node_id, names in groups.items():
        request = DescribeTransactionsRequest(transactional_ids=names)
        try:
            response = yield from api.cluster.ask_node(node_id, request, DescribeTransactionsResponse)
        except UNREACHABLE as unreachable:
            coordinators.forget(names)
            failure = unreachable
            continue
        rows = {row.transactional_id: row for row in response.transaction_states}
        for name in names:
            row = rows.get(name)
            code = ErrorCode.UNKNOWN_SERVER_ERROR if row is None else row.error_code
            if row is not None and code in (ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
                found[name] = info_of(row, node_id) if code == ErrorCode.NONE else None
                continue
            refusal = broker_error(code, detail=f"transactional id {name!r}")
            coordinators.failed(name, refusal)
            if not refusal.retriable:
                raise refusal
            failure = refusal
    return failure
