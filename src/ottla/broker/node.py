"""The composition root of a node: builds the parts, gives each what it uses, starts and stops them in order.

Only `ottla.cli`, `ottla.testing` and the simulator import it. Parts receive their collaborators in their
constructors and never the node.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import Callable

from ottla.broker.api.dispatcher import Dispatcher
from ottla.broker.api.parts import ApiParts
from ottla.broker.api.registry import decision_of
from ottla.broker.background import BackgroundTasks
from ottla.broker.coordinators.coordinators import Coordinators
from ottla.broker.identity import NodeIdentity
from ottla.broker.io_threads import ExecutorFactory, IoThreads, thread_pool
from ottla.broker.metadata.applier import MetadataApplier
from ottla.broker.metadata.cluster_identity import claim_directories
from ottla.broker.metadata.controller_channel import ControllerChannel
from ottla.broker.metadata.controller_host import ControllerHost
from ottla.broker.metadata.directory_reports import DirectoryReports
from ottla.broker.metadata.producer_ids import ProducerIds
from ottla.broker.metadata.publisher import MetadataPublisher
from ottla.broker.metadata.quorum_join import QuorumJoin
from ottla.broker.metadata.quorum_node import QuorumNode
from ottla.broker.metadata.quorum_setup import check_metadata, open_raft_log, raft_config
from ottla.broker.metadata.recent_brokers import RecentBrokers
from ottla.broker.metadata.registration import Registration
from ottla.broker.metadata.snapshots import INTERVAL_MS as SNAPSHOT_INTERVAL_MS
from ottla.broker.metadata.snapshots import MetadataSnapshots
from ottla.broker.metadata.topic_creator import TopicCreator
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.net.listener_group import ListenerGroup, receive_bytes_max
from ottla.broker.net.receive_budget import ReceiveBudget
from ottla.broker.periodic_tasks import PeriodicTasks
from ottla.broker.randomness import Randomness
from ottla.broker.replicas.cleaner import Cleaner
from ottla.broker.replicas.directory_watch import DirectoryWatch
from ottla.broker.replicas.flusher import Flusher
from ottla.broker.replicas.log_maintenance import LogMaintenance
from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.replicas.partition_lifecycle import PartitionLifecycle
from ottla.broker.replicas.partition_table import PartitionTable
from ottla.broker.replicas.read_replica import ReadReplicaSelector
from ottla.config.load import BrokerConfig
from ottla.config.topic_config import ConfigLayers
from ottla.storage.files import Files, OsFiles
from ottla.storage.manager.log_manager import METADATA_TOPIC, LogManager
from ottla.storage.manager.managed_dir import ManagedDir

log = logging.getLogger("ottla.broker")

PENDING_PARTITIONS_RETRY_MS = 1000


def wall_clock_ms() -> int:
    """For timestamps, and for what is compared with them. It may be set at any time, in both directions."""
    return time.time_ns() // 1_000_000


def loop_time_ms() -> int:
    """For intervals and deadlines: the monotonic time of the running event loop, simulated or real."""
    return int(asyncio.get_running_loop().time() * 1000)


class Node:
    """One node with its configured roles. Tests pass their own files, clock, random numbers and threads.

    There are two clocks, and each part gets the one that it uses: `clock` is the wall clock, `monotonic_ms`
    is for intervals.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        files: Files | None = None,
        clock: Callable[[], int] = wall_clock_ms,
        rng: random.Random | None = None,
        on_fatal: Callable[[BaseException], None] | None = None,
        make_executor: ExecutorFactory = thread_pool,
    ) -> None:
        self.config = config
        self.clock = clock
        self.monotonic_ms = loop_time_ms
        self.tasks = BackgroundTasks(on_fatal or _exit_now)
        self.identity = NodeIdentity(config.node_id)
        self.metadata = MetadataCache()
        self.randomness = Randomness(rng)
        self.layers = ConfigLayers(config)
        self._files = files or OsFiles()
        self.io = IoThreads(dict.fromkeys((*config.log_dirs, config.metadata_log_dir)), make_executor)
        self.logs = LogManager(self._files, config.log_dirs)
        self.flusher = Flusher(self.io, clock, self.tasks)
        self.partitions = PartitionTable(self.identity, self.metadata, self.logs)
        self.controllers = ControllerHost(
            config, self.identity, self.metadata, self.randomness, self.monotonic_ms, decision_of, self.tasks
        )
        self.controller = ControllerChannel(
            self.controllers, self.identity, config.get_int("controller.socket.timeout.ms")
        )
        self._build_replicas()
        self._build_metadata()
        self._build_api()
        self._build_maintenance()

    # -- construction

    def _build_replicas(self) -> None:
        self.replicas = ReplicaManager(
            self.config,
            self.layers,
            self.identity,
            self.metadata,
            self.partitions,
            self.flusher,
            self.clock,
            self.controller.ask,
            self.tasks,
        )
        self.read_replicas = ReadReplicaSelector(
            self.config, self.identity, self.metadata, self.replicas.is_connected
        )
        self.directory_reports = DirectoryReports(self.identity, self.logs, self.controller, self.tasks)
        self.lifecycle = PartitionLifecycle(
            self.layers,
            self.identity,
            self.metadata,
            self.logs,
            self.partitions,
            self.flusher,
            self.replicas,
            self.randomness,
            self.clock,
            self.directory_reports.hosted,
        )

    def _build_metadata(self) -> None:
        self.publisher = MetadataPublisher(self.metadata, self.lifecycle, self.replicas)
        self.applier = MetadataApplier(self.metadata, self.publisher, self.controllers, self.tasks)
        self.quorum_node = QuorumNode(
            self.applier,
            self.controllers,
            self.metadata,
            self.randomness,
            self.clock,
            self.monotonic_ms,
            self.io.raft,
            self.tasks,
        )
        self.recent_brokers = RecentBrokers(self.metadata, self.monotonic_ms, self.replicas.is_gone)
        self.topic_creator = TopicCreator(
            self.config, self.metadata, self.controller, self.applier, self.monotonic_ms
        )
        self.producer_ids = ProducerIds(self.identity, self.controller)

    def _build_api(self) -> None:
        config = self.config
        self.coordinators = Coordinators(
            config,
            self.layers,
            identity=self.identity,
            metadata=self.metadata,
            partitions=self.partitions,
            randomness=self.randomness,
            producer_ids=self.producer_ids,
            clock=self.clock,
            monotonic_ms=self.monotonic_ms,
            tasks=self.tasks,
        )
        parts = self._api_parts()
        self.dispatcher = Dispatcher(parts)
        budget = ReceiveBudget(receive_bytes_max(config), self._shrink_idle)
        self.listeners = ListenerGroup(
            config, config.broker_endpoints if config.is_broker else (), self.dispatcher, budget
        )
        self.controller_listeners = ListenerGroup(
            config,
            config.controller_endpoints,
            Dispatcher(parts, for_controller=True),
            budget,
            is_controller=True,
        )
        self.registration = Registration(
            config,
            self.identity,
            self.metadata,
            self.logs,
            self.controllers,
            self.controller,
            self.randomness,
            self.monotonic_ms,
            self.listeners.ports,
            self.tasks,
        )
        self.quorum_join = QuorumJoin(
            config,
            self.identity,
            self.randomness,
            self.controller,
            self.quorum_node,
            self.controller_listeners.ports,
            self.tasks,
        )
        self.publisher.before_change.append(self.dispatcher.fast_path.forget)
        self.publisher.on_change.append(self.recent_brokers.image_changed)

    def _api_parts(self) -> ApiParts:
        return ApiParts(
            config=self.config,
            layers=self.layers,
            clock=self.clock,
            monotonic_ms=self.monotonic_ms,
            identity=self.identity,
            randomness=self.randomness,
            metadata=self.metadata,
            applier=self.applier,
            quorum=self.quorum_node,
            controllers=self.controllers,
            controller=self.controller,
            topic_creator=self.topic_creator,
            producer_ids=self.producer_ids,
            recent_brokers=self.recent_brokers,
            logs=self.logs,
            partitions=self.partitions,
            replicas=self.replicas,
            read_replicas=self.read_replicas,
            groups=self.coordinators.groups,
            transactions=self.coordinators.transactions,
            coordinators=self.coordinators,
        )

    def _build_maintenance(self) -> None:
        maintenance = LogMaintenance(
            self.config,
            self.logs,
            self.partitions,
            self.metadata,
            self.flusher,
            self.clock,
            self.io,
        )
        snapshots = MetadataSnapshots(
            lambda: self.quorum_node.raft,
            self.metadata,
            self.clock,
            self.io.of(self.config.metadata_log_dir).background,
        )
        self.periodic_tasks = PeriodicTasks(
            [
                *maintenance.jobs(),
                (self.lifecycle.retry_pending_partitions, PENDING_PARTITIONS_RETRY_MS),
                (snapshots.maybe_write, SNAPSHOT_INTERVAL_MS),
            ],
            self.tasks,
        )
        self.directory_watch = DirectoryWatch(
            self.logs,
            self._files,
            self.io,
            self.config.get_int("log.dir.stall.timeout.ms"),
            self.tasks,
            is_reported=self.registration.is_reported_offline,
            on_resumed=self._directory_resumed,
        )
        self.logs.on_offline = self._directory_offline
        self.cleaner = Cleaner(
            self.config,
            self.layers,
            self.logs,
            self.partitions,
            self.randomness,
            self.clock,
            self.io,
            self.tasks,
        )

    def _shrink_idle(self) -> None:
        self.listeners.shrink_idle()
        self.controller_listeners.shrink_idle()

    def _directory_offline(self, log_dir: ManagedDir) -> None:
        self.registration.directories_changed()
        self.replicas.directory_offline(log_dir)

    def _directory_resumed(self, log_dir: ManagedDir) -> None:
        self.registration.directories_changed()
        self.lifecycle.directory_resumed(log_dir)

    # -- addresses

    @property
    def bootstrap_servers(self) -> str:
        """host:port of the first listener, for clients on this machine. For a node that is only a controller
        it is the address for `--bootstrap-controller` of Kafka's tools."""
        listener = (self.listeners or self.controller_listeners)[0]
        host = listener.host if listener.host not in ("", "0.0.0.0", "::") else "localhost"
        return f"[{host}]:{listener.port}" if ":" in host else f"{host}:{listener.port}"

    @property
    def port(self) -> int:
        return self.listeners[0].port

    # -- start

    async def start(self) -> None:
        """Return when a broker serves clients, or a controller takes part in the quorum."""
        for warning in self.config.warnings:
            log.warning("configuration: %s", warning)
        try:
            await self._start_quorum()
            if self.config.is_broker:
                await self._start_broker()
            else:
                self.applier.go_live()
            self.periodic_tasks.start()
            if self.config.is_broker:
                self.directory_watch.start()
                self.cleaner.start()
        except BaseException:
            await self._abandon()
            raise
        log.info(
            "serving: node=%d cluster=%s partitions=%d",
            self.identity.node_id,
            self.identity.cluster_id,
            len(self.partitions),
        )

    async def _start_quorum(self) -> None:
        """Join the metadata quorum, as a voter or as an observer."""
        config = self.config
        self.logs.open()
        self.identity.cluster_id = claim_directories(self.logs, config, self.randomness.uuid)
        raft_log, directory_id = open_raft_log(self.logs, self._files, config, self.clock())
        self.logs.logs[METADATA_TOPIC, 0] = raft_log.log
        raft_log.log.outlasts_stalls = True
        await self.controller_listeners.bind()
        await self.listeners.bind()
        settings = raft_config(
            config, self.identity.cluster_id, directory_id, self.controller_listeners.ports()
        )
        check_metadata(raft_log, settings)
        # Nothing is written before the check: refused data stay unchanged.
        self.quorum_node.start(raft_log, settings)
        await self.controller_listeners.serve()
        if config.is_controller and self.controller_listeners:
            self.quorum_join.start()

    async def _start_broker(self) -> None:
        await self.registration.register()
        await self.applier.wait_applied(self.identity.broker_epoch)
        self.lifecycle.refresh_layers()
        await asyncio.get_running_loop().run_in_executor(self.io.node, self.lifecycle.load_logs)
        self.lifecycle.set_strays_aside()
        self.lifecycle.host_all()
        self.applier.go_live()
        await self.lifecycle.sync_recovered()
        self.replicas.start()
        on_change = self.publisher.on_change
        on_change += (self.registration.image_changed, self.coordinators.image_changed)
        self.coordinators.start()
        await self.registration.become_active()
        self.registration.start()
        await self.listeners.serve()

    # -- stop

    async def stop(self) -> None:
        """Stop cleanly: hand over leadership, finish requests in flight, write everything to disk."""
        if self.config.is_broker:
            await self.registration.leave()
        await self.coordinators.stop()
        await self.listeners.stop()
        await self.replicas.stop()
        await self.directory_reports.stop()
        await self.cleaner.stop()
        await self.periodic_tasks.stop()
        await self.quorum_join.stop()
        if self.config.is_controller:
            await self.quorum_node.wait_for_departures(self.identity.node_id)
        await self.quorum_node.stop(hand_over=True)
        self.controller.close()
        await self.controller_listeners.stop()
        await self.flusher.drain()
        await self.directory_watch.stop()
        await asyncio.get_running_loop().run_in_executor(self.io.node, self._close_logs)
        self.io.shutdown()
        log.info("stopped: node=%d", self.identity.node_id)

    def _close_logs(self) -> None:
        self.logs.close(self.clock(), self.identity.broker_epoch, self.partitions.high_watermarks())

    async def _abandon(self) -> None:
        """Release everything after a failed start."""
        await self.coordinators.stop()
        await self.listeners.stop()
        await self.controller_listeners.stop()
        await self.replicas.stop()
        await self.directory_reports.stop()
        await self.quorum_join.stop()
        await self.quorum_node.stop(hand_over=False)
        self.controller.close()
        self.logs.abandon()
        self.io.shutdown(wait=False)


def _exit_now(error: BaseException) -> None:
    """End the process: a node that cannot write metadata cannot continue. A restart replays the log."""
    log.critical("the broker ends: %s", error)
    os._exit(1)
