"""A node: brings the rooms together, starts them in order and stops them in the reverse one."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ottla.broker.api.dispatcher import Dispatcher
from ottla.broker.api.fetch_sessions import FetchSessionCache
from ottla.broker.api.handlers import CONTROLLER_HANDLERS, HANDLERS
from ottla.broker.api.metadata_answers import MetadataAnswers
from ottla.broker.api.refusals import refused
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.coordinators.transactions import TransactionCoordinator
from ottla.broker.identity import NodeIdentity
from ottla.broker.metadata.cluster_identity import settle_identity
from ottla.broker.metadata.controller_channel import ControllerChannel, ControllerUnreachable
from ottla.broker.metadata.controller_loop import NotController
from ottla.broker.metadata.directory_reports import DirectoryReports
from ottla.broker.metadata.plane import MetadataPlane
from ottla.broker.metadata.producer_ids import ProducerIds
from ottla.broker.metadata.publisher import MetadataPublisher
from ottla.broker.metadata.quorum_setup import (
    check_metadata,
    introduce_controller,
    open_raft_log,
    raft_config,
)
from ottla.broker.metadata.recent_brokers import RecentBrokers
from ottla.broker.metadata.registration import Registration
from ottla.broker.metadata.topic_creator import TopicCreator
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.net.listener import Limits, Listener
from ottla.broker.net.receive_budget import ReceiveBudget
from ottla.broker.randomness import Randomness
from ottla.broker.replicas.cleaner import Cleaner
from ottla.broker.replicas.flusher import Flusher
from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.replicas.partition_table import PartitionTable
from ottla.broker.replicas.upkeep import Upkeep
from ottla.config.listeners import Endpoint
from ottla.config.load import BrokerConfig
from ottla.config.topic_config import ConfigLayers
from ottla.controller.image import ClusterImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.frames import SIZE_BYTES
from ottla.protocol.message import Message
from ottla.storage.errors import StorageError
from ottla.storage.files import Files, OsFiles
from ottla.storage.manager.log_manager import METADATA_TOPIC, LogManager

if TYPE_CHECKING:
    from ottla.broker.coordinators.verification import Verification
    from ottla.broker.metadata.raft_driver import RaftDriver
    from ottla.broker.net.request import Request

log = logging.getLogger("ottla.broker")

WORKER_THREADS = 4  # for fsync and file work that must not hold the loop
HAND_OVER_MS = 1000  # for the quorum to hear that its leader leaves
LEAVING_LOOK_MS = 100
LEADERLESS_MS = 500  # a leader that hands over is replaced sooner
OTHERS_LEAVE_MS = 3000  # a voter stays for so long while other brokers are on their way out


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Node:
    """One node, with the roles that it is given. What it takes from outside (clock, files, chance) is passed
    in for tests."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        files: Files | None = None,
        clock: Callable[[], int] = wall_clock_ms,
        rng: random.Random | None = None,
        on_fatal: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.config = config
        self.clock = clock
        self.identity = NodeIdentity(config.node_id)
        self.metadata = MetadataCache()
        self.randomness = Randomness(rng)
        self.fetch_max_bytes = config.get_int("fetch.max.bytes")
        self.layers = ConfigLayers(config)
        self.partitions = PartitionTable()
        self.dispatcher = Dispatcher(self, HANDLERS)
        self.fetch_sessions = FetchSessionCache(
            config.get_int("max.incremental.fetch.session.cache.slots"),
            new_id=self.randomness.session_id,
        )
        self.topic_creator = TopicCreator(self)
        self.replicas = ReplicaManager(self)
        self.directory_reports = DirectoryReports(self)
        self.groups = GroupCoordinator(self)
        self.transactions = TransactionCoordinator(self)
        self._verification: Verification | None = None
        self.listeners: list[Listener] = []  # for clients and other brokers
        self.controller_listeners: list[Listener] = []
        self.logs: LogManager
        self.producer_ids = ProducerIds(self)
        self.flusher: Flusher
        self._files = files or OsFiles()
        self._on_fatal = on_fatal or _exit_now
        self._publisher = MetadataPublisher(self)
        self.recent_brokers = RecentBrokers(lambda: self.image, clock, self.replicas.is_gone)
        self._publisher.on_change.append(self.recent_brokers.image_changed)
        self.metadata_answers = MetadataAnswers()
        self.plane = MetadataPlane(self, self._publisher)
        self.controller = ControllerChannel(
            self.plane, config.node_id, config.get_int("controller.socket.timeout.ms")
        )
        self._budget = ReceiveBudget(_receive_bytes_max(config), self._shrink_idle)
        self._executor = ThreadPoolExecutor(WORKER_THREADS, thread_name_prefix="ottla-io")
        self._registration = Registration(self)
        self._upkeep: Upkeep | None = None
        self._cleaner: Cleaner | None = None
        self._introduction: asyncio.Task[None] | None = None

    # -- aliases, until every part takes identity, metadata and randomness

    @property
    def node_id(self) -> int:
        return self.identity.node_id

    @property
    def cluster_id(self) -> str:
        return self.identity.cluster_id

    @property
    def image(self) -> ClusterImage:
        return self.metadata.image

    @property
    def image_offset(self) -> int:
        return self.metadata.offset

    @property
    def quorum(self) -> RaftDriver:
        return self.plane.quorum

    @property
    def broker_epoch(self) -> int:
        return self.identity.broker_epoch

    @property
    def verification(self) -> Verification:
        """Asks the coordinators of transactions before their first writes."""
        if self._verification is None:
            from ottla.broker.coordinators.verification import Verification

            self._verification = Verification(self)
        return self._verification

    @property
    def auto_create_topics(self) -> bool:
        return self.config.get_bool("auto.create.topics.enable")

    @property
    def bootstrap_servers(self) -> str:
        """Where clients of this machine find the broker: host:port of its first listener. A controller that
        is no broker tells where others find it (`--bootstrap-controller` of Kafka's tools)."""
        listener = (self.listeners or self.controller_listeners)[0]
        host = listener.host if listener.host not in ("", "0.0.0.0", "::") else "localhost"
        return f"[{host}]:{listener.port}" if ":" in host else f"{host}:{listener.port}"

    @property
    def port(self) -> int:
        return self.listeners[0].port

    def why_not_hosted(self, topic: str, index: int) -> ErrorCode:
        """The error for a partition that is not in the table."""
        known = self.image.topics_by_name.get(topic)
        if known is None or index not in known.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ours = self.node_id in known.partitions[index].replicas
        if ours and (self.logs.offline_dirs() or (topic, index) in self.logs.corrupt):
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER  # somebody else's, or about to be hosted

    def host_what_waits(self) -> None:
        """New partitions that found the disk full get another try."""
        self._publisher.host_what_waits()

    async def change(self, request: Request, message: Message) -> Message:
        """The active controller's reply to a client's command; every item refused if there is none."""
        try:
            if request.on_controller_listener:
                answer = await self.controller.decide_here(message)
            else:
                answer = await self.controller.forward(
                    message, request.version, request.client_id, timeout_ms=_timeout_ms_of(message)
                )
        except NotController as error:
            answer = refused(message, ErrorCode.NOT_CONTROLLER, str(error))
        except ControllerUnreachable as error:
            answer = refused(message, ErrorCode.REQUEST_TIMED_OUT, str(error))
        except StorageError as error:
            answer = refused(message, error.code, error.reason)
        assert isinstance(answer, Message)
        return answer

    async def command(self, message: Message, *, timeout_ms: int | None = None) -> Any:
        """The same for a command of this broker."""
        try:
            return await self.controller.ask(message, timeout_ms=timeout_ms)
        except ControllerUnreachable as error:
            return refused(message, ErrorCode.REQUEST_TIMED_OUT, str(error))
        except StorageError as error:
            return refused(message, error.code, error.reason)

    def draw(self, below: int) -> int:
        """A random number of range(below)."""
        return self.randomness.draw(below)

    def fatal(self, error: BaseException) -> None:
        """This node cannot go on."""
        self._on_fatal(error)

    def random_uuid(self) -> bytes:
        """16 random bytes whose text form does not begin with a dash: it would look like an option."""
        return self.randomness.uuid()

    # -- life

    async def start(self) -> None:
        """Returns when this node does what it is there for: a broker serves, a controller takes part."""
        for warning in self.config.warnings:
            log.warning("configuration: %s", warning)
        try:
            await self._start_quorum()
            if self.config.is_broker:
                await self._start_broker()
            else:
                self.plane.go_live()
            self._upkeep = Upkeep(self, self._executor)
            self._upkeep.start()
            if self.config.is_broker:
                self._cleaner = Cleaner(self, self._executor)
                self._cleaner.start()
        except BaseException:
            await self._abandon()
            raise
        log.info(
            "serving: node=%d cluster=%s partitions=%d", self.node_id, self.cluster_id, len(self.partitions)
        )

    async def _start_quorum(self) -> None:
        """Take part in the metadata quorum, as a voter or as an observer."""
        config = self.config
        self.logs = LogManager(self._files, config.log_dirs)
        self.identity.cluster_id = settle_identity(self.logs, config, self.random_uuid)
        self.flusher = Flusher(self._executor, self.clock)
        raft_log, directory_id = open_raft_log(self.logs, self._files, config, self.clock())
        self.logs.logs[METADATA_TOPIC, 0] = raft_log.log
        await self._bind(config.controller_endpoints, self.controller_listeners, CONTROLLER_HANDLERS)
        await self._bind(config.broker_endpoints if config.is_broker else (), self.listeners, None)
        ports = {listener.name: listener.port for listener in self.controller_listeners}
        settings = raft_config(config, self.cluster_id, directory_id, ports)
        check_metadata(raft_log, settings)
        # Only now is anything written: data that is refused stays as it was.
        self.plane.start(raft_log, settings, self._executor)
        for listener in self.controller_listeners:
            await listener.serve()
        if config.is_controller and self.controller_listeners:
            self._introduction = asyncio.get_running_loop().create_task(introduce_controller(self))

    async def _start_broker(self) -> None:
        registration = self._registration
        await registration.register()
        await self.plane.wait_applied(self.identity.broker_epoch)
        self._publisher.refresh_layers()
        await asyncio.get_running_loop().run_in_executor(self._executor, self._load_logs)
        self._publisher.set_strays_aside()
        self._publisher.host_everything()
        self.plane.go_live()
        await self._sync_recovered()
        self.replicas.start()
        self._publisher.on_change.append(registration.image_changed)
        self._publisher.on_change.append(self.groups.image_changed)
        self._publisher.on_change.append(self.transactions.image_changed)
        self.groups.start()
        self.transactions.start()
        await registration.become_active()
        registration.start()
        for listener in self.listeners:
            await listener.serve()

    def _load_logs(self) -> None:
        """May take long after a crash: beside the loop, so that the quorum goes on."""
        self.logs.load(lambda topic: self._publisher.settings_of(topic).log, self.clock())

    async def stop(self) -> None:
        """A clean stop: what is led is handed over, what is under way is finished, everything is on the
        disk."""
        if self.config.is_broker:
            await self._registration.leave()
        await self._stop_coordinators()
        for listener in self.listeners:
            await listener.stop()
        await self.replicas.stop()
        await self.directory_reports.stop()
        if self._cleaner is not None:
            await self._cleaner.stop()
        if self._upkeep is not None:
            await self._upkeep.stop()
        await self._stop_quorum()
        await self.flusher.drain()
        watermarks = {(p.topic, p.index): p.high_watermark for p in self.partitions}
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(
            self._executor, lambda: self.logs.close(self.clock(), self.broker_epoch, watermarks)
        )
        self._executor.shutdown()
        log.info("stopped: node=%d", self.node_id)

    async def _stop_coordinators(self) -> None:
        await self.transactions.stop()
        await self.groups.stop()
        if self._verification is not None:
            self._verification.close()

    async def _stop_quorum(self) -> None:
        if self._introduction is not None:
            self._introduction.cancel()
            await asyncio.wait([self._introduction])
        if self.config.is_controller:
            await self._wait_for_leaving()
        await self.plane.stop(hand_over_ms=HAND_OVER_MS)
        self.controller.close()
        for listener in self.controller_listeners:
            await listener.stop()

    async def _wait_for_leaving(self) -> None:
        """Other brokers that are just leaving need a quorum to say so: do not pull it away from them. Without
        a leader nobody hears them, and they may be gone already."""
        leaderless_ms = 0
        for _ in range(OTHERS_LEAVE_MS // LEAVING_LOOK_MS):
            if await self.plane.wait_until(lambda: not self._others_are_leaving(), LEAVING_LOOK_MS):
                return
            leaderless_ms = 0 if self.plane.has_leader else leaderless_ms + LEAVING_LOOK_MS
            if leaderless_ms >= LEADERLESS_MS:
                return

    def _others_are_leaving(self) -> bool:
        return any(
            broker.in_controlled_shutdown and not broker.fenced and broker.broker_id != self.node_id
            for broker in self.image.brokers.values()
        )

    async def _abandon(self) -> None:
        """Let go of everything after a failed start."""
        await self._stop_coordinators()
        for listener in (*self.listeners, *self.controller_listeners):
            await listener.stop()
        await self.replicas.stop()
        await self.directory_reports.stop()
        if self._introduction is not None:
            self._introduction.cancel()
        await self.plane.stop()
        self.controller.close()
        if hasattr(self, "logs"):
            self.logs.abandon()
        self._executor.shutdown(wait=False)

    async def _sync_recovered(self) -> None:
        """What a killed process left to the kernel is served, and acknowledged to retries, from now on: where
        flush.messages promises the disk, it has to be there first."""
        for partition in self.partitions:
            if partition.log.unflushed_messages >= partition.log.config.flush_messages:
                self.flusher.flush(partition)
        await self.flusher.drain()

    async def _bind(
        self, endpoints: tuple[Endpoint, ...], into: list[Listener], handlers: dict[int, str] | None
    ) -> None:
        """Take the ports; a table of handlers of their own makes them controller listeners."""
        config = self.config
        limits = Limits(
            frame_bytes_max=config.get_int("socket.request.max.bytes"),
            connections_max=config.get_int("max.connections"),
            connections_per_ip_max=config.get_int("max.connections.per.ip"),
            connections_per_ip=config.connections_per_ip,
            idle_ms_max=config.get_int("connections.max.idle.ms"),
            receive_buffer_bytes=config.get_int("socket.receive.buffer.bytes"),
            send_buffer_bytes=config.get_int("socket.send.buffer.bytes"),
        )
        budget = self._budget
        dispatcher = self.dispatcher if handlers is None else Dispatcher(self, handlers)
        for endpoint in endpoints:
            listener = Listener(endpoint.name, endpoint.host, endpoint.port, dispatcher, limits, budget)
            listener.is_controller = handlers is not None
            into.append(listener)
            await listener.bind()

    def _shrink_idle(self) -> None:
        for listener in (*self.listeners, *self.controller_listeners):
            listener.shrink_idle()


def _receive_bytes_max(config: BrokerConfig) -> int:
    """queued.max.request.bytes; if that is not set, a quarter of the machine's memory."""
    configured = config.get_int("queued.max.request.bytes")
    if configured > 0:
        return configured + SIZE_BYTES
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(memory_bytes // 4, 2 * (config.get_int("socket.request.max.bytes") + SIZE_BYTES))


def _timeout_ms_of(message: Message) -> int | None:
    """How long the client gives the command, where it says so."""
    timeout_ms = getattr(message, "timeout_ms", None)
    return timeout_ms if timeout_ms and timeout_ms > 0 else None


def _exit_now(error: BaseException) -> None:
    """Metadata that cannot be written leaves no way to go on; a restart replays what is on the disk."""
    log.critical("the broker ends: %s", error)
    os._exit(1)
