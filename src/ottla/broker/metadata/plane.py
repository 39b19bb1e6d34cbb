"""The cluster's metadata on this node: what the quorum commits is applied here, in order, once.

    quorum (RaftDriver) --committed--> apply --> MetadataPublisher: image, hosted partitions
                        --leader-----> ControllerLoop, for as long as this node leads

Until `go_live` records only change the image: a broker that starts first catches up, then opens its logs. The
controller begins when everything before its epoch is applied, with a copy of the image of its own.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.broker.metadata.controller_loop import ControllerLoop, NotController
from ottla.broker.metadata.raft_driver import RaftDriver, RaftListener
from ottla.controller.controller import Controller
from ottla.controller.decision import Decision
from ottla.controller.features import bootstrap_records, unsupported_features
from ottla.quorum.errors import QuorumError
from ottla.quorum.raft.machine import FOLLOWER, LEADER
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from ottla.broker.metadata.controller_duties import ControllerDuties
    from ottla.broker.metadata.controller_loop import Decide
    from ottla.broker.metadata.publisher import MetadataPublisher
    from ottla.broker.node import Node
    from ottla.protocol.message import Message
    from ottla.quorum.raft.config import RaftConfig
    from ottla.quorum.raft.voters import Endpoint
    from ottla.quorum.raft_log import RaftLog

RECORDS_PER_STEP = 1000  # applied together; a change of thousands of partitions is many steps

log = logging.getLogger("ottla.metadata")


class MetadataPlane(RaftListener):
    def __init__(self, broker: Node, publisher: MetadataPublisher) -> None:
        self._broker = broker
        self._publisher = publisher
        self.quorum: RaftDriver
        self.active: ControllerLoop | None = None
        self.applied_offset = 0  # everything below is applied
        self.leader_id = -1
        self.leader_endpoint: Endpoint | None = None
        self._duties: ControllerDuties | None = None
        self._committed_offset = 0
        self._leading: tuple[int, int] | None = None  # epoch and where it begins
        self._live = False
        self._snapshot_came = False
        self._news = asyncio.Event()
        self._leader_news: asyncio.Future[None] | None = None
        self._apply_news: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    # -- life

    def start(self, raft_log: RaftLog, config: RaftConfig, executor: Executor) -> None:
        broker = self._broker
        self._snapshot_came = raft_log.latest_snapshot is not None
        self.quorum = RaftDriver(
            raft_log,
            config,
            self,
            executor=executor,
            clock=broker.clock,
            draw=broker.draw,
            on_fatal=broker.fatal,
        )
        self.quorum.start()
        self._news.set()
        self._task = asyncio.get_running_loop().create_task(self._apply_all(), name="metadata")

    async def stop(self, *, hand_over_ms: int = 0) -> None:
        if self._task is None:
            return
        await self.quorum.stop(hand_over_ms=hand_over_ms)
        self._deactivate()
        self._task.cancel()
        await asyncio.wait([self._task])

    def go_live(self) -> None:
        """From now on the partitions of this node follow what is applied."""
        self._live = True

    # -- what others ask

    async def wait_applied(self, offset: int) -> None:
        """Return when the record at `offset` is applied."""
        while self.applied_offset <= offset:
            await asyncio.wait([self._next_apply()])  # one that is cancelled must not cancel the others

    async def wait_until(self, condition: Callable[[], bool], timeout_ms: int) -> bool:
        """Has what is applied made the condition true, in this time?"""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while not condition():
            left = deadline - loop.time()
            if left <= 0:
                return False
            await asyncio.wait([self._next_apply()], timeout=left)
        return True

    def _next_apply(self) -> asyncio.Future[None]:
        if self._apply_news is None:
            self._apply_news = asyncio.get_running_loop().create_future()
        return self._apply_news

    def leader_news(self) -> asyncio.Future[None]:
        """A future that is done when the controller moves, begins or ends."""
        if self._leader_news is None:
            self._leader_news = asyncio.get_running_loop().create_future()
        return self._leader_news

    @property
    def has_leader(self) -> bool:
        """Does the quorum have a leader that this node hears, or is?"""
        return self.quorum.machine.role in (LEADER, FOLLOWER)

    def controller(self) -> ControllerLoop:
        """The active controller, if it runs here."""
        if self.active is None:
            raise NotController(
                "another node runs the controller" if self.leader_id >= 0 else "no controller"
            )
        return self.active

    # -- the quorum tells

    def became_leader(self, epoch: int, start_offset: int) -> None:
        self._leading = (epoch, start_offset)
        self._news.set()

    def lost_leadership(self, epoch: int) -> None:
        self._leading = None
        self._deactivate()

    def leader_changed(self, leader_id: int, epoch: int, endpoint: Endpoint | None) -> None:
        log.info("quorum: leader=%d epoch=%d", leader_id, epoch)
        self.leader_id = leader_id
        self.leader_endpoint = endpoint
        self._tell_leader_news()

    def committed(self, offset: int) -> None:
        self._committed_offset = offset
        self._news.set()

    def snapshot_installed(self) -> None:
        self._snapshot_came = True
        self._news.set()

    # -- applying

    async def _apply_all(self) -> None:
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                while self._snapshot_came or self.applied_offset < self._committed_offset:
                    await (self._apply_snapshot() if self._snapshot_came else self._apply_some())
                self._maybe_activate()
        except (StorageError, QuorumError) as error:
            log.critical("metadata cannot be applied: %s", error)
            self._broker.fatal(error)
        except Exception as error:
            log.critical("metadata cannot be applied", exc_info=True)
            self._broker.fatal(error)

    async def _apply_some(self) -> None:
        """Apply a bounded number of batches; they are read before anything else can move the log."""
        records: list[Message] = []
        end_offset = self.applied_offset
        for next_offset, messages in self.quorum.log.committed(self.applied_offset, self._committed_offset):
            records += messages
            end_offset = next_offset
            if len(records) >= RECORDS_PER_STEP:
                break
        assert end_offset > self.applied_offset, "what is committed can be read"
        if not self._live:
            for record in records:
                self._publisher.replay(record, end_offset - 1)
            await asyncio.sleep(0)  # a long log must not keep this node from answering the other voters
        elif records:
            await self._publisher.publish(records, end_offset - 1)
        self._moved_to(end_offset)

    async def _apply_snapshot(self) -> None:
        """The image begins anew, from the newest snapshot."""
        self._snapshot_came = False
        quorum_log = self.quorum.log
        snapshot = quorum_log.latest_snapshot
        assert snapshot is not None
        if snapshot.end_offset <= self.applied_offset:
            return
        records = list(quorum_log.snapshot_messages(snapshot))
        if self._live:
            await self._publisher.publish_snapshot(records, snapshot.end_offset - 1)
        else:
            self._publisher.forget()
            for record in records:
                self._publisher.replay(record, snapshot.end_offset - 1)
        self._moved_to(snapshot.end_offset)

    def _moved_to(self, offset: int) -> None:
        problems = unsupported_features(self._publisher.image.features)
        if problems:
            raise QuorumError(f"this version cannot take part in the cluster: {'; '.join(problems)}")
        self.applied_offset = offset
        if self.active is not None:
            self.active.applied(offset)
        news, self._apply_news = self._apply_news, None
        if news is not None and not news.done():
            news.set_result(None)

    # -- the controller

    def _maybe_activate(self) -> None:
        if self._leading is None or self.active is not None or self.applied_offset <= self._leading[1]:
            return
        from ottla.broker.metadata.controller_duties import ControllerDuties

        broker = self._broker
        controller = Controller(
            self._publisher.copy_of_image(),
            broker.config,
            cluster_id=broker.cluster_id,
            draw=broker.draw,
            new_uuid=broker.random_uuid,
        )
        self.active = ControllerLoop(
            controller,
            self.quorum,
            self._leading[0],
            clock=broker.clock,
            committed_image=self._publisher.copy_of_image,
        )
        if not self._publisher.image.features:
            self._begin(lambda *_: Decision(bootstrap_records(), None))
        self._begin(lambda controller, now_ms, _: controller.decide_settle_min_isr(now_ms))
        log.info("controller: active in epoch=%d", self._leading[0])
        self._duties = ControllerDuties(broker, self.active)
        self._duties.start()
        self._tell_leader_news()

    def _begin(self, decide: Decide[None]) -> None:
        """A decision that nobody waits for; if the controller moves first, the next one takes it."""
        assert self.active is not None
        future = self.active.submit(decide)
        future.add_done_callback(lambda done: None if done.cancelled() else done.exception() and None)

    def _deactivate(self) -> None:
        if self.active is not None:
            log.info("controller: epoch=%d is over", self.active.epoch)
            assert self._duties is not None
            self._duties.stop()
            self._duties = None
            self.active.end()
            self.active = None
            self._tell_leader_news()

    def heard_of(self, broker_id: int, broker_epoch: int, connection: object) -> None:
        """A heartbeat came over this connection (None: from this process)."""
        if self._duties is not None:
            self._duties.heard_of(broker_id, broker_epoch, connection)

    def has_lost(self, broker_id: int) -> bool:
        """Whether the connection of this broker's heartbeats is closed, and it has not come back yet."""
        return self._duties is not None and self._duties.has_lost(broker_id)

    def _tell_leader_news(self) -> None:
        news, self._leader_news = self._leader_news, None
        if news is not None and not news.done():
            news.set_result(None)
