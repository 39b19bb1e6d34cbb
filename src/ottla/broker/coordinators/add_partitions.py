"""Adds partitions to a transaction, for clients and for the brokers that verify first writes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnTransaction
from ottla.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResult
from ottla.protocol.versions import ADD_PARTITIONS_TO_TXN_BATCHES_SINCE
from ottla.transactions.add import result_of
from ottla.transactions.shard import TransactionShard

if TYPE_CHECKING:
    from ottla.broker.coordinators.transactions import TransactionCoordinator
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.controller.image import ClusterImage


def add_partitions(
    transactions: TransactionCoordinator,
    metadata: MetadataCache,
    asked: AddPartitionsToTxnTransaction,
    version: int,
) -> Any:
    """The result of one transaction, or its future."""
    refused = {} if asked.verify_only else _unknown(metadata.image, asked)
    ctx = RequestContext(api_version=version)

    def decide(machine: TransactionShard, now_ms: int, _: int) -> Outcome:
        return machine.decide_add_partitions(asked, ctx, now_ms, refused)

    # Brokers retry by themselves, and other requests wait for this response.
    patient = version < ADD_PARTITIONS_TO_TXN_BATCHES_SINCE
    return transactions.ask(
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


def _unknown(image: ClusterImage, asked: AddPartitionsToTxnTransaction) -> dict[tuple[str, int], ErrorCode]:
    topics = image.topics_by_name
    return {
        (topic.name, index): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for topic in asked.topics
        for index in topic.partitions
        if topic.name not in topics or index not in topics[topic.name].partitions
    }
