"""How this broker makes itself known to the controller: registration at start, then unfencing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.config.listeners import SECURITY_PROTOCOLS
from ottla.controller.features import SUPPORTED_FEATURES
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_registration_request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


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
        heartbeat = BrokerHeartbeatRequest(
            broker_id=broker.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=broker.image_offset,
            want_fence=False,
        )
        answer = await broker.controller.submit(
            lambda controller, now_ms: controller.decide_broker_heartbeat(heartbeat, now_ms)
        )
        assert not answer.is_fenced, "a broker that has seen its registration becomes active"

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
            log_dirs=[log_dir.meta.directory_id for log_dir in broker.logs.dirs if log_dir.meta is not None],
        )
