"""The active controller: which node runs it, and, while this node leads the quorum, the controller itself.

The controller starts once everything before its epoch is applied, with an image of its own, and ends with the
leadership of the quorum.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.metadata.controller_loop import ControllerLoop, NotController
from ottla.controller.controller import Controller
from ottla.controller.features import bootstrap_records
from ottla.machines.outcome import Outcome

if TYPE_CHECKING:
    from ottla.broker.background import BackgroundTasks
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata.controller_duties import ControllerDuties
    from ottla.broker.metadata.controller_loop import Decide
    from ottla.broker.metadata.raft_driver import RaftDriver
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.randomness import Randomness
    from ottla.config.load import BrokerConfig
    from ottla.protocol.message import Message
    from ottla.quorum.raft.voters import Endpoint

log = logging.getLogger("ottla.metadata")

# How the controller decides a request; None if the leader of the quorum answers it. The second argument
# says whether the heartbeat connection of a broker is closed.
DecisionOf = Callable[["Message", Callable[[int], bool]], "Decide | None"]


class ControllerHost:
    def __init__(
        self,
        config: BrokerConfig,
        identity: NodeIdentity,
        metadata: MetadataCache,
        randomness: Randomness,
        monotonic_ms: Callable[[], int],
        decision_of: DecisionOf,
        tasks: BackgroundTasks,
    ) -> None:
        self._config = config
        self._identity = identity
        self._metadata = metadata
        self._randomness = randomness
        self._monotonic_ms = monotonic_ms
        self._decision_of = decision_of
        self._tasks = tasks
        self.leader_id = -1
        self.leader_endpoint: Endpoint | None = None
        self.active: ControllerLoop | None = None  # while it runs on this node
        self._raft: RaftDriver | None = None  # while this node leads the quorum
        self._epoch = -1
        self._start_offset = -1  # where the epoch begins
        self._duties: ControllerDuties | None = None
        self._change: asyncio.Future[None] | None = None

    # -- queries

    def next_change(self) -> asyncio.Future[None]:
        """A future that is done when the controller moves, starts or ends."""
        if self._change is None:
            self._change = asyncio.get_running_loop().create_future()
        return self._change

    async def decide(self, message: Message) -> Any:
        """The controller's response if it runs on this node, else NotController."""
        if self.active is None or self._raft is None:
            raise NotController(
                "another node runs the controller" if self.leader_id >= 0 else "no controller"
            )
        decide = self._decision_of(message, self._has_lost)
        if decide is None:
            return await self._raft.request(message)
        return await self.active.submit(decide)

    def _has_lost(self, broker_id: int) -> bool:
        """Whether the heartbeat connection of this broker is closed and was not reopened."""
        return self._duties is not None and self._duties.has_lost(broker_id)

    def heartbeat_received(self, broker_id: int, broker_epoch: int, connection: object) -> None:
        """A heartbeat came over this connection (None: from this process)."""
        if self._duties is not None:
            self._duties.heartbeat_received(broker_id, broker_epoch, connection)

    # -- events of the quorum

    def leader_changed(self, leader_id: int, endpoint: Endpoint | None) -> None:
        self.leader_id = leader_id
        self.leader_endpoint = endpoint
        self._notify()

    def became_leader(self, raft: RaftDriver, epoch: int, start_offset: int) -> None:
        """Activate as soon as `start_offset` is applied."""
        self._raft, self._epoch, self._start_offset = raft, epoch, start_offset

    def lost_leadership(self) -> None:
        self._raft = None
        if self.active is not None:
            log.info("controller: epoch=%d is over", self.active.epoch)
            assert self._duties is not None
            self._duties.stop()
            self._duties = None
            self.active.end()
            self.active = None
            self._notify()

    def applied(self, end_offset: int) -> None:
        """Everything below `end_offset` is applied on this node."""
        if self.active is not None:
            self.active.applied(end_offset)

    def caught_up(self, end_offset: int) -> None:
        """All committed records, up to `end_offset`, are applied on this node."""
        if self._raft is not None and self.active is None and end_offset > self._start_offset:
            self._activate(self._raft)

    # -- internal

    def _activate(self, raft: RaftDriver) -> None:
        from ottla.broker.metadata.controller_duties import ControllerDuties
        from ottla.controller.partitions.min_isr import decide_settle_min_isr

        controller = Controller(
            self._metadata.copy_image(),
            self._config,
            cluster_id=self._identity.cluster_id,
            draw=self._randomness.draw,
            new_uuid=self._randomness.uuid,
        )
        self.active = ControllerLoop(
            controller,
            raft,
            self._epoch,
            monotonic_ms=self._monotonic_ms,
            committed_image=self._metadata.copy_image,
        )
        if not self._metadata.image.features:
            self._submit(lambda *_: Outcome(True, records=bootstrap_records()))
        self._submit(lambda context, *_: decide_settle_min_isr(context))
        log.info("controller: active in epoch=%d", self._epoch)
        self._duties = ControllerDuties(self._config, self._metadata, self.active, self._tasks)
        self._duties.start()
        self._notify()

    def _submit(self, decide: Decide) -> None:
        """Submit a decision without a waiter; if the controller moves first, the next one repeats it."""
        assert self.active is not None
        future = self.active.submit(decide)
        future.add_done_callback(lambda done: None if done.cancelled() else done.exception() and None)

    def _notify(self) -> None:
        change, self._change = self._change, None
        if change is not None and not change.done():
            change.set_result(None)
