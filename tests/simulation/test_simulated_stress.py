"""Stalls, worker pools, slow directories, descriptors and gates of the simulated machine."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from ottla.storage.errors import StorageError
from simulator.runtime.disk import SimulatedDisk
from simulator.runtime.files import NAMES, READ, SYNC
from simulator.world import World

MS = 1_000_000


def test_a_stall_stops_the_loop_of_one_process_and_not_its_workers() -> None:
    world = World(1)
    stalled, other = world.add_client("stalled"), world.add_client("other")
    stalled.job_delay_ns = lambda: 300 * MS
    ticks: list[tuple[str, float]] = []
    jobs: list[float] = []

    async def tick(name: str) -> None:
        while True:
            await asyncio.sleep(0.1)
            ticks.append((name, round(world.loop.time(), 2)))

    async def work() -> float:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, lambda: jobs.append(round(loop.time(), 2)))
        return round(loop.time(), 2)

    async def script(world: World) -> None:
        world.spawn(stalled, tick("stalled"))
        world.spawn(other, tick("other"))
        working = world.spawn(stalled, work())
        await asyncio.sleep(0.15)
        world.loop.stall(stalled, 1_000 * MS)
        assert await working == 1.15
        await asyncio.sleep(0.01)

    world.run(script)
    assert [at for name, at in ticks if name == "stalled"] == [0.1, 1.15]
    assert [at for name, at in ticks if name == "other"] == [at / 10 for at in range(1, 12)]
    assert jobs == [0.3]


def test_a_callback_that_costs_time_delays_the_next_one_and_its_own_bytes() -> None:
    world = World(1)
    process = world.add_client("busy")
    process.callback_ns = 10 * MS
    done: list[float] = []

    async def work() -> None:
        for _ in range(5):
            await asyncio.sleep(0)
            done.append(round(world.loop.time(), 3))

    async def script(world: World) -> None:
        await world.spawn(process, work())

    world.run(script)
    assert done == [0.01, 0.02, 0.03, 0.04, 0.05]


def test_jobs_wait_for_a_free_thread_in_order() -> None:
    world = World(1)
    process = world.add_client("worker")
    process.job_delay_ns = lambda: 100 * MS
    done: list[tuple[int, float]] = []

    def note(number: int) -> None:
        done.append((number, round(world.loop.time(), 2)))

    async def work() -> None:
        loop = asyncio.get_running_loop()
        pool, other_pool = ThreadPoolExecutor(2), ThreadPoolExecutor(1)
        jobs = [loop.run_in_executor(pool, note, number) for number in range(5)]
        jobs[3].cancel()  # it has not begun
        await loop.run_in_executor(other_pool, note, 9)
        await asyncio.wait(jobs)

    async def script(world: World) -> None:
        await world.spawn(process, work())

    world.run(script)
    assert sorted(done) == [(0, 0.1), (1, 0.1), (2, 0.2), (4, 0.2), (9, 0.1)]


def test_a_slow_directory_blocks_the_thread_that_uses_it() -> None:
    world = World(1)
    process = world.add_client("node")
    process.job_delay_ns = lambda: 0
    disk = SimulatedDisk(world.rng("disk"), lambda: 0, lambda: world.loop.now_ns)
    disk.process_started(process)
    disk.files.mkdir("/slow")
    disk.files.mkdir("/fine")
    disk.slow_directory("/slow", {SYNC: (200, 200)})
    times: list[float] = []

    async def use() -> None:
        loop = asyncio.get_running_loop()
        for path in ("/fine", "/slow"):
            file = disk.files.create(f"{path}/file")
            file.append(b"x")
            file.sync()
            await asyncio.sleep(0)
            times.append(round(loop.time(), 2))
            await loop.run_in_executor(None, file.sync)
            times.append(round(loop.time(), 2))
        disk.hang("/slow", 3.0, (NAMES,))
        assert file.read(0, 1) == b"x"
        disk.files.rename("/slow/file", "/slow/other")
        await asyncio.sleep(0)
        times.append(round(loop.time(), 2))
        disk.heal()
        disk.slow_directory("/slow", {READ: (500, 500)})
        disk.files.read_bytes("/slow/other")
        await asyncio.sleep(0)
        times.append(round(loop.time(), 2))

    async def script(world: World) -> None:
        using = world.spawn(process, use())
        disk.files.read_bytes("/slow/file")  # by the harness: free
        await using

    world.run(script)
    assert times == [0.0, 0.0, 0.2, 0.4, 3.4, 3.9]


def test_a_failed_directory_stays_failed_after_a_restart() -> None:
    disk = SimulatedDisk(World(1).rng("disk"), lambda: 0)
    disk.files.mkdir("/a")
    disk.files.mkdir("/b")
    disk.fail("/a")
    disk.process_ended()
    disk.power_cut()
    with pytest.raises(StorageError):
        disk.files.create("/a/file")
    disk.heal()
    disk.files.mkdir("/a")
    disk.files.create("/a/file")


def test_a_process_without_descriptors_uses_only_what_it_has_opened() -> None:
    world = World(1)
    server, client = world.add_client("server"), world.add_client("client")
    disk = SimulatedDisk(world.rng("disk"), lambda: 0)
    disk.process_started(server)
    disk.files.mkdir("/a")
    log: list[str] = []

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        opened = disk.files.create("/a/opened")
        opened.append(b"x")
        await loop.create_server(asyncio.Protocol, "server", 1)
        server.out_of_descriptors = True
        opened.append(b"y")
        for attempt in (
            opened.sync_handle,
            lambda: disk.files.create("/a/b"),
            lambda: disk.files.listdir("/a"),
        ):
            with pytest.raises(StorageError, match="Too many open files"):
                attempt()
        with pytest.raises(OSError, match="Too many open files"):
            await loop.create_connection(asyncio.Protocol, "client", 2)
        await asyncio.sleep(1)
        server.out_of_descriptors = False
        assert disk.files.open_handles() == 0
        opened.sync_handle().sync()
        unused = opened.sync_handle()
        assert disk.files.open_handles() == 1
        unused.close()
        assert disk.files.open_handles() == 0

    async def connect() -> None:
        class Greeter(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                log.append("connected")

        await asyncio.get_running_loop().create_connection(Greeter, "server", 1)

    async def script(world: World) -> None:
        serving = world.spawn(server, serve())
        await asyncio.sleep(0.01)
        await world.spawn(client, connect())  # it waits in the backlog
        await serving

    world.run(script)
    assert log == ["connected"]


def test_a_gate_forwards_for_some_and_refuses_others() -> None:
    world = World(1)
    server, inside, outside = (world.add_client(name) for name in ("server", "inside", "outside"))
    world.network.add_gate("gate", "server", refuses=["inside"])

    async def serve() -> None:
        await asyncio.get_running_loop().create_server(asyncio.Protocol, "server", 1)

    async def connect() -> None:
        await asyncio.get_running_loop().create_connection(asyncio.Protocol, "gate", 1)

    async def script(world: World) -> None:
        await world.spawn(server, serve())
        await world.spawn(outside, connect())
        with pytest.raises(ConnectionRefusedError):
            await world.spawn(inside, connect())

    world.run(script)


def test_only_idle_connections_are_reset() -> None:
    world = World(1)
    server, client = world.add_client("server"), world.add_client("client")
    lost: list[str] = []

    class Loser(asyncio.Protocol):
        def __init__(self, name: str) -> None:
            self.name = name

        def connection_lost(self, error: Exception | None) -> None:
            lost.append(self.name)

    async def serve() -> None:
        await asyncio.get_running_loop().create_server(lambda: Loser("server"), "server", 1)

    async def connect() -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: Loser("idle"), "server", 1)
        busy, _ = await loop.create_connection(lambda: Loser("busy"), "server", 1)
        for _ in range(20):
            await asyncio.sleep(0.1)
            busy.write(b"x")

    async def script(world: World) -> None:
        await world.spawn(server, serve())
        world.spawn(client, connect())
        await asyncio.sleep(1.5)
        assert world.network.break_idle("client", 1_000 * MS) == 1
        await asyncio.sleep(0.1)

    world.run(script)
    assert sorted(lost) == ["idle", "server"]
