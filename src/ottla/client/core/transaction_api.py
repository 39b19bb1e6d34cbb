"""Requests about transactions to their coordinators, in both versions of the protocol.

Version 2 (KIP-890) is used where the cluster has finalized `transaction.version` 2: leaders add partitions by
themselves, and every end of a transaction gives a new epoch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ottla.client.core.batches import ProducerId
from ottla.client.core.cluster import UNREACHABLE, ClusterCore, TopicPartition
from ottla.client.core.coordinators import GROUP, TRANSACTION, Coordinators
from ottla.client.core.group_offsets import MemberIdentity
from ottla.client.core.group_types import CommittedOffset
from ottla.client.core.group_wire import partitions_by_topic
from ottla.client.core.negotiation import Negotiated
from ottla.client.core.retry import Backoff
from ottla.client.core.steps import CallMany, Pause, Result, Steps
from ottla.client.core.transaction_offsets import NAMES_UNTIL, txn_offset_commit
from ottla.client.core.transaction_types import TransactionInfo, info_of
from ottla.client.errors import (
    BrokerError,
    ClientError,
    ProducerFencedError,
    UnsupportedApiError,
    broker_error,
    raise_for,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages import add_partitions_to_txn_request
from ottla.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from ottla.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ottla.protocol.messages.describe_transactions_response import DescribeTransactionsResponse
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.end_txn_response import EndTxnResponse
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.messages.list_transactions_request import ListTransactionsRequest
from ottla.protocol.messages.list_transactions_response import ListTransactionsResponse
from ottla.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from ottla.protocol.versions import (
    ADD_PARTITIONS_TO_TXN_BATCHES_SINCE,
    END_TXN_EPOCH_BUMP_SINCE,
    INIT_PRODUCER_ID_TWO_PHASE_SINCE,
    LIST_TRANSACTIONS_PATTERN_SINCE,
    TXN_OFFSET_COMMIT_ADDS_PARTITIONS_SINCE,
)

FEATURE = "transaction.version"
SECOND_VERSION = 2

# The default of Kafka's clients.
TIMEOUT_MS = 60_000
# A coordinator needs milliseconds for the end of the previous transaction.
BACKOFF_FIRST_MS = 5
ENDS_IN_FLIGHT_MAX = 50
FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
# Brokers that know the request, but do not offer two-phase commit to this client.
NO_TWO_PHASE_COMMIT = (
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_REQUEST,
)


class TransactionHandle(NamedTuple):
    """The identity needed to end a transaction in any process; `waits`: it has no time-out."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    version: int = SECOND_VERSION
    waits: bool = False

    @property
    def is_second_version(self) -> bool:
        return self.version >= SECOND_VERSION

    @property
    def producer(self) -> ProducerId:
        return ProducerId(self.producer_id, self.producer_epoch)


class PreparedTransaction(NamedTuple):
    """What names a prepared transaction: to be stored with the other resource of a two-phase commit."""

    producer_id: int
    producer_epoch: int


class Initialized(NamedTuple):
    """The result of InitProducerId; `ongoing` is the prepared transaction that was kept."""

    handle: TransactionHandle
    ongoing: PreparedTransaction | None


Ends = dict[TransactionHandle, TransactionHandle | BrokerError]


