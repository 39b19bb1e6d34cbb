"""Transactions: list, describe, abort, find hanging ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from ottla.client.aio.cluster import ClusterClient
from ottla.client.core.batches import ProducerId
from ottla.client.core.group_wire import partitions_by_topic
from ottla.client.core.negotiation import Negotiated
from ottla.client.core.transaction_api import TransactionApi
from ottla.client.core.transaction_types import (
    STATES,
    HangingTransaction,
    ProducerState,
    TopicPartition,
    TransactionInfo,
    TransactionListing,
)
from ottla.client.errors import (
    ClientError,
    UnsupportedApiError,
    broker_error,
    raise_for,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import (
    describe_producers_request,
    write_txn_markers_request,
)
from ottla.protocol.messages.describe_producers_response import DescribeProducersResponse
from ottla.protocol.messages.list_transactions_request import ListTransactionsRequest
from ottla.protocol.messages.list_transactions_response import ListTransactionsResponse
from ottla.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse
from ottla.protocol.versions import LIST_TRANSACTIONS_DURATION_SINCE, LIST_TRANSACTIONS_PATTERN_SINCE

# transaction.max.timeout.ms of Kafka: no transaction may last longer.
MAX_TIMEOUT_MS = 900_000
FENCING_TIMEOUT_MS = 60_000
AT_ONCE_MAX = 50
PARTITIONS_PER_REQUEST = 1_000


class TransactionAdmin:
    """Lists and describes transactions, and aborts hanging ones."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster
        self._api = TransactionApi(cluster.core)

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Transactional ids by name, optionally filtered.

        Filters: states ("Ongoing", ...; case is ignored), producer ids, a minimum time since the start of
        the transaction, a regular expression for the name. The minimum time does not exclude ids without a
        transaction, and completed ones count from their start: add a state to list only open ones.
        """
        wanted = ListTransactionsRequest(
            state_filters=[_state_named(state) for state in states],
            producer_id_filters=list(producer_ids),
            duration_filter=longer_than_ms,
            transactional_id_pattern=pattern,
        )

        needed = LIST_TRANSACTIONS_DURATION_SINCE if longer_than_ms >= 0 else 0
        needed = needed if pattern is None else LIST_TRANSACTIONS_PATTERN_SINCE

        def build(peer: Negotiated) -> ListTransactionsRequest:
            if peer.version_for(wanted.API_KEY) < needed:
                raise UnsupportedApiError(f"{peer.address}: the broker is too old for this filter")
            return wanted

        async def attempt(node_id: int) -> list[TransactionListing]:
            response = await self._cluster.ask_node(node_id, build, ListTransactionsResponse)
            detail = None if pattern is None else f"pattern {pattern!r}"
            raise_for(response.error_code, detail=detail)
            return [
                TransactionListing(row.transactional_id, row.producer_id, row.transaction_state, node_id)
                for row in response.transaction_states
            ]

        await self._cluster.retrying(lambda: self._cluster.refresh([]))
        answers = await asyncio.gather(
            *(
                self._cluster.retrying(partial(attempt, node_id))
                for node_id in sorted(self._cluster.view.nodes)
            )
        )
        found = {row.transactional_id: row for rows in answers for row in rows}
        for row in found.values():
            self._api.coordinators.remember(row.transactional_id, row.coordinator)
        return [found[name] for name in sorted(found)]

    async def describe_transactions(
        self, transactional_ids: Sequence[str], *, missing_ok: bool = False
    ) -> list[TransactionInfo]:
        """Raises UnknownTransactionalIdError for the first that does not exist; `missing_ok` skips those."""
        at_once = asyncio.Semaphore(AT_ONCE_MAX)

        async def describe(name: str) -> TransactionInfo | None:
            async with at_once:
                info = await self._cluster.run(self._api.describe(name))
            if info is None and not missing_ok:
                raise broker_error(
                    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, detail=f"there is no transactional id {name!r}"
                )
            return info

        found = await asyncio.gather(*map(describe, transactional_ids))
        return [info for info in found if info is not None]

    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerState]]:
        """The producer states at the leaders of these partitions."""
        wire = describe_producers_request
        keys = list(dict.fromkeys(partitions))
        found: dict[TopicPartition, list[ProducerState]] = {}

        async def ask(node_id: int, chosen: Sequence[TopicPartition]) -> None:
            request = wire.DescribeProducersRequest(
                topics=[
                    wire.TopicRequest(name=topic, partition_indexes=numbers)
                    for topic, numbers in partitions_by_topic(chosen).items()
                ]
            )
            response = await self._cluster.ask_node(node_id, request, DescribeProducersResponse)
            for topic in response.topics:
                for row in topic.partitions:
                    raise_for(row.error_code, topic=topic.name, partition=row.partition_index)
                    found[topic.name, row.partition_index] = [
                        ProducerState(
                            each.producer_id,
                            each.producer_epoch,
                            each.last_sequence,
                            each.last_timestamp,
                            each.coordinator_epoch,
                            each.current_txn_start_offset,
                        )
                        for each in row.active_producers
                    ]

        async def attempt() -> None:
            leaders = await self._cluster.leaders_of(key for key in keys if key not in found)
            for node_id, owned in leaders.items():
                for at in range(0, len(owned), PARTITIONS_PER_REQUEST):
                    await ask(node_id, owned[at : at + PARTITIONS_PER_REQUEST])

        await self._cluster.retrying(attempt)
        return {key: found[key] for key in keys}

    # Ending.

    async def fence_producers(
        self, transactional_ids: Sequence[str], *, timeout_ms: int = FENCING_TIMEOUT_MS
    ) -> dict[str, ProducerId]:
        """Abort the open transactions of these ids and fence their producers; returns the new ids and epochs.

        An id that does not exist is created.
        """

        return {
            name: (await self._cluster.run(self._api.init(name, timeout_ms))).handle.producer
            for name in transactional_ids
        }

    async def abort_transaction(self, topic: str, partition: int, producer: ProducerState) -> None:
        """End a hanging transaction in one partition without its coordinator.

        `producer` is a result of `describe_producers`. Only for transactions that no coordinator will end:
        otherwise it ends one partition of a transaction and not the others. `find_hanging_transactions` finds
        them; `fence_producers` ends other transactions.
        """
        wire = write_txn_markers_request
        marker = wire.WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            coordinator_epoch=max(producer.coordinator_epoch, 0),
            transaction_result=False,
            topics=[wire.WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
        )
        request = wire.WriteTxnMarkersRequest(markers=[marker])

        async def attempt() -> None:
            leader = (await self._cluster.partition(topic, partition)).leader
            response = await self._cluster.ask_node(leader, request, WriteTxnMarkersResponse)
            for answered in response.markers:
                for row in answered.topics:
                    for each in row.partitions:
                        raise_for(each.error_code, topic=row.name, partition=each.partition_index)

        await self._cluster.retrying(attempt)

    async def find_hanging_transactions(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        max_timeout_ms: int = MAX_TIMEOUT_MS,
    ) -> list[HangingTransaction]:
        """Transactions that are open in these partitions (None: in all) and that no coordinator will end.

        Nothing was written in them for longer than any transaction may last, and no coordinator has the
        partition in a transaction of that producer.
        """
        keys = await self._all_partitions() if partitions is None else list(partitions)
        now_ms = time.time_ns() // 1_000_000
        suspects = [
            (key, producer)
            for key, producers in (await self.describe_producers(keys)).items()
            for producer in producers
            if producer.txn_start_offset >= 0 and now_ms - producer.last_timestamp_ms > max_timeout_ms
        ]
        if not suspects:
            return []
        owners = await self._owners({producer.producer_id for _, producer in suspects})
        return [
            HangingTransaction(
                *key,
                producer,
                owner.transactional_id if owner is not None else None,
                now_ms - producer.last_timestamp_ms,
            )
            for key, producer in suspects
            for owner in [owners.get(producer.producer_id)]
            if owner is None or key not in owner.partitions
        ]

    async def owner_of(self, producer_id: int) -> TransactionInfo | None:
        """The transactional id whose producer has this id."""
        return (await self._owners([producer_id])).get(producer_id)

    async def _owners(self, producer_ids: Iterable[int]) -> Mapping[int, TransactionInfo]:
        listed = await self.list_transactions(producer_ids=sorted(producer_ids))
        names = [row.transactional_id for row in listed]
        described = await self.describe_transactions(names, missing_ok=True)
        return {info.producer_id: info for info in described}

    async def _all_partitions(self) -> list[TopicPartition]:
        await self._cluster.retrying(lambda: self._cluster.refresh(None))
        topics = self._cluster.view.topics
        return [
            (name, row.partition)
            for name in sorted(topics)
            for row in topics[name].partitions.values()
            if row.leader >= 0
        ]


def _state_named(text: str) -> str:
    for state in STATES:
        if state.lower() == text.lower():
            return state
    raise ClientError(f"{text!r} is not a state of a transaction: expected one of {', '.join(STATES)}")
