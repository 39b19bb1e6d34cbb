"""The network between simulated hosts. A host is a name; a link is one direction between two of them.

    network.block("node1", "node2")      nothing gets from node1 to node2; the other direction is open
    network.isolate("node1")             both directions, to and from all hosts
    network.heal()                       unblock all links and restore their speed
    network.slow("node1", "node2", delay_ms=(50, 200))
    network.break_connections("node1", "client1")

A blocked link loses no data: TCP retransmits, and the data arrives when the link is unblocked, unless the
programs have closed the connection by then. Data is lost when a connection is reset.
"""

from __future__ import annotations

import asyncio
import errno
import random
import socket
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from typing import Any

from simulator.runtime.loop import Process, SimulatedLoop
from simulator.runtime.request_hold import RequestHold
from simulator.runtime.trace import Trace
from simulator.runtime.transport import RST, Segment, SimulatedTransport

DELAY_NS = (50_000, 400_000)
LOOPBACK_NS = (5_000, 30_000)
DEPARTURE_NS_MAX = 20_000
BANDWIDTH_BYTES_PER_S = 1_000_000_000
RETRANSMIT_NS_MAX = 400_000_000
CONNECT_RETRY_NS = 1_000_000_000
CONNECT_TRIES = 6
FIRST_EPHEMERAL_PORT = 40_000
ACCEPT_AGAIN_S = 1.0  # asyncio's pause after EMFILE in accept


class Link:
    """One direction between two hosts."""

    __slots__ = ("bandwidth_bytes_per_s", "blocked", "delay_ns", "free_at_ns")

    def __init__(self, delay_ns: tuple[int, int]) -> None:
        self.delay_ns = delay_ns
        self.bandwidth_bytes_per_s = BANDWIDTH_BYTES_PER_S
        self.blocked = False
        self.free_at_ns = 0


class _SocketName:
    def __init__(self, name: tuple[str, int]) -> None:
        self._name = name

    def getsockname(self) -> tuple[str, int]:
        return self._name


class SimulatedServer(asyncio.AbstractServer):
    def __init__(self, network: Network, process: Process, factory: Callable[[], Any], port: int) -> None:
        self.process = process
        self.factory = factory
        self.address = (process.name, port)
        self.sockets = [_SocketName(self.address)]
        self.serving = False
        self.context = copy_context()
        self._network = network

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._network.loop

    def is_serving(self) -> bool:
        return self.serving

    async def start_serving(self) -> None:
        self.serving = True

    async def serve_forever(self) -> None:
        self.serving = True
        await self._network.loop.create_future()

    def close(self) -> None:
        self.serving = False
        if self._network.servers.get(self.address) is self:
            del self._network.servers[self.address]

    async def wait_closed(self) -> None:
        return None


