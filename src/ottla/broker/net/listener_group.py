"""The listeners of one kind: those for clients and other brokers, or those for the quorum."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.broker.net.listener import Limits, Listener
from ottla.protocol.frames import SIZE_BYTES

if TYPE_CHECKING:
    from ottla.broker.net.receive_budget import ReceiveBudget
    from ottla.broker.net.request import Dispatcher
    from ottla.config.listeners import Endpoint
    from ottla.config.load import BrokerConfig


class ListenerGroup:
    def __init__(
        self,
        config: BrokerConfig,
        endpoints: tuple[Endpoint, ...],
        dispatcher: Dispatcher,
        budget: ReceiveBudget,
        *,
        is_controller: bool = False,
    ) -> None:
        limits = Limits(
            frame_bytes_max=config.get_int("socket.request.max.bytes"),
            connections_max=config.get_int("max.connections"),
            connections_per_ip_max=config.get_int("max.connections.per.ip"),
            connections_per_ip=config.connections_per_ip,
            idle_ms_max=config.get_int("connections.max.idle.ms"),
            receive_buffer_bytes=config.get_int("socket.receive.buffer.bytes"),
            send_buffer_bytes=config.get_int("socket.send.buffer.bytes"),
        )
        self._listeners = [
            Listener(each.name, each.host, each.port, dispatcher, limits, budget) for each in endpoints
        ]
        for listener in self._listeners:
            listener.is_controller = is_controller

    def __iter__(self) -> Iterator[Listener]:
        return iter(self._listeners)

    def __len__(self) -> int:
        return len(self._listeners)

    def __getitem__(self, index: int) -> Listener:
        return self._listeners[index]

    def ports(self) -> dict[str, int]:
        """The bound ports, by listener name."""
        return {listener.name: listener.port for listener in self._listeners}

    async def bind(self) -> None:
        """Bind the ports; `serve` starts to accept connections."""
        for listener in self._listeners:
            await listener.bind()

    async def serve(self) -> None:
        for listener in self._listeners:
            await listener.serve()

    async def stop(self) -> None:
        for listener in self._listeners:
            await listener.stop()

    def shrink_idle(self) -> None:
        """Free the receive buffers of idle connections."""
        for listener in self._listeners:
            listener.shrink_idle()


def receive_bytes_max(config: BrokerConfig) -> int:
    """queued.max.request.bytes; if that is not set, a quarter of the machine's memory."""
    configured = config.get_int("queued.max.request.bytes")
    if configured > 0:
        return configured + SIZE_BYTES
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(memory_bytes // 4, 2 * (config.get_int("socket.request.max.bytes") + SIZE_BYTES))
