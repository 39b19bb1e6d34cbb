"""The transaction coordinator: requests about transactional ids in, replies or futures of them out.

The core, `ottla.transactions`, is imported when the first transaction needs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.coordinator import Coordinator
from ottla.broker.coordinators.hosted_shard import LOADING, HostedShard, Machine
from ottla.broker.metadata.topic_creator import TRANSACTION_TOPIC
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.coordinators.markers import MarkerSender
    from ottla.broker.coordinators.writing import Ticket
    from ottla.broker.node import Node
    from ottla.broker.replicas.partition import Partition
    from ottla.controller.image_parts import ImageDelta
    from ottla.machines.outcome import Outcome
    from ottla.transactions.config import TransactionsConfig
    from ottla.transactions.markers import Markers
    from ottla.transactions.shard import TransactionShard

WRITE_TIMEOUT_MS = 5000
FRESH_IDS_MAX = 3  # for one request: somebody else may have used up the epochs meanwhile

# Decides on a request: the machine, the time, and a producer id that nobody has, or -1.
Decide = Callable[[Any, int, int], Any]


class TransactionCoordinator(Coordinator):
    TOPIC = TRANSACTION_TOPIC

    def __init__(self, broker: Node) -> None:
        super().__init__(broker, WRITE_TIMEOUT_MS)
        self._patience_ms = broker.config.get_int("add.partitions.to.txn.retry.backoff.max.ms")
        self._config: TransactionsConfig | None = None
        self._encode: Callable[[Any, Any], tuple[bytes, bytes | None]] | None = None
        self._markers: MarkerSender | None = None
        self._settling: dict[str, list[asyncio.Future[None]]] = {}

    # -- what shards are made of

    def make_machine(self, partition: Partition) -> Machine:
        from ottla.transactions.config import TransactionsConfig
        from ottla.transactions.shard import TransactionShard

        if self._config is None:
            self._config = TransactionsConfig(self.broker.config)
        return TransactionShard(self._config, partition.leader_epoch)

    def encode(self, record: Any) -> tuple[bytes, bytes | None]:
        if self._encode is None:
            # Kept: an import statement takes as long as the encoding, even when all is imported.
            from ottla.transactions.record_codec import encode_record

            self._encode = encode_record
        return self._encode(*record)

    # -- markers

    def hand_out(self, shard: HostedShard, markers: list[Markers]) -> None:
        if self._markers is None:
            from ottla.broker.coordinators.markers import MarkerSender

            self._markers = MarkerSender(self.broker, self._markers_written)
        self._markers.add(shard.partition.index, markers)

    def _markers_written(self, index: int, markers: Markers) -> None:
        shard = self._shards.get(index)
        if shard is not None:
            shard.event(lambda machine, now_ms: machine.markers_written(markers, now_ms))
        for waiter in self._settling.pop(markers.transactional_id, ()):
            if not waiter.done():
                waiter.set_result(None)

    def shard_ended(self, shard: HostedShard) -> None:
        if self._markers is not None:
            self._markers.drop(shard.partition.index)

    def image_changed(self, delta: ImageDelta) -> None:
        super().image_changed(delta)
        if self._markers is not None and (delta.partitions or delta.topics_deleted or delta.brokers):
            self._markers.leaders_changed()

    async def stop(self) -> None:
        await super().stop()
        for waiters in [*self._settling.values()]:
            for waiter in waiters:
                waiter.cancel()
        if self._markers is not None:
            await self._markers.stop()

    # -- requests

    def ask(
        self,
        transactional_id: str,
        decide: Decide,
        refuse: Callable[[int], Any],
        *,
        is_concurrent: Callable[[Any], bool] | None = None,
    ) -> Any:
        """The reply to a request about one id, or a future of it, or a coroutine.

        With `is_concurrent`, which tells that reply, one that comes too early waits a moment for the markers
        of the transaction before: clients would come again after longer pauses.
        """
        answer, is_early = self._decide(transactional_id, decide, refuse, is_concurrent, -1)
        if answer is None:
            return self._with_fresh_id(transactional_id, decide, refuse)
        if is_early:
            again = partial(self.ask, transactional_id, decide, refuse)
            return in_background(self._later(transactional_id, answer, again))
        return answer

    def _decide(
        self,
        transactional_id: str,
        decide: Decide,
        refuse: Callable[[int], Any],
        is_concurrent: Callable[[Any], bool] | None,
        fresh_id: int,
    ) -> tuple[Any, bool]:
        """(None, False) if a fresh producer id is needed; else the answer, and whether it came too early."""
        from ottla.transactions.markers import NEEDS_PRODUCER_ID

        shard = self.shard_of(transactional_id)
        if isinstance(shard, ErrorCode):
            return refuse(shard), False
        needs_id = is_early = False

        def decide_once(machine: TransactionShard, ticket: Ticket, now_ms: int) -> Outcome:
            nonlocal needs_id, is_early
            outcome: Outcome = decide(machine, now_ms, fresh_id)
            needs_id = outcome.reply is NEEDS_PRODUCER_ID
            is_early = is_concurrent is not None and not needs_id and is_concurrent(outcome.reply)
            return outcome

        answer = shard.submit(decide_once, refuse)
        return (None, False) if needs_id else (answer, is_early)

    def _with_fresh_id(self, transactional_id: str, decide: Decide, refuse: Callable[[int], Any]) -> Any:
        """Nothing was decided yet: the same once more, with a producer id that nobody has."""
        fresh_id = self.broker.producer_ids.next()
        if fresh_id is not None:
            answer, _ = self._decide(transactional_id, decide, refuse, None, fresh_id)
            if answer is not None:
                return answer
        return self._after_allocation(transactional_id, decide, refuse)

    async def _after_allocation(
        self, transactional_id: str, decide: Decide, refuse: Callable[[int], Any]
    ) -> Any:
        for _ in range(FRESH_IDS_MAX):
            fresh_id = await self.broker.producer_ids.allocate()
            if fresh_id is None:
                break
            answer, _ = self._decide(transactional_id, decide, refuse, None, fresh_id)
            if answer is not None:
                return await answer if isinstance(answer, asyncio.Future) else answer
        return refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def _later(self, transactional_id: str, answer: Any, again: Callable[[], Any]) -> Any:
        """Ask again when the markers are written; if that takes long the first answer stays."""
        loop = asyncio.get_running_loop()
        settled: asyncio.Future[None] = loop.create_future()
        self._settling.setdefault(transactional_id, []).append(settled)
        timer = loop.call_later(self._patience_ms / 1000, settled.cancel)
        await asyncio.wait([settled])
        timer.cancel()
        if settled.cancelled():
            waiting = self._settling.get(transactional_id)
            if waiting is not None:
                waiting.remove(settled)
                if not waiting:
                    del self._settling[transactional_id]
        else:
            answer = again()
        return await answer if isinstance(answer, asyncio.Future) or asyncio.iscoroutine(answer) else answer

    def look(self, transactional_id: str, see: Callable[[Any], Any], refuse: Callable[[int], Any]) -> Any:
        """What there is to see of one id, or a future of it: nothing is shown before it is committed."""
        shard = self.shard_of(transactional_id)
        if isinstance(shard, ErrorCode):
            return refuse(shard)
        return _looked(shard, lambda machine, _: see(machine), refuse)

    def look_everywhere(self, see: Callable[[Any, int], Any]) -> list[Any] | ErrorCode:
        """The same of every shard here; the error if one of them is not there yet."""
        answers: list[Any] = []
        for shard in self.shards:
            if shard.state == LOADING:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            if shard.machine is not None:
                answers.append(_looked(shard, see, lambda code: None))
        return answers


def _looked(shard: HostedShard, see: Callable[[Any, int], Any], refuse: Callable[[int], Any]) -> Any:
    from ottla.machines.outcome import Outcome

    return shard.submit(lambda machine, ticket, now_ms: Outcome(see(machine, now_ms)), refuse, writes=False)


def in_background(work: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
    """A future of its result: unlike a coroutine it does not hold back the connection's next requests."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Any] = loop.create_future()

    def finished(task: asyncio.Task[Any]) -> None:
        if result.done():
            if not task.cancelled():
                task.exception()  # who asked has left
        elif task.cancelled():
            result.cancel()
        elif (error := task.exception()) is not None:
            result.set_exception(error)
        else:
            result.set_result(task.result())

    loop.create_task(work).add_done_callback(finished)
    return result