class Network:
    def __init__(self, loop: SimulatedLoop, rng: random.Random, trace: Trace) -> None:
        self.loop = loop
        self.trace = trace
        self.open: dict[SimulatedTransport, None] = {}
        self.stalled: dict[SimulatedTransport, None] = {}
        self.holds: dict[RequestHold, None] = {}
        self.servers: dict[tuple[str, int], SimulatedServer] = {}
        self.delay_ns = DELAY_NS
        self._rng = rng
        self._links: dict[tuple[str, str], Link] = {}
        self.hosts: dict[str, None] = {}
        self._down: dict[str, None] = {}  # machines without power
        self._gates: dict[str, tuple[str, tuple[str, ...]]] = {}  # see add_gate
        self._next_port = FIRST_EPHEMERAL_PORT
        self._next_number = 0
        loop.network = self

    # -- faults

    def add_host(self, name: str) -> None:
        self.hosts[name] = None

    def add_gate(self, name: str, host: str, *, refuses: Iterable[str]) -> None:
        """Add a name that forwards connections to `host`, but refuses those of some hosts: a published port
        of a container, which only machines outside can use."""
        self._gates[name] = (host, tuple(refuses))

    def link(self, sender: str, receiver: str) -> Link:
        link = self._links.get((sender, receiver))
        if link is None:
            link = Link(LOOPBACK_NS if sender == receiver else self.delay_ns)
            self._links[sender, receiver] = link
        return link

    def block(self, sender: str, receiver: str) -> None:
        """Block the link from `sender` to `receiver`; the other direction is unchanged."""
        self.trace("network", "-", f"block {sender}->{receiver}")
        self.link(sender, receiver).blocked = True

    def isolate(
        self, name: str, *, others: Iterable[str] | None = None, outbound: bool = True, inbound: bool = True
    ) -> None:
        """Cut a host off from `others` or from all hosts, in one or both directions."""
        for other in list(self.hosts if others is None else others):
            if other != name and outbound:
                self.block(name, other)
            if other != name and inbound:
                self.block(other, name)

    def partition(self, *groups: Iterable[str]) -> None:
        """Let hosts reach only hosts of their own group; hosts in no group reach all."""
        listed = [list(group) for group in groups]
        for group in listed:
            for other in listed:
                if other is not group:
                    for sender in group:
                        for receiver in other:
                            self.block(sender, receiver)

    def slow(
        self,
        sender: str,
        receiver: str,
        *,
        delay_ms: tuple[float, float],
        bandwidth_bytes_per_s: int = BANDWIDTH_BYTES_PER_S,
    ) -> None:
        self.trace("network", "-", f"slow {sender}->{receiver} {delay_ms} {bandwidth_bytes_per_s}")
        link = self.link(sender, receiver)
        link.delay_ns = (round(delay_ms[0] * 1_000_000), round(delay_ms[1] * 1_000_000))
        link.bandwidth_bytes_per_s = bandwidth_bytes_per_s

    def heal(self) -> None:
        self.trace("network", "-", "heal")
        for (sender, receiver), link in self._links.items():
            link.blocked = False
            link.delay_ns = LOOPBACK_NS if sender == receiver else self.delay_ns
            link.bandwidth_bytes_per_s = BANDWIDTH_BYTES_PER_S
            link.free_at_ns = min(link.free_at_ns, self.loop.now_ns)
        self._try_again()

    def break_connections(self, name: str, other: str | None = None) -> int:
        """Reset every connection of a host, or those with one other; data in flight is lost."""
        broken = 0
        for transport in list(self.open):
            if transport.local[0] == name and other in (None, transport.remote[0]):
                broken += 1
                for side in (transport, transport.peer):
                    side.lost(ConnectionResetError(104, "Connection reset by peer"))
        self.trace("network", name, f"reset {broken} connections with {other or 'all'}")
        return broken

    def break_idle(self, name: str, idle_ns: int) -> int:
        """Reset the connections of a host that carried nothing for that long, as a firewall does."""
        broken = 0
        for transport in list(self.open):
            if transport.local[0] == name and self.loop.now_ns - transport.last_used_ns >= idle_ns:
                broken += 1
                for side in (transport, transport.peer):
                    side.lost(ConnectionResetError(104, "Connection reset by peer"))
        self.trace("network", name, f"reset {broken} idle connections")
        return broken

    # -- hosts

    def process_ended(self, process: Process, *, silent: bool) -> None:
        """Close its connections and ports. `silent`: the machine has no power and sends no resets."""
        for address, server in list(self.servers.items()):
            if server.process is process:
                del self.servers[address]
        if silent:
            self._down[process.name] = None
        for transport in list(self.open):
            if transport.process is process:
                transport.process_ended(silent=silent)

    def host_up(self, name: str) -> None:
        """The machine is up again, without its old connections."""
        self.add_host(name)
        if self._down.pop(name, self) is None:
            self._try_again()

    def can_reach(self, sender: str, receiver: str) -> bool:
        return receiver not in self._down and not self.link(sender, receiver).blocked

    def _try_again(self) -> None:
        waiting, self.stalled = self.stalled, {}
        for transport in waiting:
            when_ns = self.loop.now_ns + self._rng.randint(0, RETRANSMIT_NS_MAX)
            self.loop.kernel_at(when_ns, transport.retransmit)
            self.loop.kernel_at(when_ns, transport.unpark_credit)

    # -- queries of transports

    def arrival_ns(self, sender: str, receiver: str, nbytes: int) -> int:
        link = self.link(sender, receiver)
        now_ns = self.loop.now_ns
        sent_ns = max(link.free_at_ns, now_ns) + nbytes * 1_000_000_000 // link.bandwidth_bytes_per_s
        link.free_at_ns = sent_ns
        return sent_ns + self._rng.randint(*link.delay_ns)

    def holds_up(self, transport: SimulatedTransport, segment: Segment) -> bool:
        return any(hold.catches(transport, segment) for hold in self.holds)

    def departure_ns(self) -> int:
        """When a segment departs; writes until then are sent with it."""
        return self.loop.now_ns + self._rng.randint(1, DEPARTURE_NS_MAX)

    def cut_bytes(self, available: int) -> int:
        """Draw the size of the next segment: mostly everything, sometimes a part."""
        return self._rng.randint(1, available) if self._rng.random() < 0.1 else available

    # -- connections

    def listen(
        self, process: Process, factory: Callable[[], Any], host: str | None, port: int, start_serving: bool
    ) -> SimulatedServer:
        if host not in (None, "", "0.0.0.0", "::", "localhost", process.name):
            raise OSError(errno.EADDRNOTAVAIL, f"{host} is not an address of {process.name}")
        if not port:
            self._next_port += 1
            port = self._next_port
        server = SimulatedServer(self, process, factory, port)
        if server.address in self.servers:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        self.servers[server.address] = server
        server.serving = start_serving
        return server

    async def connect(self, process: Process, host: str, port: int) -> SimulatedTransport:
        if host == "localhost":
            host = process.name
        if process.out_of_descriptors:
            raise OSError(errno.EMFILE, "Too many open files")
        if host in self._gates:
            host, refuses = self._gates[host]
            if process.name in refuses:
                await asyncio.sleep(self._rng.uniform(*self.delay_ns) / 1_000_000_000)
                raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        if host not in self.hosts:
            raise socket.gaierror(socket.EAI_NONAME, f"no host named {host}")
        answered: asyncio.Future[SimulatedTransport] = self.loop.create_future()
        attempt = _Attempt(self, process, copy_context(), (host, port), answered)
        attempt.send()
        try:
            return await answered
        except asyncio.CancelledError:
            if answered.done() and not answered.cancelled() and answered.exception() is None:
                answered.result().abort()  # cancelled at the moment of success
            raise

    def make_pair(self, attempt: _Attempt, server: SimulatedServer) -> SimulatedTransport:
        """Create both sides of a connection; return the client's."""
        self._next_port += 1
        self._next_number += 1
        number = self._next_number
        ours = (attempt.process.name, self._next_port)
        theirs = server.address
        client = SimulatedTransport(self, attempt.process, attempt.context, ours, theirs, number)
        accepted = SimulatedTransport(self, server.process, server.context, theirs, ours, number)
        client.peer, accepted.peer = accepted, client
        self.open[client] = self.open[accepted] = None
        self.trace("open", ours[0], f"{client.label}:{theirs[1]}")
        return client


