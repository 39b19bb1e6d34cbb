"""How this broker makes itself known to the controller: registration at start, heartbeats, leaving."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

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
    from ottla.broker.node import Node
    from ottla.controller.image_parts import ImageDelta

RETRY_MS = 50
LEAVE_TIMEOUT_MS = 5000
# The controller will not change its mind about these.
_FINAL = frozenset(
    (ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REGISTRATION)
)

log = logging.getLogger("ottla.registration")


class Registration:
    def __init__(self, broker: Node) -> None:
        config = broker.config
        self._broker = broker
        self._incarnation_id = broker.random_uuid()
        self._interval_ms = config.get_int("broker.heartbeat.interval.ms")
        self._session_ms = config.get_int("broker.session.timeout.ms")
        self._due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # -- coming

    async def register(self) -> None:
        """Register under a new incarnation; returns when a controller has taken it."""
        deadline_ms = self._broker.clock() + self._broker.config.get_int(
            "initial.broker.registration.timeout.ms"
        )
        refused_with = ErrorCode.NONE
        while True:
            left_ms = deadline_ms - self._broker.clock()
            try:
                reply = await self._broker.controller.ask(self._request(), timeout_ms=max(1, left_ms))
            except ControllerUnreachable as error:
                raise RuntimeError(
                    f"this broker could not register: {error}; are the voters of controller.quorum.voters "
                    "running? (initial.broker.registration.timeout.ms)"
                ) from error
            code = ErrorCode(reply.error_code)
            if code == ErrorCode.NONE:
                self._broker.identity.broker_epoch = reply.broker_epoch
                return
            if code in _FINAL or left_ms <= 0:
                raise RuntimeError(f"the controller refused this broker: {code.name}")
            if code != refused_with:
                log.info("registration refused for now: %s", code.name)
                refused_with = code
            await asyncio.sleep(RETRY_MS / 1000)

    async def become_active(self) -> None:
        """Heartbeat until the controller lets this broker lead."""
        while True:
            answer = await self._heartbeat(timeout_ms=self._session_ms)
            if answer is not None and not answer.is_fenced and not answer.error_code:
                return
            await asyncio.sleep(RETRY_MS / 1000)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="heartbeats")

    # -- being here

    def image_changed(self, delta: ImageDelta) -> None:
        """The controller waits for the others before it lets a broker go: do not keep it waiting."""
        brokers = self._broker.image.brokers
        if any(each in brokers and brokers[each].in_controlled_shutdown for each in sorted(delta.brokers)):
            self._due.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        news: asyncio.Future[None] | None = None
        while True:
            timer = loop.call_later(self._interval_ms / 1000, self._due.set)
            if news is None or news.done():
                news = self._broker.plane.leader_news()
                news.add_done_callback(lambda _: self._due.set())  # a new controller wants to hear of us
            try:
                await self._due.wait()
            finally:
                timer.cancel()
            self._due.clear()
            answer = await self._heartbeat(timeout_ms=self._session_ms)
            if answer is not None and answer.error_code:
                await self._refused(ErrorCode(answer.error_code))

    async def _refused(self, code: ErrorCode) -> None:
        log.error("heartbeat refused: %s", code.name)
        if code == ErrorCode.BROKER_ID_NOT_REGISTERED:
            await self.register()  # somebody has unregistered this broker while it was silent
            self._due.set()

    # -- going

    async def leave(self) -> None:
        """Before a clean stop: hand over what is led, so that whoever comes next need not guess."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        deadline_ms = self._broker.clock() + LEAVE_TIMEOUT_MS
        while (left_ms := deadline_ms - self._broker.clock()) > 0:
            answer = await self._heartbeat(want_shut_down=True, timeout_ms=left_ms)
            if answer is None or answer.error_code:
                break
            if answer.should_shut_down:
                return
            await asyncio.sleep(RETRY_MS / 1000)
        log.warning("the controller has not let this broker go")

    async def _heartbeat(
        self, *, want_shut_down: bool = False, timeout_ms: int
    ) -> BrokerHeartbeatResponse | None:
        """The controller's answer; None if there was none."""
        broker = self._broker
        message = BrokerHeartbeatRequest(
            broker_id=broker.node_id,
            broker_epoch=self._broker.identity.broker_epoch,
            current_metadata_offset=broker.image_offset,
            want_fence=False,
            want_shut_down=want_shut_down,
            offline_log_dirs=[
                log_dir.meta.directory_id
                for log_dir in broker.logs.offline_dirs()
                if log_dir.meta is not None
            ],
        )
        if broker.plane.active is not None:
            broker.plane.heard_of(broker.node_id, self._broker.identity.broker_epoch, None)
        try:
            answer = await broker.controller.ask(message, timeout_ms=timeout_ms)
        except (ControllerUnreachable, StorageError) as error:
            log.warning("heartbeat without an answer: %s", error)
            return None
        assert isinstance(answer, BrokerHeartbeatResponse)
        return answer

    def _previous_epoch(self) -> int:
        """The epoch of the last run if it stopped cleanly, -1 if anything may have been lost."""
        epochs = {log_dir.broker_epoch if log_dir.clean else -1 for log_dir in self._broker.logs.dirs}
        return epochs.pop() if len(epochs) == 1 else -1

    def _request(self) -> BrokerRegistrationRequest:
        broker = self._broker
        config = broker.config
        bound = {listener.name: listener for listener in broker.listeners}
        listeners = []
        for endpoint in config.advertised_endpoints:
            listener = bound[endpoint.name]
            listeners.append(
                Listener(
                    name=endpoint.name,
                    host=endpoint.host or "localhost",
                    port=endpoint.port or listener.port,
                    security_protocol=SECURITY_PROTOCOLS[endpoint.security_protocol],
                )
            )
        return BrokerRegistrationRequest(
            broker_id=broker.node_id,
            cluster_id=broker.cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=listeners,
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
            rack=config.get("broker.rack"),
            previous_broker_epoch=self._previous_epoch(),
            log_dirs=[log_dir.meta.directory_id for log_dir in broker.logs.dirs if log_dir.meta is not None],
        )
