"""Transactions for code without an event loop: begun in one process, ended in another.

    with ArrowWriter(cluster, "orders", transactional_id="load-7") as writer:
        writer.begin()
        writer.write(rows)
        handle = writer.prepare()           # all of it is at the brokers; give the handle to whoever decides
    ...
    end_transactions(cluster, [handle], commit=True)

A prepared transaction keeps the time-out that it began with, unless the brokers have two-phase commit
(KIP-939): there it waits for its end for as long as that takes. Ending is idempotent: it may be repeated
until it is heard.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from ottla.client.blocking.cluster import SyncCluster
from ottla.client.blocking.connection import SyncConnection
from ottla.client.core.offsets import TopicPartition
from ottla.client.core.retry import Backoff, Deadline
from ottla.client.core.transaction_types import TransactionInfo, info_of
from ottla.client.core.transaction_versions import (
    ADD_BY_CLIENTS,
    END_WITH_EPOCHS,
    FEATURE,
    INIT_WITH_TWO_PHASES,
    LIST_BY_PATTERN,
    SECOND_VERSION,
)
from ottla.client.errors import (
    BrokerError,
    ClientError,
    ConnectionFailedError,
    RequestTimeoutError,
    broker_error,
    raise_for,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from ottla.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ottla.protocol.messages.describe_transactions_response import DescribeTransactionsResponse
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.end_txn_response import EndTxnResponse
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.messages.list_transactions_request import ListTransactionsRequest
from ottla.protocol.messages.list_transactions_response import ListTransactionsResponse

# What InitProducerId is told where nobody waits for the transaction: the default of Kafka's clients.
TIMEOUT_MS = 60_000
TRANSACTION = 1
FIND_SEVERAL = 4
ASKED_AHEAD_MAX = 50
BACKOFF_FIRST_MS = 5
REMEMBERED_MAX = 10_000
ELSEWHERE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
# Brokers that know the request, but have no such thing, or not for us.
NO_TWO_PHASES = (
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_REQUEST,
)

Result = TypeVar("Result")
Response = TypeVar("Response", bound=Message)


class TransactionHandle(NamedTuple):
    """What it takes to end a transaction, from wherever; `waits` if it has no time-out."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    version: int = SECOND_VERSION
    waits: bool = False

    @property
    def is_second_version(self) -> bool:
        return self.version >= SECOND_VERSION