class _Attempt:
    """The handshake of one connection."""

    def __init__(
        self,
        network: Network,
        process: Process,
        context: Context,
        address: tuple[str, int],
        answered: asyncio.Future[SimulatedTransport],
    ) -> None:
        self.process = process
        self.context = context
        self._network = network
        self._address = address
        self._answered = answered
        self._tries = 0

    def send(self) -> None:
        network = self._network
        self._tries += 1
        when_ns = network.arrival_ns(self.process.name, self._address[0], 60)
        network.loop.kernel_at(when_ns, self._arrive)

    def _arrive(self) -> None:
        """The first segment has arrived, or the link is blocked."""
        network, host = self._network, self._address[0]
        if not network.can_reach(self.process.name, host) or not network.can_reach(host, self.process.name):
            self._again()
            return
        server = network.servers.get(self._address)
        when_ns = network.arrival_ns(host, self.process.name, 60)
        if server is None or not server.serving or not server.process.alive:
            network.loop.kernel_at(when_ns, self._refused)
            return
        transport = network.make_pair(self, server)
        accepted = transport.peer
        network.loop.call_soon(_accept, server, accepted, context=server.context)
        network.loop.kernel_at(when_ns, self._accepted, transport)

    def _again(self) -> None:
        if self._done():
            return
        if self._tries < CONNECT_TRIES:
            when_ns = self._network.loop.now_ns + (CONNECT_RETRY_NS << (self._tries - 1))
            self._network.loop.kernel_at(when_ns, self.send)
        else:
            self._answer(lambda: self._fail(TimeoutError(errno.ETIMEDOUT, "timed out")))

    def _refused(self) -> None:
        error = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        self._answer(lambda: self._fail(error))

    def _fail(self, error: OSError) -> None:
        self._answered.set_exception(error)
        self._answered.exception()  # retrieve it: the process may end first

    def _accepted(self, transport: SimulatedTransport) -> None:
        if self._done():
            transport.closed = True
            self._network.open.pop(transport, None)
            transport.peer.receive(RST)
        else:
            self._answer(lambda: self._answered.set_result(transport))

    def _done(self) -> bool:
        return self._answered.done() or not self.process.alive

    def _answer(self, settle: Callable[[], None]) -> None:
        if not self._done():
            settle()


def _accept(server: SimulatedServer, transport: SimulatedTransport) -> None:
    if transport.closed:
        return
    if server.process.out_of_descriptors:  # the connection waits in the backlog
        server.get_loop().call_later(ACCEPT_AGAIN_S, _accept, server, transport, context=server.context)
    else:
        transport.start(server.factory())
