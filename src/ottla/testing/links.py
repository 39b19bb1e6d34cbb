"""The network between the members of a test cluster: every link can be cut and healed.

Members are told the addresses of proxies instead of each other's, and connect from loopback addresses of
their own (127.0.1.1 is member 0), so a proxy knows both ends of what it carries. A cut link is a black hole,
as a broken network is: connections stay open, new ones seem to open, and nothing arrives until it is healed.
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
CLOSING_TURNS = 5

Link = tuple[int, int]


def links_available() -> bool:
    """Other systems give the loopback device one address only."""
    return sys.platform == "linux"


def address_of(member: int) -> str:
    """Where the connections of a member come from."""
    assert 0 <= member < MEMBERS_MAX, member
    return f"127.0.1.{member + 1}"


def member_of(address: str) -> int:
    """Whose connection it is, CLIENT for everybody who is no member."""
    prefix, _, last = address.rpartition(".")
    return int(last) - 1 if prefix == "127.0.1" else CLIENT


class _End(asyncio.Protocol):
    """One of the two connections of a carried one: what it reads, the other end writes."""

    def __init__(self, carried: _Carried) -> None:
        self.carried = carried
        self.transport: asyncio.Transport | None = None
        self.other: _End | None = None
        self.other_is_full = False
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.carried.opened(self)

    def data_received(self, data: bytes) -> None:
        assert self.other is not None and self.other.transport is not None
        self.other.transport.write(data)

    def pause_writing(self) -> None:
        assert self.other is not None
        self.other.other_is_full = True
        self.other.settle()

    def resume_writing(self) -> None:
        assert self.other is not None
        self.other.other_is_full = False
        self.other.settle()

    def settle(self) -> None:
        """Read while there is somewhere to write and the link is whole."""
        if self.transport is None or self.transport.is_closing():
            return
        ready = self.other is not None and self.other.transport is not None
        if ready and not self.other_is_full and not self.carried.cut:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        self.carried.ended(self, error)


class _Carried:
    """A connection from a member or client to a member."""

    def __init__(self, links: Links, target: int, port: int) -> None:
        self.links = links
        self.target = target
        self.port = port
        self.source = CLIENT
        self.near = _End(self)
        self.far: _End | None = None
        self._connecting: asyncio.Task[None] | None = None

    @property
    def cut(self) -> bool:
        return (self.source, self.target) in self.links.cut_links

    def opened(self, end: _End) -> None:
        if end is self.near:
            assert end.transport is not None
            peer = end.transport.get_extra_info("peername")
            self.source = member_of(peer[0]) if peer else CLIENT
            self.links.carried[self] = None
        self.settle()

    def settle(self) -> None:
        """After a change of the links: go on, or fall silent."""
        self.near.settle()
        if self.far is not None:
            self.far.settle()
        elif not self.cut and self._connecting is None:
            self._connecting = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        far = _End(self)
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
        self.settle()

    def ended(self, end: _End, error: Exception | None) -> None:
        """One side is gone: so is the other, after what was still to be said (which nobody may hear: it is
        remembered until it has ended too)."""
        if self.near.is_lost and (self.far is None or self.far.is_lost):
            self.links.carried.pop(self, None)
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


class Links:
    """The proxies of a cluster, on a thread with an event loop of its own."""

    def __init__(self) -> None:
        self.cut_links: dict[Link, None] = {}
        self.carried: dict[_Carried, None] = {}
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="ottla-links", daemon=True)
        self._thread.start()

    def add(self, target: int, port: int) -> int:
        """A proxy before a port of a member; the port that others are to be told."""

        async def serve() -> int:
            server = await asyncio.get_running_loop().create_server(
                lambda: _Carried(self, target, port).near, HOST, 0
            )
            self._servers.append(server)
            found: int = server.sockets[0].getsockname()[1]
            return found

        return asyncio.run_coroutine_threadsafe(serve(), self._loop).result()

    def cut(self, links: Iterable[Link]) -> None:
        """Nothing passes any more on connections from the first to the second of each pair."""
        added = dict.fromkeys(links)
        self._change(lambda: self.cut_links.update(added))

    def heal(self, links: Iterable[Link] | None = None) -> None:
        """These links carry again, or (None) all: what waited goes on its way."""
        healed = None if links is None else list(links)

        def mend() -> None:
            for link in list(self.cut_links) if healed is None else healed:
                self.cut_links.pop(link, None)

        self._change(mend)

    def close(self) -> None:
        async def end() -> None:
            # A server that closes forgets what it has just accepted: it takes in no more first.
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
        # A few turns of the loop: for what was just accepted to show up, and for transports to close.
        for _ in range(CLOSING_TURNS):
            for carried in list(self.carried):
                carried.abort()
            await asyncio.sleep(0)

    def _change(self, change: Callable[[], None]) -> None:
        """Change the links on their own thread, and wait until every connection follows."""

        async def work() -> None:
            change()
            for carried in list(self.carried):
                carried.settle()

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
