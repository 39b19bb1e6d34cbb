"""AddPartitionsToTxn (24): partitions become part of a transaction, or are asked for, see
`ottla.transactions.add`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.groups import together
from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResult
from ottla.transactions.add import FIRST_VERSION_OF_BROKERS, response_of, result_of, transactions_of
from ottla.transactions.shard import TransactionShard

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node

API_KEY = 24


def handle(broker: Node, request: Request, message: AddPartitionsToTxnRequest) -> Any:
    version = request.version
    answers = [add_partitions(broker, asked, version) for asked in transactions_of(message, version)]
    return together(answers, lambda results: response_of(results, version))


def add_partitions(broker: Node, asked: AddPartitionsToTxnTransaction, version: int) -> Any:
    """The result of one transaction, or a future of it."""
    refused = {} if asked.verify_only else _unknown(broker, asked)
    ctx = RequestContext(api_version=version)

    def decide(machine: TransactionShard, now_ms: int, _: int) -> Outcome:
        return machine.decide_add_partitions(asked, ctx, now_ms, refused)

    # Brokers come again by themselves: others wait behind this answer.
    patient = version < FIRST_VERSION_OF_BROKERS
    return broker.transactions.ask(
        asked.transactional_id,
        decide,
        partial(_refused, asked),
        is_concurrent=_is_concurrent if patient else None,
    )


def _refused(asked: AddPartitionsToTxnTransaction, code: int) -> AddPartitionsToTxnResult:
    return result_of(asked, ErrorCode(code))


def _is_concurrent(result: AddPartitionsToTxnResult) -> bool:
    return any(
        partition.partition_error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        for topic in result.topic_results
        for partition in topic.results_by_partition
    )


def _unknown(broker: Node, asked: AddPartitionsToTxnTransaction) -> dict[tuple[str, int], ErrorCode]:
    topics = broker.image.topics_by_name
    return {
        (topic.name, index): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for topic in asked.topics
        for index in topic.partitions
        if topic.name not in topics or index not in topics[topic.name].partitions
    }
