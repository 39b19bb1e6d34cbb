"""The transactions of one producer: who it is, what belongs to the open one, how that ends.

It speaks the second version of the protocol (KIP-890: leaders add partitions, every end gives a new epoch)
where the cluster has finalized `transaction.version` 2, and the first elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ottla.client.aio.coordinators import TRANSACTION, Coordinators
from ottla.client.aio.record_batches import ProducerId
from ottla.client.core.transaction_versions import (
    ADD_BY_CLIENTS,
    END_WITH_EPOCHS,
    FEATURE,
    INIT_WITH_TWO_PHASES,
    OFFSET_COMMIT_THAT_ADDS,
    OFFSET_COMMIT_WITH_MEMBER,
    PRODUCE_THAT_ADDS,
    SECOND_VERSION,
)
from ottla.client.errors import (
    BrokerError,
    ClientError,
    ProducerFencedError,
    TransactionFailedError,
    UnsupportedApiError,
    broker_error,
    raise_for,
)
from ottla.client.groups.offsets import MemberIdentity, while_epoch_is_stale
from ottla.client.groups.types import CommittedOffset, TopicPartition
from ottla.client.groups.wire import commit_topics, partitions_by_topic
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import add_partitions_to_txn_request, txn_offset_commit_request
from ottla.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.end_txn_response import EndTxnResponse
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse

if TYPE_CHECKING:
    from ottla.client.aio.cluster import ClusterClient
    from ottla.client.aio.connection import Connection

# States.
NEW = "not initialized"
READY = "ready"
OPEN = "open"
PREPARED = "prepared"
FAILED = "failed"
COMMITTING = "being committed"
ABORTING = "being aborted"
LOST = "lost"

_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
_FATAL = (
    *_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_VERSION,
)

Result = TypeVar("Result")


class PreparedTransaction(NamedTuple):
    """What names a prepared transaction: to be written down with the other resource of a two-phase commit."""

    producer_id: int
    producer_epoch: int


class Transactions:
    """State changes are made here; the producer asks what it may do."""

    def __init__(
        self, cluster: ClusterClient, transactional_id: str, timeout_ms: int, two_phase_commit: bool
    ) -> None:
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.two_phase_commit = two_phase_commit
        self.state = NEW
        self.producer: ProducerId | None = None
        self.prepared: PreparedTransaction | None = None
        self.is_second_version = False
        self._error: ClientError | None = None
        self._needs_epoch = False
        # Partitions of the open transaction; those that the coordinator was asked to add, or will be.
        self._added: dict[TopicPartition, None] = {}
        self._wanted: dict[TopicPartition, None] = {}
        self._adding = asyncio.Lock()
        self._has_begun = False
        self._is_known = False
        self._cluster = cluster
        self._coordinators = Coordinators(cluster, TRANSACTION)
        self._group_coordinators = Coordinators(cluster)

    # What may be done now.

    def check_open(self) -> None:
        """Raises unless records may be added."""
        if self.state == FAILED:
            raise self.failure()
        if self.state == LOST:
            assert self._error is not None
            raise self._error
        if self.state != OPEN:
            raise ClientError(
                f"transactional id {self.transactional_id!r}: no transaction is open (it is {self.state}): "
                "begin one first, e.g. with 'async with producer.transaction():'"
            )

    def failure(self) -> TransactionFailedError:
        assert self._error is not None
        error = TransactionFailedError(f"the transaction can only be aborted: {self._error}")
        error.__cause__ = self._error
        return error

    def fail(self, error: ClientError, *, sequence_is_lost: bool) -> None:
        """Something of it did not arrive. What is unknown to have arrived has used up sequence numbers."""
        self._needs_epoch |= sequence_is_lost
        if isinstance(error, BrokerError) and error.code in _FATAL[2:]:
            self._lose(error)
        elif self.state in (OPEN, PREPARED):
            self.state = FAILED
            self._error = error

    def _lose(self, error: ClientError) -> None:
        self.state = LOST
        self._error = error

    @property
    def takes_batches(self) -> bool:
        """May what was refused be sent again?"""
        return self.state == OPEN

    @property
    def produce_version_max(self) -> int | None:
        return None if self.is_second_version else PRODUCE_THAT_ADDS - 1

    # Beginning.

    async def init(self, *, keep_prepared: bool = False) -> None:
        """Take the id: whoever had it is fenced, and what it left open is aborted, or kept if prepared."""
        if self.state not in (NEW, READY, LOST):
            raise ClientError(f"transactional id {self.transactional_id!r}: a transaction is {self.state}")
        if keep_prepared and not self.two_phase_commit:
            raise ClientError("keep_prepared: make the producer with two_phase_commit=True")
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms
        )
        if self.two_phase_commit:
            request.enable2_pc, request.keep_prepared_txn = True, keep_prepared
        response = await self._init(request)
        self._closed()
        if response.ongoing_txn_producer_id >= 0:
            self.prepared = PreparedTransaction(
                response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch
            )
            self.state = PREPARED
            self._has_begun = self._is_known = True

    async def _init(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        async def attempt(connection: Connection) -> InitProducerIdResponse:
            at_most = None
            if self.two_phase_commit:
                at_most = INIT_WITH_TWO_PHASES
                if connection.version_for(request.API_KEY, at_most) < INIT_WITH_TWO_PHASES:
                    raise UnsupportedApiError(
                        f"{connection.address}: the cluster has no two-phase commit: its brokers need "
                        "transaction.two.phase.commit.enable=true"
                    )
            response = await connection.request(
                request, InitProducerIdResponse, timeout_ms=self._cluster.request_timeout_ms, at_most=at_most
            )
            self._raise_for(response.error_code)
            self._choose_version(connection)
            return response

        response = await self._ask(attempt)
        self.producer = ProducerId(response.producer_id, response.producer_epoch)
        return response

    def _choose_version(self, connection: Connection) -> None:
        self.is_second_version = (
            connection.features.get(FEATURE, 0) >= SECOND_VERSION
            and connection.version_for(EndTxnRequest.API_KEY) >= END_WITH_EPOCHS
        )

    async def begin(self) -> None:
        if self.state == NEW:
            await self.init()
        if self.state == LOST:
            self.check_open()
        if self.state != READY:
            raise ClientError(
                f"transactional id {self.transactional_id!r}: the transaction before is {self.state}: "
                "commit or abort it first"
            )
        self.state = OPEN

    # What belongs to it.

    async def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """To be called before the first batch goes out to a partition."""
        new = [key for key in partitions if key not in self._added]
        if not new:
            return
        self._has_begun = True
        if self.is_second_version:
            self._added.update(dict.fromkeys(new))
            return
        self._wanted.update(dict.fromkeys(new))
        async with self._adding:
            # Whoever was before us in the queue has added ours with its own.
            wanted = [key for key in self._wanted if key not in self._added]
            if wanted:
                await self._ask(lambda connection: self._add(connection, wanted))
                self._is_known = True
                self._added.update(dict.fromkeys(wanted))

    async def _add(self, connection: Connection, wanted: list[TopicPartition]) -> None:
        wire = add_partitions_to_txn_request
        producer = self._pair
        request = wire.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=producer.id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[
                wire.AddPartitionsToTxnTopic(name=topic, partitions=numbers)
                for topic, numbers in partitions_by_topic(wanted).items()
            ],
        )
        response = await connection.request(
            request,
            AddPartitionsToTxnResponse,
            timeout_ms=self._cluster.request_timeout_ms,
            at_most=ADD_BY_CLIENTS,
        )
        rows = [
            (row.partition_error_code, topic.name, row.partition_index)
            for topic in response.results_by_topic_v3_and_below
            for row in topic.results_by_partition
        ]
        # The others of a request are not even tried: the reason stands with the one that was refused.
        rows.sort(key=lambda row: row[0] == ErrorCode.OPERATION_NOT_ATTEMPTED)
        for code, topic, partition in rows:
            self._raise_for(code, topic=topic, partition=partition)

    async def add_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset | int],
        identity: Callable[[], MemberIdentity],
    ) -> None:
        """Where a group stands when the transaction is committed. Raises TransactionFailedError."""
        self.check_open()
        if not offsets:
            return
        self._has_begun = True

        async def commit() -> None:
            await self._group_coordinators.retrying(
                group_id, lambda connection: self._commit_offsets(connection, group_id, offsets, identity())
            )

        try:
            if not self.is_second_version:
                await self._ask(lambda connection: self._add_group(connection, group_id))
                self._is_known = True
            await while_epoch_is_stale(commit, self._cluster.retry_timeout_ms)
        except ClientError as error:
            if isinstance(error, ProducerFencedError):
                self._lose(error)
            else:
                self.fail(error, sequence_is_lost=False)
            self.check_open()

    async def _add_group(self, connection: Connection, group_id: str) -> None:
        producer = self._pair
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            group_id=group_id,
        )
        response = await self._cluster.ask(connection, request, AddOffsetsToTxnResponse)
        self._raise_for(response.error_code)

    async def _commit_offsets(
        self,
        connection: Connection,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset | int],
        identity: MemberIdentity,
    ) -> None:
        wire = txn_offset_commit_request
        producer = self._pair
        at_most = None if self.is_second_version else OFFSET_COMMIT_THAT_ADDS - 1
        request = wire.TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            topics=[
                wire.TxnOffsetCommitRequestTopic(
                    name=topic.name,
                    partitions=[
                        wire.TxnOffsetCommitRequestPartition(
                            partition_index=row.partition_index,
                            committed_offset=row.committed_offset,
                            committed_leader_epoch=row.committed_leader_epoch,
                            committed_metadata=row.committed_metadata,
                        )
                        for row in topic.partitions
                    ],
                )
                for topic in commit_topics(offsets)
            ],
        )
        if connection.version_for(request.API_KEY, at_most) >= OFFSET_COMMIT_WITH_MEMBER:
            request.generation_id = identity.epoch
            request.member_id = identity.member_id
            request.group_instance_id = identity.instance_id
        response = await connection.request(
            request,
            TxnOffsetCommitResponse,
            timeout_ms=self._cluster.request_timeout_ms,
            at_most=at_most,
        )
        for topic in response.topics:
            for row in topic.partitions:
                if row.error_code in _FENCED:
                    raise self._fenced()
                raise_for(row.error_code, group=group_id, topic=topic.name, partition=row.partition_index)

    # Ending.

    def prepare(self) -> PreparedTransaction:
        """All is delivered: from here on it is only a matter of a word."""
        self.check_open()
        producer = self._pair
        self.prepared = PreparedTransaction(producer.id, producer.epoch)
        self.state = PREPARED
        return self.prepared

    async def end(self, *, commit: bool) -> None:
        """All is delivered or given up. May be repeated if it fails in a way that passes."""
        self.state = COMMITTING if commit else ABORTING
        if self._has_begun:
            try:
                await self._ask(lambda connection: self._end(connection, commit))
            except BrokerError as error:
                never_begun = error.code == ErrorCode.INVALID_TXN_STATE and not (commit or self._is_known)
                if not never_begun:
                    if not error.retriable:
                        self._lose(error)
                    raise
        if self._needs_epoch and not self.is_second_version:
            await self._take_next_epoch()
        self._closed()

    async def _end(self, connection: Connection, commit: bool) -> None:
        producer = self._pair
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        response = await connection.request(
            request,
            EndTxnResponse,
            timeout_ms=self._cluster.request_timeout_ms,
            at_most=None if self.is_second_version else END_WITH_EPOCHS - 1,
        )
        self._raise_for(response.error_code)
        if self.is_second_version and response.producer_id >= 0:
            self.producer = ProducerId(response.producer_id, response.producer_epoch)

    async def _take_next_epoch(self) -> None:
        """In the first version: nobody knows which sequence number would be next, so start over with 0."""
        producer = self._pair
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
        )
        if self.two_phase_commit:
            request.enable2_pc = True
        await self._init(request)

    def _closed(self) -> None:
        self.state = READY
        self._error = None
        self.prepared = None
        self._needs_epoch = self._has_begun = self._is_known = False
        self._added.clear()
        self._wanted.clear()

    # Inside.

    @property
    def _pair(self) -> ProducerId:
        assert self.producer is not None, "init comes first"
        return self.producer

    async def _ask(self, attempt: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Ask the coordinator, again and elsewhere if need be; after some answers nothing can go on."""
        try:
            return await self._coordinators.retrying(self.transactional_id, attempt)
        except BrokerError as error:
            if error.code in _FATAL:
                self._lose(error)
            raise

    def _raise_for(self, code: int, *, topic: str | None = None, partition: int | None = None) -> None:
        if code in _FENCED:
            raise self._fenced()
        if code != ErrorCode.NONE:
            detail = None if topic is not None else f"transactional id {self.transactional_id!r}"
            raise broker_error(code, topic=topic, partition=partition, detail=detail)

    def _fenced(self) -> ProducerFencedError:
        return ProducerFencedError(
            ErrorCode.PRODUCER_FENCED,
            detail=f"another producer has transactional id {self.transactional_id!r}, or a transaction of it "
            "took longer than its time-out",
        )
