"""How this broker makes itself known to the controller: registration at start, then unfencing."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

LEAVE_TRIES = 3

log = logging.getLogger("ottla.registration")


class Registration:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.broker_epoch = -1

    async def register(self) -> None:
        """Register under a new incarnation and become active."""
        broker = self._broker
        request = self._request()
        reply = await broker.controller.submit(
            lambda controller, now_ms: controller.decide_register_broker(
                request, now_ms, broker.controller.next_offset
            )
        )
        if reply.error_code:
            raise RuntimeError(f"the controller refused this broker: {ErrorCode(reply.error_code).name}")
        self.broker_epoch = reply.broker_epoch
        answer = await self._heartbeat()
        assert not answer.is_fenced, "a broker that has seen its registration becomes active"

    async def leave(self) -> None:
        """Before a clean stop: hand over what is led, so that whoever comes next need not guess."""
        for _ in range(LEAVE_TRIES):
            if (await self._heartbeat(want_shut_down=True)).should_shut_down:
                return
        log.warning("the controller has not let this broker go")

    async def _heartbeat(self, *, want_shut_down: bool = False) -> BrokerHeartbeatResponse:
        broker = self._broker
        message = BrokerHeartbeatRequest(
            broker_id=broker.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=broker.image_offset,
            want_fence=False,
            want_shut_down=want_shut_down,
        )
        return await broker.controller.submit(
            lambda controller, now_ms: controller.decide_broker_heartbeat(message, now_ms)
        )

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
            incarnation_id=broker.random_uuid(),
            listeners=listeners,
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
            rack=config.get("broker.rack"),
            previous_broker_epoch=self._previous_epoch(),
            log_dirs=[log_dir.meta.directory_id for log_dir in broker.logs.dirs if log_dir.meta is not None],
        )
