"""The proxies between the members of a test cluster: every link can be cut and healed.

Members advertise the addresses of proxies, and connect from loopback addresses of their own (127.0.1.1 is
member 0), so a proxy knows both ends of a connection. A cut link drops everything silently, as a broken
network does: connections stay open, new ones seem to open, and nothing arrives until the link is healed.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterable
from typing import cast

HOST = "127.0.0.1"
CLIENT = -1
MEMBERS_MAX = 200
CLOSING_ITERATIONS = 5

Link = tuple[int, int]


def links_available() -> bool:
    """Return whether the loopback device has more than one address: only on Linux."""
    return sys.platform == "linux"


def address_of(member: int) -> str:
    """Source address of a member's connections."""
    assert 0 <= member < MEMBERS_MAX, member
    return f"127.0.1.{member + 1}"


def member_of(address: str) -> int:
    """Member that connects from this address, or CLIENT."""
    prefix, _, last = address.rpartition(".")
    return int(last) - 1 if prefix == "127.0.1" else CLIENT


class _ProxySide(asyncio.Protocol):
    """One side of a proxied connection: what it reads, the other side writes."""

    def __init__(self, connections: _ProxiedConnection) -> None:
        self.connections = connections
        self.transport: asyncio.Transport | None = None
        self.other: _ProxySide | None = None
        self.other_is_full = False
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.connections.opened(self)

    def data_received(self, data: bytes) -> None:
        assert self.other is not None and self.other.transport is not None
        self.other.transport.write(data)

    def pause_writing(self) -> None:
        assert self.other is not None
        self.other.other_is_full = True
        self.other.update()

    def resume_writing(self) -> None:
        assert self.other is not None
        self.other.other_is_full = False
        self.other.update()

    def update(self) -> None:
        """Resume or pause reading: read while the other side can write and the link is not cut."""
        if self.transport is None or self.transport.is_closing():
            return
        ready = self.other is not None and self.other.transport is not None
        if ready and not self.other_is_full and not self.connections.cut:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        self.connections.ended(self, error)


class _ProxiedConnection:
    """A proxied connection from a member or client to a member."""

    def __init__(self, links: ProxyNetwork, target: int, port: int) -> None:
        self.links = links
        self.target = target
        self.port = port
        self.source = CLIENT
        self.near = _ProxySide(self)
        self.far: _ProxySide | None = None
        self._connecting: asyncio.Task[None] | None = None

    @property
    def cut(self) -> bool:
        return (self.source, self.target) in self.links.cut_links

    def opened(self, end: _ProxySide) -> None:
        if end is self.near:
            assert end.transport is not None
            peer = end.transport.get_extra_info("peername")
            self.source = member_of(peer[0]) if peer else CLIENT
            self.links.connections[self] = None
        self.update()

    def update(self) -> None:
        """Follow a change of the links."""
        self.near.update()
        if self.far is not None:
            self.far.update()
        elif not self.cut and self._connecting is None:
            self._connecting = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        far = _ProxySide(self)
        far.other = self.near
        try:
            await asyncio.get_running_loop().create_connection(lambda: far, HOST, self.port)
        except OSError as error:
            self.ended(far, error)
            return
        if self.near.transport is None or self.near.transport.is_closing():
            assert far.transport is not None
            far.transport.abort()
            return
        self.far = far
        self.near.other = far
        self.update()

    def ended(self, end: _ProxySide, error: Exception | None) -> None:
        """One side was lost: close the other after its buffered data is sent.

        The connection is tracked until both sides are lost, since the peer may not read that data.
        """
        if self.near.is_lost and (self.far is None or self.far.is_lost):
            self.links.connections.pop(self, None)
        other = self.near if end is not self.near else self.far
        if other is not None and other.transport is not None:
            if error is not None:
                other.transport.abort()
            else:
                other.transport.close()

    def abort(self) -> None:
        for end in (self.near, self.far):
            if end is not None and end.transport is not None:
                end.transport.abort()
        if self._connecting is not None:
            self._connecting.cancel()


class ProxyNetwork:
    """The proxies of a cluster, on a thread with its own event loop."""

    def __init__(self) -> None:
        self.cut_links: dict[Link, None] = {}
        self.connections: dict[_ProxiedConnection, None] = {}
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="ottla-links", daemon=True)
        self._thread.start()

    def add(self, target: int, port: int) -> int:
        """Start a proxy for a port of a member; return the port to advertise."""

        async def serve() -> int:
            server = await asyncio.get_running_loop().create_server(
                lambda: _ProxiedConnection(self, target, port).near, HOST, 0
            )
            self._servers.append(server)
            found: int = server.sockets[0].getsockname()[1]
            return found

        return asyncio.run_coroutine_threadsafe(serve(), self._loop).result()

    def cut(self, links: Iterable[Link]) -> None:
        """Cut connections from the first to the second member of each pair."""
        added = dict.fromkeys(links)
        self._change(lambda: self.cut_links.update(added))

    def heal(self, links: Iterable[Link] | None = None) -> None:
        """Heal these links, or all of them (None); delayed data is delivered."""
        healed = None if links is None else list(links)

        def unblock() -> None:
            for link in list(self.cut_links) if healed is None else healed:
                self.cut_links.pop(link, None)

        self._change(unblock)

    def close(self) -> None:
        async def end() -> None:
            # A closing server drops connections that it has just accepted, so stop accepting first.
            for server in self._servers:
                for listening in server.sockets:
                    self._loop.remove_reader(listening.fileno())
            await self._abort_all()
            for server in self._servers:
                server.close()

        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(end(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    async def _abort_all(self) -> None:
        # A few iterations of the loop: accepted connections appear, and transports close.
        for _ in range(CLOSING_ITERATIONS):
            for connections in list(self.connections):
                connections.abort()
            await asyncio.sleep(0)

    def _change(self, change: Callable[[], None]) -> None:
        """Change the links on the proxies' thread, and wait until all connections follow."""

        async def work() -> None:
            change()
            for connections in list(self.connections):
                connections.update()

        asyncio.run_coroutine_threadsafe(work(), self._loop).result()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.close()
