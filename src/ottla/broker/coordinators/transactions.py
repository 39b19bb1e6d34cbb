"""The transaction coordinator: the shards of __transaction_state that this broker leads, and what they need.

Besides hosting the shards it gives them unused producer ids, sends their markers, and lets requests wait
until the markers of the previous transaction are written. The machine, `ottla.transactions`, is imported
when the first transaction needs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.hosted_shard import HostedShard
from ottla.broker.coordinators.hosted_shards import HostedShards
from ottla.broker.coordinators.replies import in_background
from ottla.broker.metadata.topic_creator import TRANSACTION_TOPIC
from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.versions import ADD_PARTITIONS_TO_TXN_BATCHES_SINCE

if TYPE_CHECKING:
    from ottla.broker.background import BackgroundTasks
    from ottla.broker.coordinators.marker_sender import MarkerSender
    from ottla.broker.coordinators.replies import Refuse, Reply, Result
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata.producer_ids import ProducerIds
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.replicas.partition_table import PartitionTable
    from ottla.config.load import BrokerConfig
    from ottla.controller.image.parts import ImageDelta
    from ottla.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnTransaction
    from ottla.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResult
    from ottla.transactions.config import TransactionsConfig
    from ottla.transactions.markers import Markers
    from ottla.transactions.shard import TransactionShard

WRITE_TIMEOUT_MS = 5000
FRESH_IDS_MAX = 3  # attempts per request: another client may have used up the epochs in between
NO_ID = -1

# Machine, time, an unused producer id or NO_ID.
Decide = Callable[["TransactionShard", int, int], Outcome]


def _has_concurrent_code(reply: Any) -> bool:
    return bool(reply.error_code == ErrorCode.CONCURRENT_TRANSACTIONS)


class TransactionCoordinator:
    """`make_marker_sender` is called when the first transaction ends."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        identity: NodeIdentity,
        metadata: MetadataCache,
        partitions: PartitionTable,
        producer_ids: ProducerIds,
        clock: Callable[[], int],
        monotonic_ms: Callable[[], int],
        tasks: BackgroundTasks,
        make_marker_sender: Callable[[Callable[[int, Markers], None]], MarkerSender],
    ) -> None:
        self._broker_config = config
        self._metadata = metadata
        self._producer_ids = producer_ids
        self._make_marker_sender = make_marker_sender
        self._retry_ms_max = config.get_int("add.partitions.to.txn.retry.backoff.max.ms")
        self._config: TransactionsConfig | None = None
        self._encode: Callable[[Any, Any], tuple[bytes, bytes | None]] | None = None
        self._marker_sender: MarkerSender | None = None
        # Requests that wait until the markers of the previous transaction of their id are written.
        self._waiting_for_markers: dict[str, list[asyncio.Future[None]]] = {}
        self.shards: HostedShards[TransactionShard] = HostedShards(
            TRANSACTION_TOPIC,
            identity=identity,
            metadata=metadata,
            partitions=partitions,
            clock=clock,
            monotonic_ms=monotonic_ms,
            tasks=tasks,
            make_machine=self._make_machine,
            encode=self._encode_record,
            write_timeout_ms=WRITE_TIMEOUT_MS,
            on_ended=self._shard_ended,
            on_effects=self._send_markers,
        )

    def start(self) -> None:
        self.shards.start()

    async def stop(self) -> None:
        await self.shards.stop()
        for waiters in [*self._waiting_for_markers.values()]:
            for waiter in waiters:
                waiter.cancel()
        if self._marker_sender is not None:
            await self._marker_sender.stop()

    # -- machines

    def _make_machine(self, partition: Partition) -> TransactionShard:
        from ottla.transactions.config import TransactionsConfig
        from ottla.transactions.shard import TransactionShard

        if self._config is None:
            self._config = TransactionsConfig(self._broker_config)
        return TransactionShard(self._config, partition.leader_epoch)

    def _encode_record(self, record: Any) -> tuple[bytes, bytes | None]:
        if self._encode is None:
            # Cached: an import statement takes as long as the encoding, even of a loaded module.
            from ottla.transactions.record_codec import encode_record

            self._encode = encode_record
        return self._encode(*record)

    def image_changed(self, delta: ImageDelta) -> None:
        self.shards.image_changed(delta)
        if self._marker_sender is not None and (delta.partitions or delta.topics_deleted or delta.brokers):
            self._marker_sender.leaders_changed()

    # -- markers

    def _send_markers(self, shard: HostedShard, markers: list[Markers]) -> None:
        """Send the markers of transactions whose end is committed."""
        if self._marker_sender is None:
            self._marker_sender = self._make_marker_sender(self._markers_written)
        self._marker_sender.add(shard.partition.index, markers)

    def _markers_written(self, index: int, markers: Markers) -> None:
        shard = self.shards.by_index(index)
        if shard is not None:
            shard.event(lambda machine, now_ms: machine.markers_written(markers, now_ms))
        for waiter in self._waiting_for_markers.pop(markers.transactional_id, ()):
            if not waiter.done():
                waiter.set_result(None)

    def _shard_ended(self, shard: HostedShard) -> None:
        if self._marker_sender is not None:
            self._marker_sender.drop(shard.partition.index)

    # -- requests

    def submit(
        self,
        transactional_id: str,
        decide: Decide,
        refuse: Refuse[Result],
        is_concurrent: Callable[[Any], bool] | None = _has_concurrent_code,
    ) -> Reply[Result]:
        """Return the reply to a request about one id, a future of it, or a coroutine. `refuse` builds the
        response that reports an error of the coordinator itself: not available, loading, moved.

        With `is_concurrent`, which recognizes CONCURRENT_TRANSACTIONS, a request that comes too early waits a
        moment for the markers of the previous transaction: clients would retry after longer pauses.
        """
        reply, is_early = self._decide(transactional_id, decide, refuse, is_concurrent, NO_ID)
        if reply is None:
            reply = self._with_fresh_id(transactional_id, decide, refuse)
        elif is_early:
            reply = in_background(self._after_markers(transactional_id, reply, decide, refuse))
        result: Reply[Result] = reply
        return result

    def add_partitions(
        self, transaction: AddPartitionsToTxnTransaction, context: RequestContext
    ) -> Reply[AddPartitionsToTxnResult]:
        """Add partitions to one transaction, or verify that they belong to it."""
        from ottla.transactions.add import is_concurrent, result_of

        refused = {} if transaction.verify_only else self._unknown_partitions(transaction)
        # Brokers retry by themselves, and their other requests wait for this response.
        waits = context.api_version < ADD_PARTITIONS_TO_TXN_BATCHES_SINCE
        return self.submit(
            transaction.transactional_id,
            lambda machine, now_ms, _: machine.decide_add_partitions(transaction, context, now_ms, refused),
            lambda code: result_of(transaction, ErrorCode(code)),
            is_concurrent if waits else None,
        )

    def _unknown_partitions(
        self, transaction: AddPartitionsToTxnTransaction
    ) -> dict[tuple[str, int], ErrorCode]:
        topics = self._metadata.image.topics_by_name
        return {
            (topic.name, index): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for topic in transaction.topics
            for index in topic.partitions
            if topic.name not in topics or index not in topics[topic.name].partitions
        }

    def _decide(
        self,
        transactional_id: str,
        decide: Decide,
        refuse: Refuse[Any],
        is_concurrent: Callable[[Any], bool] | None,
        fresh_id: int,
    ) -> tuple[Any, bool]:
        """Return the reply and whether it came too early; (None, False) if a new producer id is needed."""
        from ottla.transactions.markers import NEEDS_PRODUCER_ID

        shard = self.shards.of_key(transactional_id)
        if isinstance(shard, ErrorCode):
            return refuse(shard), False
        needs_id = is_early = False

        def decide_once(machine: TransactionShard, now_ms: int) -> Outcome:
            nonlocal needs_id, is_early
            outcome = decide(machine, now_ms, fresh_id)
            needs_id = outcome.reply is NEEDS_PRODUCER_ID
            is_early = is_concurrent is not None and not needs_id and is_concurrent(outcome.reply)
            return outcome

        reply = shard.submit(decide_once, refuse)
        return (None, False) if needs_id else (reply, is_early)

    def _with_fresh_id(self, transactional_id: str, decide: Decide, refuse: Refuse[Any]) -> Any:
        """Repeat the decision with an unused producer id."""
        fresh_id = self._producer_ids.next()
        if fresh_id is not None:
            reply, _ = self._decide(transactional_id, decide, refuse, None, fresh_id)
            if reply is not None:
                return reply
        return self._after_allocation(transactional_id, decide, refuse)

    async def _after_allocation(self, transactional_id: str, decide: Decide, refuse: Refuse[Any]) -> Any:
        for _ in range(FRESH_IDS_MAX):
            fresh_id = await self._producer_ids.allocate()
            if fresh_id is None:
                break
            reply, _ = self._decide(transactional_id, decide, refuse, None, fresh_id)
            if reply is not None:
                return await reply if isinstance(reply, asyncio.Future) else reply
        return refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def _after_markers(
        self, transactional_id: str, reply: Any, decide: Decide, refuse: Refuse[Any]
    ) -> Any:
        """Repeat the decision when the markers are written; return the first reply on a timeout."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        self._waiting_for_markers.setdefault(transactional_id, []).append(written)
        timer = loop.call_later(self._retry_ms_max / 1000, written.cancel)
        await asyncio.wait([written])
        timer.cancel()
        if written.cancelled():
            waiting = self._waiting_for_markers.get(transactional_id)
            if waiting is not None:
                waiting.remove(written)
                if not waiting:
                    del self._waiting_for_markers[transactional_id]
        else:
            reply = self.submit(transactional_id, decide, refuse, None)
        return await reply if isinstance(reply, asyncio.Future) or asyncio.iscoroutine(reply) else reply
