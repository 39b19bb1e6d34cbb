"""This broker's registration with the controller: at start-up, by heartbeats, and at shutdown."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING

from ottla.broker.background import cancel
from ottla.broker.metadata.controller_channel import ControllerUnreachable
from ottla.config.listeners import SECURITY_PROTOCOLS
from ottla.controller.features import SUPPORTED_FEATURES
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration_request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ottla.broker.background import BackgroundTasks
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata.controller_channel import ControllerChannel
    from ottla.broker.metadata.controller_host import ControllerHost
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.randomness import Randomness
    from ottla.config.load import BrokerConfig
    from ottla.controller.image.parts import ImageDelta
    from ottla.storage.manager.log_manager import LogManager
    from ottla.storage.manager.managed_dir import ManagedDir

RETRY_MS = 50
# Limit of the pauses between heartbeats to a controller that ends each connection. The pause must be shorter
# than broker.disconnect.grace.ms.
RECONNECT_MAX_MS = 200
LEAVE_TIMEOUT_MS = 5000
# Errors that a retry cannot change.
_FINAL = frozenset(
    (ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REGISTRATION)
)

log = logging.getLogger("ottla.registration")


class RegistrationFailed(RuntimeError):
    """No controller has accepted this broker in time, or one has refused it for good."""


class Registration:
    def __init__(
        self,
        config: BrokerConfig,
        identity: NodeIdentity,
        metadata: MetadataCache,
        logs: LogManager,
        controllers: ControllerHost,
        controller: ControllerChannel,
        randomness: Randomness,
        monotonic_ms: Callable[[], int],
        bound_ports: Callable[[], Mapping[str, int]],
        tasks: BackgroundTasks,
    ) -> None:
        """`bound_ports`: the port of each broker listener, by listener name."""
        self._config = config
        self._identity = identity
        self._metadata = metadata
        self._logs = logs
        self._controllers = controllers
        self._controller = controller
        self._monotonic_ms = monotonic_ms
        self._bound_ports = bound_ports
        self._tasks = tasks
        self._incarnation_id = randomness.uuid()
        self._interval_ms = config.get_int("broker.heartbeat.interval.ms")
        self._session_ms = config.get_int("broker.session.timeout.ms")
        self._due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._lost_at_s = -math.inf  # when the connection of the heartbeats was last lost
        self._reconnect_ms = 0  # the pause after that
        controller.when_heartbeats_lost(self._connection_lost)

    # -- start-up

    async def register(self) -> None:
        """Register a new incarnation; returns when a controller has accepted it."""
        deadline_ms = self._monotonic_ms() + self._config.get_int("initial.broker.registration.timeout.ms")
        refused_with = ErrorCode.NONE
        while True:
            left_ms = deadline_ms - self._monotonic_ms()
            try:
                reply = await self._controller.ask(self._request(), timeout_ms=max(1, left_ms))
            except ControllerUnreachable as error:
                raise RegistrationFailed(
                    f"this broker could not register: {error}; are the voters of controller.quorum.voters "
                    "running? (initial.broker.registration.timeout.ms)"
                ) from error
            code = ErrorCode(reply.error_code)
            if code == ErrorCode.NONE:
                self._identity.broker_epoch = reply.broker_epoch
                return
            if code in _FINAL or left_ms <= 0:
                raise RegistrationFailed(f"the controller refused this broker: {code.name}")
            if code != refused_with:
                log.info("registration refused for now: %s", code.name)
                refused_with = code
            await asyncio.sleep(RETRY_MS / 1000)

    async def become_active(self) -> None:
        """Send heartbeats until the controller unfences this broker."""
        while True:
            response = await self._heartbeat(timeout_ms=self._session_ms)
            if response is not None and not response.is_fenced and not response.error_code:
                return
            await asyncio.sleep(RETRY_MS / 1000)

    def start(self) -> None:
        self._task = self._tasks.keep_running("heartbeats", self._run)

    # -- heartbeats

    def image_changed(self, delta: ImageDelta) -> None:
        """Send a heartbeat if a broker shuts down: the controller waits until the others have caught up."""
        brokers = self._metadata.image.brokers
        if any(each in brokers and brokers[each].in_controlled_shutdown for each in sorted(delta.brokers)):
            self._due.set()

    def directories_changed(self) -> None:
        """A log directory went offline or came back: the controller is told at once."""
        self._due.set()

    def _connection_lost(self) -> None:
        """Send a heartbeat: the controller takes a broker without a connection for dead after a short grace.

        The first one goes at once. Losses in quick succession make the pauses longer.
        """
        loop = asyncio.get_running_loop()
        again = loop.time() - self._lost_at_s < self._interval_ms / 1000
        self._reconnect_ms = min(max(RETRY_MS, 2 * self._reconnect_ms), RECONNECT_MAX_MS) if again else 0
        self._lost_at_s = loop.time()
        loop.call_later(self._reconnect_ms / 1000, self._due.set)

    def is_reported_offline(self, log_dir: ManagedDir) -> bool:
        """Whether the metadata show that this broker cannot use the directory."""
        broker = self._metadata.image.brokers.get(self._identity.node_id)
        known = () if broker is None or broker.fenced else broker.log_dirs
        return log_dir.meta is None or log_dir.meta.directory_id not in known

    def _is_directory_back(self) -> bool:
        """Whether a directory is online that the metadata do not list: only a registration adds one."""
        broker = self._metadata.image.brokers.get(self._identity.node_id)
        if broker is None or broker.fenced:
            return False
        return any(
            each.meta and each.meta.directory_id not in broker.log_dirs for each in self._logs.live_dirs()
        )

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        change: asyncio.Future[None] | None = None
        while True:
            timer = loop.call_later(self._interval_ms / 1000, self._due.set)
            if change is None or change.done():
                change = self._controllers.next_change()
                change.add_done_callback(lambda _: self._due.set())  # a new controller needs a heartbeat
            try:
                await self._due.wait()
            finally:
                timer.cancel()
            self._due.clear()
            if self._is_directory_back():
                await self._register_again()
            response = await self._heartbeat(timeout_ms=self._session_ms)
            if response is not None and response.error_code:
                await self._refused(ErrorCode(response.error_code))

    async def _register_again(self) -> None:
        try:
            await self.register()
        except RegistrationFailed as error:
            log.error("directories not registered, tries again: %s", error)

    async def _refused(self, code: ErrorCode) -> None:
        log.error("heartbeat refused: %s", code.name)
        if code == ErrorCode.BROKER_ID_NOT_REGISTERED:
            try:
                await self.register()  # it was unregistered while it sent no heartbeats
                self._due.set()
            except RegistrationFailed as error:
                # Clients may still use this broker: it stays, and the next heartbeat tries again.
                log.error("not registered, tries again: %s", error)

    # -- shutdown

    async def leave(self) -> None:
        """Controlled shutdown: hand over leadership before a clean stop."""
        await cancel(self._task)
        deadline_ms = self._monotonic_ms() + LEAVE_TIMEOUT_MS
        while (left_ms := deadline_ms - self._monotonic_ms()) > 0:
            response = await self._heartbeat(want_shut_down=True, timeout_ms=left_ms)
            if response is None or response.error_code:
                break
            if response.should_shut_down:
                return
            await asyncio.sleep(RETRY_MS / 1000)
        log.warning("the controller has not confirmed the shutdown of this broker")

    async def _heartbeat(
        self, *, want_shut_down: bool = False, timeout_ms: int
    ) -> BrokerHeartbeatResponse | None:
        """The controller's response; None if there was none."""
        message = BrokerHeartbeatRequest(
            broker_id=self._identity.node_id,
            broker_epoch=self._identity.broker_epoch,
            current_metadata_offset=self._metadata.offset,
            want_fence=False,
            want_shut_down=want_shut_down,
            offline_log_dirs=[
                log_dir.meta.directory_id for log_dir in self._logs.offline_dirs() if log_dir.meta is not None
            ],
        )
        if self._controllers.active is not None:
            self._controllers.heartbeat_received(message.broker_id, message.broker_epoch, None)
        try:
            response = await self._controller.ask(message, timeout_ms=timeout_ms)
        except (ControllerUnreachable, StorageError) as error:
            log.warning("heartbeat not answered: %s", error)
            return None
        assert isinstance(response, BrokerHeartbeatResponse)
        return response

    def _previous_epoch(self) -> int:
        """The epoch of the last run if it stopped cleanly, -1 if anything may have been lost."""
        epochs = {log_dir.broker_epoch if log_dir.clean else -1 for log_dir in self._logs.dirs}
        return epochs.pop() if len(epochs) == 1 else -1

    def _request(self) -> BrokerRegistrationRequest:
        config = self._config
        ports = self._bound_ports()
        directories = self._logs.live_dirs() or self._logs.dirs
        listeners = [
            Listener(
                name=endpoint.name,
                host=endpoint.host or "localhost",
                port=endpoint.port or ports[endpoint.name],
                security_protocol=SECURITY_PROTOCOLS[endpoint.security_protocol],
            )
            for endpoint in config.advertised_endpoints
        ]
        return BrokerRegistrationRequest(
            broker_id=self._identity.node_id,
            cluster_id=self._identity.cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=listeners,
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
            rack=config.get("broker.rack"),
            previous_broker_epoch=self._previous_epoch(),
            log_dirs=[each.meta.directory_id for each in directories if each.meta is not None],
        )
