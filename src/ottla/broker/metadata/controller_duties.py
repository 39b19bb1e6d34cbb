"""What the active controller does unasked: fence brokers that are gone, and bring leadership back home.

A broker that dies takes its connections along, and its machine says so at once. So the connection of its
heartbeats is watched: when it ends and no new heartbeat comes within `broker.disconnect.grace.ms`, the broker
is fenced, long before `broker.session.timeout.ms` is over. A controller that has just begun has no
connections to watch yet: it knocks at the doors of those it has not heard of, and who is not there (refused
by its machine, not just silent) is fenced too.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.metadata.controller_loop import ControllerLoop, NotController
from ottla.broker.net.peer import Peer, PeerLost
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.metadata.controller_loop import Decide
    from ottla.broker.net.request import ClientConnection
    from ottla.broker.node import Node

LOOKS_PER_SESSION = 8
KNOCK_AFTER_MS = 20
KNOCK_TIMEOUT_MS = 500

log = logging.getLogger("ottla.controller")


class ControllerDuties:
    """The duties of one controller, from its first moment to its last."""

    def __init__(self, broker: Node, controller: ControllerLoop) -> None:
        config = broker.config
        self._broker = broker
        self._controller = controller
        self._grace_ms = config.get_int("broker.disconnect.grace.ms")
        self._session_look_ms = max(10, config.get_int("broker.session.timeout.ms") // LOOKS_PER_SESSION)
        self._balance_ms = 1000 * config.get_int("leader.imbalance.check.interval.seconds")
        self._unclean_look_ms = config.get_int("unclean.leader.election.interval.ms")
        self._balances = config.get_bool("auto.leader.rebalance.enable")
        # The epoch of each broker that was heard of, and the connection: None for this process's own.
        self._heard: dict[int, tuple[int, ClientConnection | None]] = {}
        self._gone: dict[int, int] = {}  # epochs of brokers whose connection is lost
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._watch_sessions(), name="sessions"),
            loop.create_task(self._knock(), name="knock"),
            loop.create_task(self._elect_unclean(), name="unclean"),
        ]
        if self._balances:
            self._tasks.append(loop.create_task(self._balance(), name="balance"))

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def heard_of(self, broker_id: int, broker_epoch: int, connection: Any) -> None:
        """A heartbeat of this broker came over this connection."""
        self._gone.pop(broker_id, None)
        if self._heard.get(broker_id) != (broker_epoch, connection):
            self._heard[broker_id] = (broker_epoch, connection)
            if connection is not None:
                connection.on_close = partial(self._connection_lost, broker_id, broker_epoch, connection)

    def has_lost(self, broker_id: int) -> bool:
        """Whether the broker's connection is lost and it was not heard of since."""
        return broker_id in self._gone

    def _connection_lost(self, broker_id: int, broker_epoch: int, connection: ClientConnection) -> None:
        if self._heard.get(broker_id) != (broker_epoch, connection):
            return  # it has another one already
        self._gone[broker_id] = broker_epoch
        loop = asyncio.get_running_loop()
        loop.call_later(self._grace_ms / 1000, self._grace_is_over, broker_id, broker_epoch)

    def _grace_is_over(self, broker_id: int, broker_epoch: int) -> None:
        if self._gone.pop(broker_id, None) == broker_epoch:
            self._fence(broker_id, broker_epoch, "connection lost")

    def _fence(self, broker_id: int, broker_epoch: int, reason: str) -> None:
        def told(done: asyncio.Future[bool]) -> None:
            if not done.cancelled() and done.exception() is None and done.result():
                log.warning("broker fenced: broker=%d reason=%s", broker_id, reason)

        future = self._controller.submit(
            lambda controller, now_ms, _: controller.decide_fence_broker(broker_id, broker_epoch, now_ms)
        )
        future.add_done_callback(told)

    # -- by the clock

    async def _watch_sessions(self) -> None:
        while True:
            await asyncio.sleep(self._session_look_ms / 1000)
            while silent := await self._decide(lambda c, now_ms, _: c.decide_fence_silent_brokers(now_ms)):
                log.warning("broker fenced: broker=%d reason=silent for the session timeout", silent[0])

    async def _balance(self) -> None:
        while True:
            await asyncio.sleep(self._balance_ms / 1000)
            moved = await self._decide(lambda c, now_ms, _: c.decide_balance_leaders(now_ms))
            if moved:
                log.info("leadership back to preferred replicas: partitions=%d", len(moved))

    async def _elect_unclean(self) -> None:
        """Partitions without a leader, where a loss is allowed: the controller tells of each itself."""
        while True:
            await self._decide(lambda c, now_ms, _: c.decide_elect_unclean(now_ms))
            await asyncio.sleep(self._unclean_look_ms / 1000)

    async def _decide(self, decide: Decide[Any]) -> Any:
        try:
            return await self._controller.submit(decide)
        except (NotController, StorageError) as error:
            log.info("not decided: %s", error)
        except Exception:
            log.exception("a duty of the controller failed, it comes round again")
        return None

    async def _knock(self) -> None:
        """Whoever lives hears of the new controller and tells it so in a moment; and listens."""
        await asyncio.sleep(KNOCK_AFTER_MS / 1000)
        for known in list(self._broker.image.brokers.values()):
            if known.fenced or known.broker_id in self._heard or not known.endpoints:
                continue
            _, host, port, _ = known.endpoints[0]
            peer = Peer(host, port, "controller", connect_timeout_ms=KNOCK_TIMEOUT_MS)
            try:
                await peer.connect()
            except PeerLost as lost:
                if lost.disconnected and known.broker_id not in self._heard:
                    self._fence(known.broker_id, known.epoch, f"nobody listens at {peer}")
            finally:
                peer.close()
