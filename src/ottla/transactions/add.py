"""AddPartitionsToTxn and AddOffsetsToTxn: what belongs to a transaction, before anything is written to it.

Until version 3 the client adds its partitions itself, one transaction in a request. Later versions come from
brokers, many transactions in a request: the leader of a partition adds it when it sees the first batch, or,
if the client must have added it itself, verifies that (`verify_only`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.versions import (
    ADD_PARTITIONS_TO_TXN_BATCHES_SINCE,
    ADD_PARTITIONS_TO_TXN_PRODUCER_FENCED_SINCE,
)
from ottla.transactions.context import ShardContext
from ottla.transactions.markers import TopicPartition
from ottla.transactions.transaction import (
    AT_REST,
    ONGOING,
    PREPARED,
    VERSION_WITH_EPOCH_BUMP,
    Transaction,
)


def transactions_of(
    request: AddPartitionsToTxnRequest, api_version: int
) -> list[AddPartitionsToTxnTransaction]:
    """The transactions of a request, in one form for all versions."""
    if api_version >= ADD_PARTITIONS_TO_TXN_BATCHES_SINCE:
        return request.transactions
    return [
        AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
    ]


def response_of(results: Sequence[AddPartitionsToTxnResult], api_version: int) -> AddPartitionsToTxnResponse:
    if api_version >= ADD_PARTITIONS_TO_TXN_BATCHES_SINCE:
        return AddPartitionsToTxnResponse(results_by_transaction=[*results])
    (result,) = results
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results)


def result_of(
    requested: AddPartitionsToTxnTransaction, codes: Mapping[TopicPartition, ErrorCode] | ErrorCode
) -> AddPartitionsToTxnResult:
    """One code for all partitions, or each its own."""
    return AddPartitionsToTxnResult(
        transactional_id=requested.transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=partition,
                        partition_error_code=codes
                        if isinstance(codes, ErrorCode)
                        else codes[topic.name, partition],
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in requested.topics
        ],
    )


class Add:
    __slots__ = ("context",)

    def __init__(self, context: ShardContext) -> None:
        self.context = context

    def add_partitions(
        self,
        requested: AddPartitionsToTxnTransaction,
        ctx: RequestContext,
        now_ms: int,
        refused: Mapping[TopicPartition, ErrorCode],
    ) -> Outcome:
        partitions = [(topic.name, partition) for topic in requested.topics for partition in topic.partitions]
        if refused and not requested.verify_only:
            codes = {each: refused.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED) for each in partitions}
            return Outcome(result_of(requested, codes))
        transaction = self.context.transactions.get(requested.transactional_id)
        code = self._refusal(
            transaction, requested.transactional_id, requested.producer_id, requested.producer_epoch
        )
        if code is not None:
            return Outcome(result_of(requested, _for_version(code, ctx)))
        assert transaction is not None
        if requested.verify_only:
            return Outcome(result_of(requested, _verified(transaction, partitions)))
        outcome = Outcome(result_of(requested, ErrorCode.NONE))
        by_broker = ctx.api_version >= ADD_PARTITIONS_TO_TXN_BATCHES_SINCE
        self._add(outcome, transaction, partitions, VERSION_WITH_EPOCH_BUMP if by_broker else 0, now_ms)
        return outcome

    def add_offsets(
        self,
        request: AddOffsetsToTxnRequest,
        ctx: RequestContext,
        now_ms: int,
        offsets_partition: TopicPartition,
    ) -> Outcome:
        transaction = self.context.transactions.get(request.transactional_id)
        code = self._refusal(
            transaction, request.transactional_id, request.producer_id, request.producer_epoch
        )
        if code is not None:
            return Outcome(AddOffsetsToTxnResponse(error_code=_for_version(code, ctx)))
        assert transaction is not None
        outcome = Outcome(AddOffsetsToTxnResponse())
        self._add(outcome, transaction, [offsets_partition], 0, now_ms)
        return outcome

    def _refusal(
        self, transaction: Transaction | None, transactional_id: str, producer_id: int, producer_epoch: int
    ) -> ErrorCode | None:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        if transaction is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        code = transaction.refuses(producer_id, producer_epoch)
        if code is not None:
            return code
        if transaction.state in PREPARED:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        # Its client has prepared it: it may be ended, nothing else.
        return ErrorCode.INVALID_TXN_STATE if transaction.is_kept else None

    def _add(
        self,
        outcome: Outcome,
        transaction: Transaction,
        partitions: Sequence[TopicPartition],
        client_version: int,
        now_ms: int,
    ) -> None:
        present = transaction.partitions
        if all(each in present for each in partitions):
            return
        changed = transaction.copy()
        if transaction.state in AT_REST:
            assert not present
            changed.state = ONGOING
            changed.start_ms = now_ms
        changed.partitions = {**present, **dict.fromkeys(partitions)}
        changed.client_version = client_version
        self.context.write(outcome, changed, now_ms)


def is_concurrent(result: AddPartitionsToTxnResult) -> bool:
    """Whether the markers of the transaction before are not all written yet."""
    return any(
        partition.partition_error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        for topic in result.topic_results
        for partition in topic.results_by_partition
    )


def _verified(
    transaction: Transaction, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """A transaction that is not open has no partitions: the one in the request has ended."""
    return {
        each: ErrorCode.NONE if each in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for each in partitions
    }


def _for_version(code: ErrorCode, ctx: RequestContext) -> ErrorCode:
    if code == ErrorCode.PRODUCER_FENCED and ctx.api_version < ADD_PARTITIONS_TO_TXN_PRODUCER_FENCED_SINCE:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
