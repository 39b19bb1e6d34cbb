"""A listening socket: admits connections up to the limits and closes idle ones."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import Mapping

from ottla.broker.net.connection import Connection
from ottla.broker.net.receive_budget import ReceiveBudget
from ottla.broker.net.request import Dispatcher
from ottla.broker.net.sender import OS_DEFAULT

log = logging.getLogger("ottla.listener")

SWEEP_SECONDS_MAX = 5.0
SHRINK_AFTER_SECONDS = 10.0
BACKLOG = 1024
UNBOUNDED_BYTES = 1 << 62


class Limits:
    """The limits of a listener's connections."""

    __slots__ = (
        "connections_max",
        "connections_per_ip",
        "connections_per_ip_max",
        "frame_bytes_max",
        "idle_seconds_max",
        "receive_buffer_bytes",
        "send_buffer_bytes",
    )

    def __init__(
        self,
        *,
        frame_bytes_max: int,
        connections_max: int,
        connections_per_ip_max: int,
        idle_ms_max: int,
        connections_per_ip: Mapping[str, int] | None = None,
        receive_buffer_bytes: int = OS_DEFAULT,
        send_buffer_bytes: int = OS_DEFAULT,
    ) -> None:
        self.receive_buffer_bytes = receive_buffer_bytes
        self.send_buffer_bytes = send_buffer_bytes
        self.connections_per_ip = connections_per_ip or {}
        self.frame_bytes_max = frame_bytes_max
        self.connections_max = connections_max
        self.connections_per_ip_max = connections_per_ip_max
        self.idle_seconds_max = idle_ms_max / 1000 if idle_ms_max > 0 else float("inf")


class Listener:
    """One endpoint of the broker, for example PLAINTEXT://127.0.0.1:9092."""

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        dispatcher: Dispatcher,
        limits: Limits,
        budget: ReceiveBudget | None = None,
    ) -> None:
        """`budget` is shared by the listeners of a node."""
        self.name = name
        self.host = host
        self.port = port
        self.is_controller = False  # serves the quorum and the controller, not clients
        self.connections: dict[Connection, None] = {}  # oldest first
        self.budget = budget or ReceiveBudget(max(UNBOUNDED_BYTES, limits.frame_bytes_max))
        self.dispatcher = dispatcher
        self._limits = limits
        self._per_ip: Counter[str] = Counter()
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    async def bind(self) -> None:
        """Bind the port without serving yet; port 0 becomes the port that the system chose."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                self._new_connection, self.host or None, self.port, backlog=BACKLOG, start_serving=False
            )
        except OSError as error:
            raise OSError(
                error.errno,
                f"cannot listen on {self.host or '*'}:{self.port} ({error.strerror or error}); "
                "is another broker running? Choose another port with --listen HOST:PORT",
            ) from error
        if self._limits.receive_buffer_bytes != OS_DEFAULT:
            for listening in self._server.sockets:
                _set_receive_buffer(listening.fileno(), self._limits.receive_buffer_bytes)
        self.port = self._server.sockets[0].getsockname()[1]

    async def serve(self) -> None:
        """Start to accept connections."""
        assert self._server is not None, "call bind() first"
        await self._server.start_serving()
        self._sweep()

    async def stop(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.close()
        if self._server is not None:
            await self._server.wait_closed()

    def shrink_idle(self) -> None:
        """Release the buffers of connections that are between two requests."""
        for connection in self.connections:
            connection.shrink()

    def admit(self, connection: Connection) -> str | None:
        """Count a new connection, or return the reason to refuse it."""
        limits = self._limits
        ip = connection.peer.rpartition(":")[0]
        if len(self.connections) >= limits.connections_max:
            return f"{limits.connections_max} connections are open (max.connections)"
        per_ip_max = limits.connections_per_ip.get(ip, limits.connections_per_ip_max)
        if self._per_ip[ip] >= per_ip_max:
            return f"{per_ip_max} connections from {ip} are open (max.connections.per.ip)"
        self.connections[connection] = None
        self._per_ip[ip] += 1
        return None

    def gone(self, connection: Connection) -> None:
        if connection in self.connections:
            del self.connections[connection]
            ip = connection.peer.rpartition(":")[0]
            self._per_ip[ip] -= 1
            if not self._per_ip[ip]:
                del self._per_ip[ip]

    def _new_connection(self) -> Connection:
        limits = self._limits
        return Connection(self, self.dispatcher, limits.frame_bytes_max, limits.send_buffer_bytes)

    def _sweep(self) -> None:
        """Close connections that are idle for too long, and release the buffers of the other idle ones."""
        loop = asyncio.get_running_loop()
        period = min(SWEEP_SECONDS_MAX, max(0.05, self._limits.idle_seconds_max / 4))
        # First of all: a failure below must not end the sweeps.
        self._sweeper = loop.call_later(period, self._sweep)
        now = loop.time()
        for connection in list(self.connections):
            idle_seconds = now - connection.last_active
            if idle_seconds > self._limits.idle_seconds_max:
                log.info("idle connection closed: peer=%s idle_s=%.0f", connection.peer, idle_seconds)
                connection.close()
            elif idle_seconds > SHRINK_AFTER_SECONDS:
                connection.shrink()


def _set_receive_buffer(fileno: int, buffer_bytes: int) -> None:
    """Set it on the listening socket; connections inherit it."""
    with socket.socket(fileno=os.dup(fileno)) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