class SyncTransactions:
    """Asks the coordinators of transactional ids; one for each SyncCluster is enough."""

    def __init__(self, cluster: SyncCluster) -> None:
        self.cluster = cluster
        self._nodes: dict[str, int] = {}

    # One transaction.

    def init(self, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> TransactionHandle:
        """Take the id: whoever had it is fenced, and what it left open is aborted."""
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)

        def attempt(connection: SyncConnection) -> TransactionHandle:
            response = self._ask(connection, request, InitProducerIdResponse)
            self._raise_for(response.error_code, transactional_id)
            version = connection.features.get(FEATURE, 0)
            if connection.version_for(EndTxnRequest.API_KEY) < END_WITH_EPOCHS:
                version = min(version, SECOND_VERSION - 1)
            return TransactionHandle(transactional_id, response.producer_id, response.producer_epoch, version)

        return self.retrying(transactional_id, attempt)

    def add_partitions(self, handle: TransactionHandle, partitions: Iterable[TopicPartition]) -> None:
        """Tell the coordinator what is about to be written: the first version of the protocol wants it."""
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=handle.transactional_id,
            v3_and_below_producer_id=handle.producer_id,
            v3_and_below_producer_epoch=handle.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics.items()
            ],
        )

        def attempt(connection: SyncConnection) -> None:
            response = self._ask(connection, request, AddPartitionsToTxnResponse, ADD_BY_CLIENTS)
            codes = [
                row.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for row in topic.results_by_partition
            ]
            # The others of a request are not even tried: the reason stands with the one that was refused.
            for code in sorted(codes, key=lambda code: code == ErrorCode.OPERATION_NOT_ATTEMPTED):
                self._raise_for(code, handle.transactional_id)

        self.retrying(handle.transactional_id, attempt)

    def keep(self, handle: TransactionHandle) -> TransactionHandle:
        """Let the transaction wait for its end without a time-out, where brokers can do that.

        Nothing may be written into it any more. Raises a BrokerError if it is not open any more.
        """
        request = InitProducerIdRequest(
            transactional_id=handle.transactional_id,
            transaction_timeout_ms=TIMEOUT_MS,
            enable2_pc=True,
            keep_prepared_txn=True,
        )

        def attempt(connection: SyncConnection) -> TransactionHandle:
            offered = connection.broker_versions.get(InitProducerIdRequest.API_KEY, (0, 0))[1]
            if offered < INIT_WITH_TWO_PHASES:
                return handle
            response = self._ask(connection, request, InitProducerIdResponse, INIT_WITH_TWO_PHASES)
            if response.error_code in NO_TWO_PHASES:
                return handle
            self._raise_for(response.error_code, handle.transactional_id)
            pair = (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
            if pair != (handle.producer_id, handle.producer_epoch):
                raise broker_error(
                    ErrorCode.INVALID_TXN_STATE,
                    detail=f"the transaction of {handle.transactional_id!r} was ended by others, "
                    "or by its time-out, before it was prepared",
                )
            return handle._replace(
                producer_id=response.producer_id, producer_epoch=response.producer_epoch, waits=True
            )

        return self.retrying(handle.transactional_id, attempt)

    # Ends.

    def end(
        self, handles: Sequence[TransactionHandle], *, commit: bool, timeout_ms: float | None = None
    ) -> dict[TransactionHandle, TransactionHandle | BrokerError]:
        """End them all; for each the handle of the next transaction, or why the coordinator refused.

        Raises what passes, but did not pass in time: they may be ended or not then. Try again.
        """
        deadline = Deadline(self.cluster.options.retry_timeout_ms if timeout_ms is None else timeout_ms)
        backoff = self._backoff()
        ended: dict[TransactionHandle, TransactionHandle | BrokerError] = {}
        while True:
            pending = [handle for handle in handles if handle not in ended]
            failure = self._end_round(pending, commit, ended) if pending else None
            if failure is None:
                return ended
            if deadline.passed:
                raise failure
            time.sleep(min(backoff.next_ms(), deadline.left_ms) / 1000)

    def _end_round(
        self,
        pending: list[TransactionHandle],
        commit: bool,
        ended: dict[TransactionHandle, TransactionHandle | BrokerError],
    ) -> ClientError | None:
        """Ask once for each; something that passes, if it was in the way."""
        failure: ClientError | None = None
        groups: dict[int, list[TransactionHandle]] = {}
        try:
            self._find([handle.transactional_id for handle in pending])
        except ClientError as error:
            if not error.retriable:
                raise
            failure = error
        for handle in pending:
            if handle.transactional_id in self._nodes:
                groups.setdefault(self._nodes[handle.transactional_id], []).append(handle)
        for node_id, group in groups.items():
            try:
                with self.cluster.connection_to(node_id) as connection:
                    for at in range(0, len(group), ASKED_AHEAD_MAX):
                        some = group[at : at + ASKED_AHEAD_MAX]
                        failure = self._end_some(connection, some, commit, ended) or failure
            except (ConnectionFailedError, RequestTimeoutError) as error:
                self._forget(handle.transactional_id for handle in group)
                failure = error
        return failure

    def _end_some(
        self,
        connection: SyncConnection,
        handles: list[TransactionHandle],
        commit: bool,
        ended: dict[TransactionHandle, TransactionHandle | BrokerError],
    ) -> ClientError | None:
        for handle in handles:
            request = EndTxnRequest(
                transactional_id=handle.transactional_id,
                producer_id=handle.producer_id,
                producer_epoch=handle.producer_epoch,
                committed=commit,
            )
            at_most = None if handle.is_second_version else END_WITH_EPOCHS - 1
            connection.send(request, timeout_ms=self.cluster.options.request_timeout_ms, at_most=at_most)
        failure: ClientError | None = None
        for handle in handles:
            response = connection.receive(EndTxnResponse)
            if response.error_code == ErrorCode.NONE:
                pair = (response.producer_id, response.producer_epoch)
                ended[handle] = handle
                if pair[0] >= 0:
                    ended[handle] = handle._replace(producer_id=pair[0], producer_epoch=pair[1], waits=False)
                continue
            error = _error(response.error_code, handle.transactional_id)
            if error.code in ELSEWHERE:
                self._forget([handle.transactional_id])
            if error.retriable:
                failure = error
            else:
                ended[handle] = error
        return failure

    def fence(self, transactional_id: str) -> None:
        """Abort whatever is open under this id, and leave nobody able to go on with it."""
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS)

        def attempt(connection: SyncConnection) -> None:
            response = self._ask(connection, request, InitProducerIdResponse)
            # Its end is decided, if not written everywhere.
            if response.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                self._raise_for(response.error_code, transactional_id)

        self.retrying(transactional_id, attempt)

    # Looking.

    def open_ids(self, prefix: str, *, all_brokers: bool = True) -> list[str]:
        """The transactional ids that begin with `prefix` and have an open transaction.

        Without `all_brokers`, those that cannot tell now are left out: their ids have, or will have, another
        coordinator.
        """
        self.cluster.retrying(lambda: self.cluster.refresh([]))
        found: dict[str, None] = {}
        for node_id in list(self.cluster.view.nodes):
            try:
                attempt = partial(self._open_ids_at, node_id, prefix)
                names = self.cluster.retrying(attempt) if all_brokers else attempt()
            except ClientError as error:
                if all_brokers or not error.retriable:
                    raise
                continue
            found.update(dict.fromkeys(names))
        return list(found)

    def _open_ids_at(self, node_id: int, prefix: str) -> list[str]:
        with self.cluster.connection_to(node_id) as connection:
            request = ListTransactionsRequest(state_filters=["Ongoing"])
            if connection.version_for(request.API_KEY) >= LIST_BY_PATTERN:
                # To ask for fewer; syntax of patterns differs, so what matters is looked at below.
                request.transactional_id_pattern = re.sub("[^A-Za-z0-9_-]", ".", prefix) + ".*"
            response = self._ask(connection, request, ListTransactionsResponse)
        raise_for(response.error_code)
        names = [row.transactional_id for row in response.transaction_states]
        return [name for name in names if name.startswith(prefix)]

    def describe(self, transactional_ids: Sequence[str]) -> dict[str, TransactionInfo]:
        """What coordinators know of these ids; those that are unknown are left out."""
        found: dict[str, TransactionInfo] = {}
        for transactional_id in transactional_ids:
            info = self.retrying(transactional_id, partial(self._info, transactional_id))
            if info is not None:
                found[transactional_id] = info
        return found

    def _info(self, transactional_id: str, connection: SyncConnection) -> TransactionInfo | None:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        (row,) = self._ask(connection, request, DescribeTransactionsResponse).transaction_states
        if row.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        self._raise_for(row.error_code, transactional_id)
        return info_of(row, self._nodes[transactional_id])

    # Coordinators.

    def retrying(self, transactional_id: str, attempt: Callable[[SyncConnection], Result]) -> Result:
        """Do it at the coordinator, again while it fails in ways that pass."""
        deadline = Deadline(self.cluster.options.retry_timeout_ms)
        backoff = self._backoff()
        while True:
            try:
                with self._coordinator(transactional_id) as connection:
                    return attempt(connection)
            except ClientError as error:
                if not isinstance(error, BrokerError) or error.code in ELSEWHERE:
                    self._forget([transactional_id])
                if not error.retriable or deadline.passed:
                    raise
            time.sleep(min(backoff.next_ms(), deadline.left_ms) / 1000)

    @contextlib.contextmanager
    def _coordinator(self, transactional_id: str) -> Iterator[SyncConnection]:
        self._find([transactional_id])
        with self.cluster.connection_to(self._nodes[transactional_id]) as connection:
            yield connection

    def _find(self, transactional_ids: Iterable[str]) -> None:
        """Raises a retriable error if one has no coordinator; the others are known then."""
        unknown = [name for name in dict.fromkeys(transactional_ids) if name not in self._nodes]
        if not unknown:
            return
        if len(self._nodes) > REMEMBERED_MAX:
            self._nodes.clear()
        failure = self.cluster.on_any(lambda connection: self._find_at(connection, unknown))
        if failure is not None:
            raise failure

    def _find_at(self, connection: SyncConnection, unknown: list[str]) -> BrokerError | None:
        several = connection.version_for(FindCoordinatorRequest.API_KEY) >= FIND_SEVERAL
        failure = None
        for names in [unknown] if several else [[name] for name in unknown]:
            request = FindCoordinatorRequest(key_type=TRANSACTION)
            if several:
                request.coordinator_keys = names
            else:
                request.key = names[0]
            response = self._ask(connection, request, FindCoordinatorResponse)
            if several:
                found = {row.key: (row.node_id, row.error_code) for row in response.coordinators}
            else:
                found = {names[0]: (response.node_id, response.error_code)}
            for name, (node_id, code) in found.items():
                if code != ErrorCode.NONE:
                    failure = _error(code, name)
                else:
                    self._nodes[name] = node_id
        return failure

    def _forget(self, transactional_ids: Iterable[str]) -> None:
        for name in transactional_ids:
            self._nodes.pop(name, None)

    def _ask(
        self,
        connection: SyncConnection,
        request: Message,
        response: type[Response],
        at_most: int | None = None,
    ) -> Response:
        timeout_ms = self.cluster.options.request_timeout_ms
        return connection.request(request, response, timeout_ms=timeout_ms, at_most=at_most)

    def _raise_for(self, code: int, transactional_id: str) -> None:
        if code != ErrorCode.NONE:
            raise _error(code, transactional_id)

    def _backoff(self) -> Backoff:
        # Most of what is in the way here is the end of the transaction before, and takes milliseconds.
        return Backoff(BACKOFF_FIRST_MS, self.cluster.options.retry_backoff_max_ms)


def _error(code: int, transactional_id: str) -> BrokerError:
    detail = f"transactional id {transactional_id!r}"
    if code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
        detail += ": its time-out is above the brokers' transaction.max.timeout.ms"
    return broker_error(code, detail=detail)


def end_transactions(cluster: SyncCluster, handles: Sequence[TransactionHandle], *, commit: bool) -> None:
    """Commit or abort transactions that `ArrowWriter.prepare` has left open, in whatever process.

    It may be repeated: what is ended already in the same way is let be. Raises the first refusal.
    """
    for result in SyncTransactions(cluster).end(handles, commit=commit).values():
        if isinstance(result, BrokerError):
            raise result
