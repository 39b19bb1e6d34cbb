"""Periodic duties of the active controller: fence lost brokers, balance leaders, elect unclean leaders.

The connection of a broker's heartbeats is watched. When it ends and no new heartbeat comes within
`broker.disconnect.grace.ms`, the broker is fenced, long before `broker.session.timeout.ms`. A new controller
has no connections to watch yet: it probes the brokers that have sent no heartbeat, and fences those whose
machine refuses the connection. A broker that is only silent has its session timeout.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.metadata.controller_loop import ControllerLoop, NotController
from ottla.broker.net.peer import Peer, PeerLost
from ottla.controller.brokers.fencing import decide_fence_broker, decide_fence_silent_brokers
from ottla.controller.partitions.elect_leaders import decide_balance_leaders
from ottla.controller.partitions.unclean_elections import decide_elect_unclean
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.background import BackgroundTasks
    from ottla.broker.metadata.controller_loop import Decide
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.net.request import ClientConnection
    from ottla.config.load import BrokerConfig
    from ottla.machines.outcome import Reply

CHECKS_PER_SESSION = 8
PROBE_AFTER_MS = 20
PROBE_TIMEOUT_MS = 500

log = logging.getLogger("ottla.controller")


class ControllerDuties:
    """The periodic duties of one active controller."""

    def __init__(
        self,
        config: BrokerConfig,
        metadata: MetadataCache,
        controller: ControllerLoop,
        tasks: BackgroundTasks,
    ) -> None:
        self._metadata = metadata
        self._controller = controller
        self._background = tasks
        self._grace_ms = config.get_int("broker.disconnect.grace.ms")
        self._session_check_ms = max(10, config.get_int("broker.session.timeout.ms") // CHECKS_PER_SESSION)
        self._balance_ms = 1000 * config.get_int("leader.imbalance.check.interval.seconds")
        self._unclean_check_ms = config.get_int("unclean.leader.election.interval.ms")
        self._balances = config.get_bool("auto.leader.rebalance.enable")
        # The epoch and connection of each broker's last heartbeat; the connection of this process is None.
        self._heard: dict[int, tuple[int, ClientConnection | None]] = {}
        # Of brokers whose connection is lost: the end of the grace. Each loss has its own grace.
        self._gone: dict[int, asyncio.TimerHandle] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        keep_running = self._background.keep_running
        self._tasks = [
            keep_running("sessions", self._watch_sessions),
            self._background.run_to_end("probe", self._probe_silent),
            keep_running("unclean-elections", self._elect_unclean),
        ]
        if self._balances:
            self._tasks.append(keep_running("balance-leaders", self._balance))

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for grace in self._gone.values():
            grace.cancel()

    def heartbeat_received(self, broker_id: int, broker_epoch: int, connection: Any) -> None:
        """A heartbeat of this broker came over this connection (None: from this process)."""
        if grace := self._gone.pop(broker_id, None):
            grace.cancel()
        if self._heard.get(broker_id) != (broker_epoch, connection):
            self._heard[broker_id] = (broker_epoch, connection)
            if connection is not None:
                connection.on_close = partial(self._connection_lost, broker_id, broker_epoch, connection)

    def has_lost(self, broker_id: int) -> bool:
        """Whether the broker's connection is lost, with no heartbeat since."""
        return broker_id in self._gone

    def _connection_lost(self, broker_id: int, broker_epoch: int, connection: ClientConnection) -> None:
        if self._heard.get(broker_id) != (broker_epoch, connection):
            return  # it has reconnected already
        self._gone[broker_id] = asyncio.get_running_loop().call_later(
            self._grace_ms / 1000, self._grace_is_over, broker_id, broker_epoch
        )

    def _grace_is_over(self, broker_id: int, broker_epoch: int) -> None:
        del self._gone[broker_id]
        self._fence(broker_id, broker_epoch, "connection lost")

    def _fence(self, broker_id: int, broker_epoch: int, reason: str) -> None:
        def decided(done: asyncio.Future[bool]) -> None:
            if not done.cancelled() and done.exception() is None and done.result():
                log.warning("broker fenced: broker=%d reason=%s", broker_id, reason)

        future = self._controller.submit(
            lambda context, *_: decide_fence_broker(context, broker_id, broker_epoch)
        )
        future.add_done_callback(decided)

    # -- periodic

    async def _watch_sessions(self) -> None:
        while True:
            await asyncio.sleep(self._session_check_ms / 1000)
            while silent := await self._decide(
                lambda context, now_ms, _: decide_fence_silent_brokers(context, now_ms)
            ):
                log.warning("broker fenced: broker=%d reason=silent for the session timeout", silent[0])

    async def _balance(self) -> None:
        while True:
            await asyncio.sleep(self._balance_ms / 1000)
            moved = await self._decide(lambda context, *_: decide_balance_leaders(context))
            if moved:
                log.info("leadership back to preferred replicas: partitions=%d", len(moved))

    async def _elect_unclean(self) -> None:
        """Elect leaders for partitions that allow an unclean election; the controller loop logs each."""
        while True:
            await self._decide(lambda context, *_: decide_elect_unclean(context))
            await asyncio.sleep(self._unclean_check_ms / 1000)

    async def _decide(self, decide: Decide[Reply]) -> Reply | None:
        try:
            return await self._controller.submit(decide)
        except (NotController, StorageError) as error:
            log.info("not decided: %s", error)
        except Exception:
            log.exception("a periodic duty of the controller failed, it will be repeated")
        return None

    async def _probe_silent(self) -> None:
        """Probe brokers that have not sent a heartbeat to the new controller, and fence those that refuse."""
        await asyncio.sleep(PROBE_AFTER_MS / 1000)
        for known in list(self._metadata.image.brokers.values()):
            if known.fenced or known.broker_id in self._heard or not known.endpoints:
                continue
            _, host, port, _ = known.endpoints[0]
            peer = Peer(host, port, "controller", connect_timeout_ms=PROBE_TIMEOUT_MS)
            try:
                await peer.connect()
            except PeerLost as lost:
                if lost.disconnected and known.broker_id not in self._heard:
                    self._fence(known.broker_id, known.epoch, f"connection refused at {peer}")
            finally:
                peer.close()
