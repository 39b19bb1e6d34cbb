"""The simulated network: order, back-pressure, blocked links, resets, machines without power."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from simulator.runtime.loop import Process
from simulator.world import World


class Sink(asyncio.Protocol):
    """Keeps the received data; may respond or stop reading."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.lost: list[Exception | None] = []
        self.paused = 0
        self.resumed = 0
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)

    def pause_writing(self) -> None:
        self.paused += 1

    def resume_writing(self) -> None:
        self.resumed += 1


class ConnectedHosts:
    """A server host `s` and a client host `c` with one connection."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.server: Process = self.world.add_client("s")
        self.client: Process = self.world.add_client("c")
        self.accepted: list[Sink] = []
        self.ours: Sink

    def _accept(self) -> Sink:
        self.accepted.append(Sink())
        return self.accepted[-1]

    async def listen(self) -> None:
        async def serve() -> None:
            await asyncio.get_running_loop().create_server(self._accept, "s", 80)

        await self.world.spawn(self.server, serve())

    async def connect(self, timeout_s: float = 60.0) -> Sink:
        async def dial() -> Sink:
            async with asyncio.timeout(timeout_s):
                _, protocol = await asyncio.get_running_loop().create_connection(Sink, "s", 80)
                return protocol

        self.ours = await self.world.spawn(self.client, dial())
        await asyncio.sleep(0.01)
        return self.ours

    def run(self, script: Coroutine[Any, Any, None]) -> None:
        async def main(world: World) -> None:
            await script

        self.world.run(main)


@pytest.fixture
def hosts() -> ConnectedHosts:
    return ConnectedHosts()


def test_bytes_arrive_whole_and_in_order(hosts: ConnectedHosts) -> None:
    sent = b"".join(b"%06d" % number for number in range(50_000))

    async def script() -> None:
        await hosts.listen()
        ours = await hosts.connect()
        for start in range(0, len(sent), 7777):
            ours.transport.write(sent[start : start + 7777])
        ours.transport.close()
        await asyncio.sleep(5)
        assert bytes(hosts.accepted[0].data) == sent
        assert hosts.accepted[0].lost == [None] and ours.lost == [None]

    hosts.run(script())


def test_a_peer_that_does_not_read_makes_the_writer_pause(hosts: ConnectedHosts) -> None:
    async def script() -> None:
        await hosts.listen()
        ours = await hosts.connect()
        theirs = hosts.accepted[0]
        theirs.transport.pause_reading()
        for _ in range(20):
            ours.transport.write(bytes(50_000))
            await asyncio.sleep(0.1)
        assert ours.paused == 1 and ours.resumed == 0
        assert not theirs.data
        theirs.transport.resume_reading()
        await asyncio.sleep(5)
        assert ours.resumed == 1
        assert len(theirs.data) == 20 * 50_000

    hosts.run(script())


def test_a_link_blocked_in_one_direction(hosts: ConnectedHosts) -> None:
    async def script() -> None:
        await hosts.listen()
        ours = await hosts.connect()
        theirs = hosts.accepted[0]
        hosts.world.network.block("c", "s")
        ours.transport.write(b"to the server")
        theirs.transport.write(b"to the client")
        await asyncio.sleep(10)
        assert bytes(ours.data) == b"to the client" and not theirs.data
        hosts.world.network.heal()
        await asyncio.sleep(1)
        assert bytes(theirs.data) == b"to the server"

    hosts.run(script())


def test_a_blocked_link_blocks_acknowledgements_too(hosts: ConnectedHosts) -> None:
    async def script() -> None:
        await hosts.listen()
        await hosts.connect()
        theirs = hosts.accepted[0]
        hosts.world.network.block("c", "s")
        for _ in range(40):
            theirs.transport.write(bytes(50_000))
        await asyncio.sleep(10)
        arrived = len(hosts.ours.data)
        assert 0 < arrived < 40 * 50_000
        hosts.world.network.heal()
        await asyncio.sleep(5)
        assert len(hosts.ours.data) == 40 * 50_000

    hosts.run(script())


def test_connecting_to_a_closed_port_and_through_a_blocked_link(hosts: ConnectedHosts) -> None:
    async def script() -> None:
        with pytest.raises(ConnectionRefusedError):
            await hosts.connect()
        with pytest.raises(OSError, match="no host"):
            await asyncio.get_running_loop().create_connection(Sink, "nowhere", 80)
        await hosts.listen()
        hosts.world.network.isolate("s", outbound=False)
        with pytest.raises(TimeoutError):
            await hosts.connect(timeout_s=2)
        asyncio.get_running_loop().call_later(2, hosts.world.network.heal)
        await hosts.connect(timeout_s=10)
        assert len(hosts.accepted) == 1

    hosts.run(script())


def test_a_reset_loses_data_in_flight(hosts: ConnectedHosts) -> None:
    async def script() -> None:
        await hosts.listen()
        ours = await hosts.connect()
        ours.transport.write(b"gone")
        assert hosts.world.network.break_connections("s") == 1
        await asyncio.sleep(1)
        theirs = hosts.accepted[0]
        assert not theirs.data
        assert isinstance(ours.lost[0], ConnectionResetError)
        assert isinstance(theirs.lost[0], ConnectionResetError)

    hosts.run(script())


@pytest.mark.parametrize("silent", [False, True])
def test_a_machine_that_goes_down(hosts: ConnectedHosts, silent: bool) -> None:
    async def script() -> None:
        network = hosts.world.network
        await hosts.listen()
        ours = await hosts.connect()
        network.process_ended(hosts.server, silent=silent)
        hosts.world.loop.end_process(hosts.server)
        await asyncio.sleep(5)
        assert bool(ours.lost) is not silent
        if silent:
            ours.transport.write(b"is anybody there?")
            await asyncio.sleep(5)
            assert not ours.lost
            hosts.world.loop.new_process("s")
            network.host_up("s")
            await asyncio.sleep(1)
            assert isinstance(ours.lost[0], ConnectionResetError)

    hosts.run(script())


def test_slow_links_delay_data(hosts: ConnectedHosts) -> None:
    async def script() -> None:
        await hosts.listen()
        ours = await hosts.connect()
        hosts.world.network.slow("c", "s", delay_ms=(100, 100), bandwidth_bytes_per_s=10_000)
        ours.transport.write(bytes(20_000))
        await asyncio.sleep(1.0)
        assert len(hosts.accepted[0].data) < 20_000
        await asyncio.sleep(1.2)
        assert len(hosts.accepted[0].data) == 20_000

    hosts.run(script())
