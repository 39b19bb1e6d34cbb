"""Sends the markers of ended transactions to the leaders of their partitions.

`ottla.transactions.marker_queue` decides what to send where, and when to retry.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.net.peer import PeerLost
from ottla.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse
from ottla.transactions.marker_queue import NO_LEADER, MarkerQueue, MarkerRequest
from ottla.transactions.markers import Markers

if TYPE_CHECKING:
    from ottla.broker.background import BackgroundTasks
    from ottla.broker.coordinators.marker_writer import MarkerWriter
    from ottla.broker.coordinators.peer_pool import PeerPool
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata_cache import MetadataCache

REQUEST_TIMEOUT_MS = 30_000  # a leader responds sooner, possibly with an error

log = logging.getLogger("ottla.coordinators")


class MarkerSender:
    """Calls `on_written` with the owner and its markers once all partitions have them."""

    def __init__(
        self,
        on_written: Callable[[int, Markers], None],
        *,
        identity: NodeIdentity,
        metadata: MetadataCache,
        writer: MarkerWriter,
        peers: PeerPool,
        monotonic_ms: Callable[[], int],
        tasks: BackgroundTasks,
    ) -> None:
        self._on_written = on_written
        self._identity = identity
        self._metadata = metadata
        self._writer = writer
        self._peers = peers
        self._monotonic_ms = monotonic_ms
        self._tasks = tasks
        self._queue = MarkerQueue(self._leader_of)
        self._loop = asyncio.get_running_loop()
        self._soon: asyncio.Handle | None = None
        self._wake: asyncio.TimerHandle | None = None
        self._calls: dict[asyncio.Task[None], None] = {}
        self._stopped = False

    def __len__(self) -> int:
        """Return the number of transactions whose markers are not all written."""
        return len(self._queue)

    def add(self, owner: int, markers: list[Markers]) -> None:
        now_ms = self._monotonic_ms()
        for each in markers:
            self._queue.add(owner, each, now_ms)
        self._pump_soon()

    def drop(self, owner: int) -> None:
        self._queue.drop(owner)

    def leaders_changed(self) -> None:
        if len(self._queue):
            self._queue.leaders_changed(self._monotonic_ms())
            self._pump_soon()

    async def stop(self) -> None:
        self._stopped = True
        for handle in (self._soon, self._wake):
            if handle is not None:
                handle.cancel()
        calls = list(self._calls)
        for call in calls:
            call.cancel()
        if calls:
            await asyncio.wait(calls)
        self._peers.close()

    # -- internal

    def _leader_of(self, topic: str, index: int) -> int | None:
        known = self._metadata.image.topics_by_name.get(topic)
        state = None if known is None else known.partitions.get(index)
        if state is None:
            return None
        return state.leader if state.leader >= 0 else NO_LEADER

    def _pump_soon(self) -> None:
        """Send once per iteration of the event loop: transactions that end together share requests."""
        if self._soon is None and not self._stopped:
            self._soon = self._loop.call_soon(self._tasks.guard, "txn-markers", self._pump, self._pump_soon)

    def _pump(self) -> None:
        self._soon = None
        if self._stopped:
            return
        queue = self._queue
        for request in queue.take_requests(self._monotonic_ms()):
            self._send(request)
        for owner, markers in queue.take_done():
            self._on_written(owner, markers)
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        wake_ms = queue.next_wake_ms
        if wake_ms is not None:
            delay_ms = max(1, wake_ms - self._monotonic_ms())
            self._wake = self._loop.call_later(delay_ms / 1000, self._pump_soon)

    def _send(self, request: MarkerRequest) -> None:
        if request.broker_id != self._identity.node_id:
            call = self._tasks.run_once("txn-markers", self._call(request))
            self._calls[call] = None
            call.add_done_callback(self._calls.__delitem__)
            return
        answer = self._writer.write(request.message)
        if isinstance(answer, asyncio.Future):
            answer.add_done_callback(lambda done: self._answered(request, done.result()))
        else:
            self._answered(request, answer)

    async def _call(self, request: MarkerRequest) -> None:
        try:
            answer = await self._peers.call(
                request.broker_id, request.message, WriteTxnMarkersResponse, REQUEST_TIMEOUT_MS
            )
        except PeerLost as error:
            log.info("markers not written: broker=%d error=%s", request.broker_id, error)
            if not self._stopped:
                self._queue.failed(request, self._monotonic_ms())
                self._pump_soon()
        else:
            self._answered(request, answer)

    def _answered(self, request: MarkerRequest, answer: Any) -> None:
        if not self._stopped:
            self._queue.answered(request, answer, self._monotonic_ms())
            self._pump_soon()
