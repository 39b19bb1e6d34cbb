"""A node: brings the rooms together, starts them in order and stops them in the reverse one."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from ottla.broker.controller_loop import ControllerLoop, ControllerStopped, Decide, Reply
from ottla.broker.dispatch import Dispatcher
from ottla.broker.fetch_sessions import FetchSessionCache
from ottla.broker.flusher import Flusher
from ottla.broker.identity import settle_identity
from ottla.broker.listener import Limits, Listener
from ottla.broker.metadata_publisher import MetadataPublisher
from ottla.broker.partition_table import PartitionTable
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.receive_budget import ReceiveBudget
from ottla.broker.refusals import refused
from ottla.broker.registration import Registration
from ottla.broker.topic_creator import TopicCreator
from ottla.broker.upkeep import Upkeep
from ottla.config.definitions import ConfigError
from ottla.config.load import BrokerConfig
from ottla.config.topic_config import ConfigLayers
from ottla.controller.controller import Controller
from ottla.controller.features import bootstrap_records, unsupported_features
from ottla.controller.image import ClusterImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.frames import SIZE_BYTES
from ottla.protocol.message import Message
from ottla.quorum.settings import MetadataLogSettings
from ottla.quorum.single import SingleVoterQuorum
from ottla.storage.errors import StorageError
from ottla.storage.files import Files, OsFiles
from ottla.storage.log_manager import METADATA_TOPIC, LogManager, ManagedDir

log = logging.getLogger("ottla.broker")

WORKER_THREADS = 4  # for fsync and file work that must not hold the loop


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Broker:
    """One node with both roles. What it takes from outside (clock, files, chance) is passed in for tests."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        files: Files | None = None,
        clock: Callable[[], int] = wall_clock_ms,
        rng: random.Random | None = None,
        on_fatal: Callable[[BaseException], None] | None = None,
    ) -> None:
        _check_alone(config)
        self.config = config
        self.clock = clock
        self.node_id = config.node_id
        self.fetch_max_bytes = config.get_int("fetch.max.bytes")
        self.layers = ConfigLayers(config)
        self.partitions = PartitionTable()
        self.dispatcher = Dispatcher(self)
        self.fetch_sessions = FetchSessionCache(
            config.get_int("max.incremental.fetch.session.cache.slots"),
            new_id=lambda: self._rng.randint(1, 2**31 - 1),
        )
        self.topic_creator = TopicCreator(self)
        self.cluster_id = ""
        self.listeners: list[Listener] = []
        self.logs: LogManager
        self.controller: ControllerLoop
        self.producer_ids: ProducerIds
        self.flusher: Flusher
        self._files = files or OsFiles()
        self._rng = rng or random.Random(os.urandom(16))
        self._on_fatal = on_fatal or _exit_now
        self._publisher = MetadataPublisher(self)
        self._quorum: SingleVoterQuorum
        self._executor = ThreadPoolExecutor(WORKER_THREADS, thread_name_prefix="ottla-io")
        self._registration = Registration(self)
        self._upkeep: Upkeep | None = None

    # -- what handlers ask

    @property
    def image(self) -> ClusterImage:
        return self._publisher.image

    @property
    def image_offset(self) -> int:
        return self._publisher.offset

    @property
    def broker_epoch(self) -> int:
        return self._registration.broker_epoch

    @property
    def auto_create_topics(self) -> bool:
        return self.config.get_bool("auto.create.topics.enable")

    @property
    def bootstrap_servers(self) -> str:
        """Where clients of this machine find the broker: host:port of its first listener."""
        listener = self.listeners[0]
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

    async def change(self, message: Message, decide: Decide[Reply]) -> Reply:
        """The controller's reply to an admin request; every item refused if nothing could be written."""
        try:
            return await self.controller.submit(decide)
        except StorageError as error:
            return refused(message, error.code, error.reason)  # type: ignore[no-any-return]

    def random_uuid(self) -> bytes:
        """16 random bytes whose text form does not begin with a dash: it would look like an option."""
        while True:
            value = self._rng.randbytes(16)
            if value[0] >> 2 != 62:
                return value

    # -- life

    async def start(self) -> None:
        for warning in self.config.warnings:
            log.warning("configuration: %s", warning)
        try:
            self._open_storage()
            self._replay_metadata()
            await self._sync_recovered()
            await self._bind_listeners()
            await self._start_controller()
            await self._registration.register()
            for listener in self.listeners:
                await listener.serve()
            self._upkeep = Upkeep(self, self._quorum, self._executor)
            self._upkeep.start()
        except BaseException:
            await self._abandon()
            raise
        log.info(
            "serving: node=%d cluster=%s partitions=%d", self.node_id, self.cluster_id, len(self.partitions)
        )

    async def stop(self) -> None:
        """A clean stop: no new work, what is under way is finished, everything is on the disk."""
        for listener in self.listeners:
            await listener.stop()
        if self._upkeep is not None:
            await self._upkeep.stop()
        try:
            await self._registration.leave()
        except (StorageError, ControllerStopped) as error:
            log.warning("the broker stops without its leave: %s", error)
        await self.controller.stop()
        await self.flusher.drain()
        watermarks = {(p.topic, p.index): p.high_watermark for p in self.partitions}
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(
            self._executor, lambda: self.logs.close(self.clock(), self.broker_epoch, watermarks)
        )
        self._executor.shutdown()
        log.info("stopped: node=%d", self.node_id)

    async def _abandon(self) -> None:
        """Let go of everything after a failed start."""
        for listener in self.listeners:
            await listener.stop()
        if hasattr(self, "controller"):
            await self.controller.stop()
        if hasattr(self, "logs"):
            self.logs.abandon()
        self._executor.shutdown(wait=False)

    def _open_storage(self) -> None:
        config = self.config
        self.logs = LogManager(self._files, config.log_dirs)
        self.cluster_id = settle_identity(self.logs, self.node_id, self.random_uuid)
        metadata_dir = self._metadata_dir()
        key = (METADATA_TOPIC, 0)
        self._quorum = SingleVoterQuorum.open(
            self._files,
            metadata_dir,
            MetadataLogSettings(config),
            node_id=self.node_id,
            now_ms=self.clock(),
            clean=metadata_dir.clean,
            recovery_point=metadata_dir.recovery_points.get(key),
        )
        self.logs.logs[key] = self._quorum.log
        self.flusher = Flusher(self._executor, self.clock)

    def _metadata_dir(self) -> ManagedDir:
        path = self.config.metadata_log_dir
        for log_dir in self.logs.dirs:
            if log_dir.path == path:
                if log_dir.error is not None:
                    raise log_dir.error
                return log_dir
        raise ValueError(
            f"metadata.log.dir={path}: must be one of log.dirs ({', '.join(self.config.log_dirs)})"
        )

    def _replay_metadata(self) -> None:
        """Both images, the controller's and the broker's, come from the same records."""
        controller_image = ClusterImage()
        for offset, _, record in self._quorum.replay():
            controller_image.apply(record)
            self._publisher.replay(record, offset)
        problems = unsupported_features(self.image.features)
        if problems:
            raise ValueError(
                f"this version cannot serve the data in {self._quorum.directory}: {'; '.join(problems)}"
            )
        # Only now is anything written: data that is refused stays as it was.
        for offset, record in self._quorum.begin_epoch(self.clock(), bootstrap_records()):
            controller_image.apply(record)
            self._publisher.replay(record, offset)
        self._publisher.refresh_layers()
        self.logs.load(lambda topic: self._publisher.settings_of(topic).log, self.clock())
        self._publisher.set_strays_aside()
        self._publisher.host_everything()
        controller = Controller(
            controller_image,
            self.config,
            cluster_id=self.cluster_id,
            draw=self._rng.randrange,
            new_uuid=self.random_uuid,
        )
        self.controller = ControllerLoop(
            controller,
            self._quorum,
            self._executor,
            self.clock,
            self._publisher.publish,
            self._publisher.copy_of_image,
            self._on_fatal,
        )
        self.producer_ids = ProducerIds(self)

    async def _sync_recovered(self) -> None:
        """What a killed process left to the kernel is served, and acknowledged to retries, from now on: where
        flush.messages promises the disk, it has to be there first."""
        for partition in self.partitions:
            if partition.log.unflushed_messages >= partition.log.config.flush_messages:
                self.flusher.flush(partition)
        await self.flusher.drain()

    async def _bind_listeners(self) -> None:
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
        budget = ReceiveBudget(_receive_bytes_max(config), self._shrink_idle)
        for endpoint in config.broker_endpoints:
            listener = Listener(endpoint.name, endpoint.host, endpoint.port, self.dispatcher, limits, budget)
            self.listeners.append(listener)
            await listener.bind()

    def _shrink_idle(self) -> None:
        for listener in self.listeners:
            listener.shrink_idle()

    async def _start_controller(self) -> None:
        self.controller.start()


def _receive_bytes_max(config: BrokerConfig) -> int:
    """queued.max.request.bytes; if that is not set, a quarter of the machine's memory."""
    configured = config.get_int("queued.max.request.bytes")
    if configured > 0:
        return configured + SIZE_BYTES
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(memory_bytes // 4, 2 * (config.get_int("socket.request.max.bytes") + SIZE_BYTES))


def _check_alone(config: BrokerConfig) -> None:
    """A member of a cluster that would lead all by itself is worse than none."""
    voters = [voter.node_id for voter in config.voters]
    if not (config.is_broker and config.is_controller) or voters not in ([], [config.node_id]):
        raise ConfigError(
            "controller.quorum.voters",
            config.static.get("controller.quorum.voters", ""),
            "this version serves one node with process.roles=broker,controller and no other voter",
        )


def _exit_now(error: BaseException) -> None:
    """Metadata that cannot be written leaves no way to go on; a restart replays what is on the disk."""
    log.critical("the broker ends: %s", error)
    os._exit(1)
