"""This node as a member of the metadata quorum, as a voter or as an observer.

RaftDriver --committed--> MetadataApplier --> MetadataPublisher: image, hosted partitions
           --leader-----> ControllerHost: the controller, while this node leads
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from ottla.broker.metadata.raft_driver import RaftDriver, RaftListener
from ottla.quorum.raft.machine import FOLLOWER, LEADER

if TYPE_CHECKING:
    from ottla.broker.background import BackgroundTasks
    from ottla.broker.metadata.applier import MetadataApplier
    from ottla.broker.metadata.controller_host import ControllerHost
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.randomness import Randomness
    from ottla.quorum.raft.config import RaftConfig
    from ottla.quorum.raft.voters import Endpoint
    from ottla.quorum.raft_log import RaftLog

log = logging.getLogger("ottla.metadata")

HAND_OVER_MS = 1000  # for a leader to announce that it resigns
DEPARTURE_CHECK_MS = 100
LEADERLESS_MS = 500  # a leader that hands over is replaced sooner
DEPARTURES_MS = 3000  # how long a voter stays for other brokers that shut down


class QuorumNode(RaftListener):
    def __init__(
        self,
        applier: MetadataApplier,
        controllers: ControllerHost,
        metadata: MetadataCache,
        randomness: Randomness,
        clock: Callable[[], int],
        monotonic_ms: Callable[[], int],
        executor: Executor,
        tasks: BackgroundTasks,
    ) -> None:
        self._applier = applier
        self._controllers = controllers
        self._metadata = metadata
        self._randomness = randomness
        self._clock = clock
        self._monotonic_ms = monotonic_ms
        self._executor = executor
        self._tasks = tasks
        self._raft: RaftDriver | None = None

    @property
    def is_started(self) -> bool:
        return self._raft is not None

    @property
    def raft(self) -> RaftDriver:
        """The driver, once `start` was called."""
        assert self._raft is not None, "the quorum has not been started"
        return self._raft

    # -- life cycle

    def start(self, raft_log: RaftLog, config: RaftConfig) -> None:
        raft = RaftDriver(
            raft_log,
            config,
            self,
            executor=self._executor,
            clock=self._clock,
            monotonic_ms=self._monotonic_ms,
            draw=self._randomness.draw,
            tasks=self._tasks,
        )
        raft.start()
        self._raft = raft
        self._applier.start(raft_log)

    async def stop(self, *, hand_over: bool) -> None:
        """With `hand_over` a leader resigns first."""
        if self._raft is not None:
            await self._raft.stop(hand_over_ms=HAND_OVER_MS if hand_over else 0)
            self._controllers.lost_leadership()
            await self._applier.stop()

    async def wait_for_departures(self, node_id: int) -> None:
        """Stay while other brokers shut down: they need the quorum for it. Without a leader their state is
        unknown, so do not wait."""
        leaderless_ms = 0
        for _ in range(DEPARTURES_MS // DEPARTURE_CHECK_MS):
            if await self._applier.wait_until(lambda: not self._others_leave(node_id), DEPARTURE_CHECK_MS):
                return
            leaderless_ms = 0 if self._has_leader else leaderless_ms + DEPARTURE_CHECK_MS
            if leaderless_ms >= LEADERLESS_MS:
                return

    @property
    def _has_leader(self) -> bool:
        return self._raft is not None and self._raft.machine.role in (LEADER, FOLLOWER)

    def _others_leave(self, node_id: int) -> bool:
        return any(
            broker.in_controlled_shutdown and not broker.fenced and broker.broker_id != node_id
            for broker in self._metadata.image.brokers.values()
        )

    # -- events of the driver

    def became_leader(self, epoch: int, start_offset: int) -> None:
        self._controllers.became_leader(self.raft, epoch, start_offset)
        self._applier.wake()

    def lost_leadership(self, epoch: int) -> None:
        self._controllers.lost_leadership()

    def leader_changed(self, leader_id: int, epoch: int, endpoint: Endpoint | None) -> None:
        log.info("quorum: leader=%d epoch=%d", leader_id, epoch)
        self._controllers.leader_changed(leader_id, endpoint)

    def committed(self, offset: int) -> None:
        self._applier.committed(offset)

    def snapshot_installed(self) -> None:
        self._applier.snapshot_installed()