class TransactionApi:
    """Stateless except for cached coordinators; one per cluster client is enough."""

    def __init__(self, cluster: ClusterCore) -> None:
        self.cluster = cluster
        self.coordinators = Coordinators(cluster, TRANSACTION)
        self.group_coordinators = Coordinators(cluster, GROUP)

    # One transaction.

    def init(
        self,
        transactional_id: str,
        timeout_ms: int = TIMEOUT_MS,
        *,
        previous: ProducerId | None = None,
        two_phase_commit: bool = False,
        keep_prepared: bool = False,
    ) -> Steps[Initialized]:
        """Take the id: older producers with it are fenced, and what they left open is aborted.

        With `previous`, the producer itself gets a new epoch.
        """
        version = 0

        def build(peer: Negotiated) -> Message:
            nonlocal version
            version = _version_of(peer)
            request = InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
            )
            if previous is not None:
                request.producer_id, request.producer_epoch = previous
            if two_phase_commit:
                if (
                    peer.version_for(request.API_KEY, INIT_PRODUCER_ID_TWO_PHASE_SINCE)
                    < INIT_PRODUCER_ID_TWO_PHASE_SINCE
                ):
                    raise UnsupportedApiError(
                        f"{peer.address}: the cluster has no two-phase commit: its brokers need "
                        "transaction.two.phase.commit.enable=true"
                    )
                request.enable2_pc, request.keep_prepared_txn = True, keep_prepared
            return request

        def attempt(node_id: int) -> Steps[Initialized]:
            at_most = INIT_PRODUCER_ID_TWO_PHASE_SINCE if two_phase_commit else None
            response = yield from self.cluster.ask_node(
                node_id, build, InitProducerIdResponse, at_most=at_most
            )
            _raise_for(response.error_code, transactional_id)
            handle = TransactionHandle(
                transactional_id, response.producer_id, response.producer_epoch, version
            )
            ongoing = None
            if response.ongoing_txn_producer_id >= 0:
                ongoing = PreparedTransaction(
                    response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch
                )
            return Initialized(handle, ongoing)

        return (yield from self._retrying(transactional_id, attempt))

    def add_partitions(self, handle: TransactionHandle, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Add partitions to the transaction before they are written, as protocol version 1 requires."""
        wire = add_partitions_to_txn_request
        request = wire.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=handle.transactional_id,
            v3_and_below_producer_id=handle.producer_id,
            v3_and_below_producer_epoch=handle.producer_epoch,
            v3_and_below_topics=[
                wire.AddPartitionsToTxnTopic(name=topic, partitions=numbers)
                for topic, numbers in partitions_by_topic(partitions).items()
            ],
        )

        def attempt(node_id: int) -> Steps[None]:
            response = yield from self.cluster.ask_node(
                node_id, request, AddPartitionsToTxnResponse, at_most=ADD_PARTITIONS_TO_TXN_BATCHES_SINCE - 1
            )
            rows = [
                (row.partition_error_code, topic.name, row.partition_index)
                for topic in response.results_by_topic_v3_and_below
                for row in topic.results_by_partition
            ]
            # If one partition is refused the others are not attempted: the reason is in its row.
            rows.sort(key=lambda row: row[0] == ErrorCode.OPERATION_NOT_ATTEMPTED)
            for code, topic, partition in rows:
                _raise_for(code, handle.transactional_id, topic, partition)

        yield from self._retrying(handle.transactional_id, attempt)

    def add_offsets(
        self,
        handle: TransactionHandle,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset | int],
        identity: Callable[[], MemberIdentity],
    ) -> Steps[None]:
        """Commit offsets of a group with the transaction; in version 1 the group must be added before."""

        def attempt(node_id: int) -> Steps[None]:
            at_most = NAMES_UNTIL if handle.is_second_version else TXN_OFFSET_COMMIT_ADDS_PARTITIONS_SINCE - 1
            response = yield from self.cluster.ask_node(
                node_id,
                lambda peer: txn_offset_commit(
                    peer, handle.transactional_id, handle.producer, group_id, offsets, identity(), at_most
                ),
                TxnOffsetCommitResponse,
                at_most=at_most,
            )
            for topic in response.topics:
                for row in topic.partitions:
                    if row.error_code in FENCED:
                        raise fenced(handle.transactional_id)
                    raise_for(row.error_code, group=group_id, topic=topic.name, partition=row.partition_index)

        yield from self.group_coordinators.retrying(group_id, attempt)

    def add_group(self, handle: TransactionHandle, group_id: str) -> Steps[None]:
        """Announce to the coordinator that offsets of a group will be committed."""
        request = AddOffsetsToTxnRequest(
            transactional_id=handle.transactional_id,
            producer_id=handle.producer_id,
            producer_epoch=handle.producer_epoch,
            group_id=group_id,
        )

        def attempt(node_id: int) -> Steps[None]:
            response = yield from self.cluster.ask_node(node_id, request, AddOffsetsToTxnResponse)
            _raise_for(response.error_code, handle.transactional_id)

        yield from self._retrying(handle.transactional_id, attempt)

    def keep(self, handle: TransactionHandle) -> Steps[TransactionHandle]:
        """Let the transaction wait for its end without a time-out, where brokers offer two-phase commit.

        Nothing may be written into it any more. Raises a BrokerError if it is no longer open.
        """
        request = InitProducerIdRequest(
            transactional_id=handle.transactional_id,
            transaction_timeout_ms=TIMEOUT_MS,
            enable2_pc=True,
            keep_prepared_txn=True,
        )

        def attempt(node_id: int) -> Steps[TransactionHandle]:
            peer = yield from self.cluster.peer(node_id)
            offered = peer.broker_versions.get(InitProducerIdRequest.API_KEY, (0, 0))[1]
            if offered < INIT_PRODUCER_ID_TWO_PHASE_SINCE:
                return handle
            response = yield from self.cluster.ask_node(
                node_id, request, InitProducerIdResponse, at_most=INIT_PRODUCER_ID_TWO_PHASE_SINCE
            )
            if response.error_code in NO_TWO_PHASE_COMMIT:
                return handle
            _raise_for(response.error_code, handle.transactional_id)
            pair = (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
            if pair != handle.producer:
                raise broker_error(
                    ErrorCode.INVALID_TXN_STATE,
                    detail=f"the transaction of {handle.transactional_id!r} was ended by another client, "
                    "or by its time-out, before it was prepared",
                )
            return handle._replace(
                producer_id=response.producer_id, producer_epoch=response.producer_epoch, waits=True
            )

        return (yield from self._retrying(handle.transactional_id, attempt))

    # Ends.

    def end(self, handle: TransactionHandle, *, commit: bool) -> Steps[TransactionHandle]:
        """End one transaction; returns the handle of the next. Raises the coordinator's error."""
        (result,) = (yield from self.end_all([handle], commit=commit)).values()
        if isinstance(result, BrokerError):
            raise result
        return result

    def end_all(
        self, handles: Sequence[TransactionHandle], *, commit: bool, timeout_ms: float | None = None
    ) -> Steps[Ends]:
        """End them all; for each the handle of the next transaction, or the coordinator's refusal.

        Raises a retriable error that lasted too long: whether they are ended is unknown then, so repeat it.
        """
        retry = self.cluster.retry(timeout_ms, backoff=self._backoff())
        ended: Ends = {}
        while True:
            pending = [handle for handle in handles if handle not in ended]
            failure = (yield from self._end_round(pending, commit, ended)) if pending else None
            if failure is None:
                return ended
            yield Pause(retry.pause_ms(failure))

    def _end_round(
        self, pending: Sequence[TransactionHandle], commit: bool, ended: Ends
    ) -> Steps[ClientError | None]:
        """One attempt for each; a retriable error, if there was one."""
        failure: ClientError | None = None
        try:
            yield from self.coordinators.find_all(handle.transactional_id for handle in pending)
        except ClientError as error:
            if not error.retriable:
                raise
            failure = error
        groups: dict[int, list[TransactionHandle]] = {}
        for handle in pending:
            node_id = self.coordinators.known(handle.transactional_id)
            if node_id is not None:
                groups.setdefault(node_id, []).append(handle)
        for node_id, group in groups.items():
            try:
                for at in range(0, len(group), ENDS_IN_FLIGHT_MAX):
                    some = group[at : at + ENDS_IN_FLIGHT_MAX]
                    failure = (yield from self._end_some(node_id, some, commit, ended)) or failure
            except UNREACHABLE as error:
                self.coordinators.forget(handle.transactional_id for handle in group)
                failure = error
        return failure

    def _end_some(
        self, node_id: int, handles: Sequence[TransactionHandle], commit: bool, ended: Ends
    ) -> Steps[ClientError | None]:
        messages = [
            (
                EndTxnRequest(
                    transactional_id=handle.transactional_id,
                    producer_id=handle.producer_id,
                    producer_epoch=handle.producer_epoch,
                    committed=commit,
                ),
                None if handle.is_second_version else END_TXN_EPOCH_BUMP_SINCE - 1,
            )
            for handle in handles
        ]
        node = yield from self.cluster.node(node_id)
        responses: list[EndTxnResponse] = yield CallMany(node.address, messages, EndTxnResponse)
        failure: ClientError | None = None
        for handle, response in zip(handles, responses, strict=True):
            if response.error_code == ErrorCode.NONE:
                ended[handle] = handle
                if handle.is_second_version and response.producer_id >= 0:
                    pair = (response.producer_id, response.producer_epoch)
                    ended[handle] = handle._replace(producer_id=pair[0], producer_epoch=pair[1], waits=False)
                continue
            error = _error(response.error_code, handle.transactional_id)
            self.coordinators.failed(handle.transactional_id, error)
            if error.retriable:
                failure = error
            else:
                ended[handle] = error
        return failure

    def fence(self, transactional_id: str) -> Steps[None]:
        """Abort whatever is open under this id; its producers cannot continue."""
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS)

        def attempt(node_id: int) -> Steps[None]:
            response = yield from self.cluster.ask_node(node_id, request, InitProducerIdResponse)
            # CONCURRENT_TRANSACTIONS: its end is decided, if not yet written everywhere.
            if response.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                _raise_for(response.error_code, transactional_id)

        yield from self._retrying(transactional_id, attempt)

    # Queries.

    def open_ids(self, prefix: str, *, all_brokers: bool = True) -> Steps[list[str]]:
        """The transactional ids that begin with `prefix` and have an open transaction.

        Without `all_brokers`, those that cannot be reached are left out: their ids have, or will have,
        another coordinator.
        """
        yield from self.cluster.retrying(lambda: self.cluster.refresh([]))
        found: dict[str, None] = {}
        for node_id in list(self.cluster.view.nodes):
            try:
                attempt = partial(self._open_ids_at, node_id, prefix)
                names = yield from self.cluster.retrying(attempt) if all_brokers else attempt()
            except ClientError as error:
                if all_brokers or not error.retriable:
                    raise
                continue
            found.update(dict.fromkeys(names))
        return list(found)

    def _open_ids_at(self, node_id: int, prefix: str) -> Steps[list[str]]:
        def build(peer: Negotiated) -> Message:
            request = ListTransactionsRequest(state_filters=["Ongoing"])
            if peer.version_for(request.API_KEY) >= LIST_TRANSACTIONS_PATTERN_SINCE:
                # Only reduces the response: the syntax of patterns differs, so names are checked below.
                request.transactional_id_pattern = re.sub("[^A-Za-z0-9_-]", ".", prefix) + ".*"
            return request

        response = yield from self.cluster.ask_node(node_id, build, ListTransactionsResponse)
        raise_for(response.error_code)
        names = [row.transactional_id for row in response.transaction_states]
        return [name for name in names if name.startswith(prefix)]

    def describe(self, transactional_id: str) -> Steps[TransactionInfo | None]:
        """The coordinator's state of an id; None if the id is unknown."""
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

        def attempt(node_id: int) -> Steps[TransactionInfo | None]:
            response = yield from self.cluster.ask_node(node_id, request, DescribeTransactionsResponse)
            if not response.transaction_states:
                raise broker_error(
                    ErrorCode.UNKNOWN_SERVER_ERROR, detail=f"no response for {transactional_id!r}"
                )
            row = response.transaction_states[0]
            if row.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return None
            _raise_for(row.error_code, transactional_id)
            return info_of(row, node_id)

        return (yield from self._retrying(transactional_id, attempt))

    # Internal.

    def _retrying(self, transactional_id: str, attempt: Callable[[int], Steps[Result]]) -> Steps[Result]:
        return self.coordinators.retrying(transactional_id, attempt, backoff=self._backoff())

    def _backoff(self) -> Backoff:
        options = self.cluster.options
        return Backoff(
            min(BACKOFF_FIRST_MS, options.retry_backoff_ms), options.retry_backoff_max_ms, self.cluster.clock
        )


def _version_of(peer: Negotiated) -> int:
    """The version of the transaction protocol to use with this cluster."""
    version = peer.features.get(FEATURE, 0)
    if peer.version_for(EndTxnRequest.API_KEY) < END_TXN_EPOCH_BUMP_SINCE:
        version = min(version, SECOND_VERSION - 1)
    return version


def fenced(transactional_id: str) -> ProducerFencedError:
    return ProducerFencedError(
        ErrorCode.PRODUCER_FENCED,
        detail=f"another producer has transactional id {transactional_id!r}, or a transaction of it "
        "took longer than its time-out",
    )


def _error(
    code: int, transactional_id: str, topic: str | None = None, partition: int | None = None
) -> BrokerError:
    if code in FENCED:
        return fenced(transactional_id)
    detail = f"transactional id {transactional_id!r}"
    if code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
        detail += ": its time-out is above the brokers' transaction.max.timeout.ms"
    return broker_error(code, topic=topic, partition=partition, detail=None if topic else detail)


def _raise_for(
    code: int, transactional_id: str, topic: str | None = None, partition: int | None = None
) -> None:
    if code != ErrorCode.NONE:
        raise _error(code, transactional_id, topic, partition)
