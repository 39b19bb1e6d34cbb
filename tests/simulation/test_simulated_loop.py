"""The simulated event loop: time, order, processes that pause and end."""

from __future__ import annotations

import asyncio

import pytest

from simulator.runtime.loop import SimulationStuck, SimulationTooLong
from simulator.world import World


def test_time_jumps_to_the_next_timer() -> None:
    world = World(1)

    async def script(world: World) -> float:
        await asyncio.sleep(3600)
        return world.loop.time()

    assert world.run(script, limit_s=4000) == pytest.approx(3600, abs=0.001)


def test_a_run_has_its_limits() -> None:
    async def long(world: World) -> None:
        await asyncio.sleep(100)

    async def spins(world: World) -> None:
        while True:
            await asyncio.sleep(0)

    async def stuck(world: World) -> None:
        await world.loop.create_future()

    with pytest.raises(SimulationTooLong):
        World(1).run(long, limit_s=10)
    with pytest.raises(SimulationTooLong):
        World(1).run(spins, limit_s=0.1)
    with pytest.raises(SimulationStuck):
        World(1).run(stuck)


def test_callbacks_are_ordered_within_a_process_only() -> None:
    def run(seed: int) -> str:
        world = World(seed)
        seen: list[str] = []

        async def count(name: str) -> None:
            for number in range(5):
                world.loop.call_soon(seen.append, f"{name}{number}")
            await asyncio.sleep(0)

        async def script(world: World) -> None:
            for name in "ab":
                world.spawn(world.add_client(name), count(name))
            await asyncio.sleep(1)

        world.run(script)
        for name in "ab":
            assert [text for text in seen if text[0] == name] == [f"{name}{number}" for number in range(5)]
        return "".join(text[0] for text in seen)

    assert len({run(seed) for seed in range(20)}) > 5
    assert run(3) == run(3)


def test_a_job_takes_effect_when_its_duration_is_over() -> None:
    world = World(1)
    process = world.add_client("worker")
    process.job_delay_ns = lambda: 5_000_000
    done: list[float] = []

    async def work() -> str:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, lambda: done.append(loop.time()) or "result")

    async def fail() -> None:
        await asyncio.get_running_loop().run_in_executor(None, lambda: 1 // 0)

    async def script(world: World) -> None:
        working = world.spawn(process, work())
        await asyncio.sleep(0.0049)
        assert not done
        assert await working == "result"
        with pytest.raises(ZeroDivisionError):
            await world.spawn(process, fail())

    world.run(script)
    assert done == [pytest.approx(0.005, abs=0.0001)]


def test_a_paused_process_catches_up_when_it_resumes() -> None:
    world = World(1)
    process = world.add_client("sleeper")
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(world.loop.time())

    async def script(world: World) -> None:
        world.spawn(process, tick())
        await asyncio.sleep(1.5)
        process.paused = True
        await asyncio.sleep(5)
        assert len(ticks) == 1
        process.paused = False
        await asyncio.sleep(0.5)
        assert len(ticks) == 2

    world.run(script)


def test_an_ended_process_runs_no_callback() -> None:
    world = World(1)
    process = world.add_client("victim")
    events: list[str] = []

    async def stubborn() -> None:
        try:
            await asyncio.sleep(1)
            events.append("woke")
        finally:
            events.append("closed")
            asyncio.get_running_loop().call_soon(events.append, "from the grave")
            await asyncio.sleep(1)
            events.append("went on")

    async def script(world: World) -> None:
        world.spawn(process, stubborn())
        asyncio.get_running_loop().call_later(0.1, lambda: None)
        await asyncio.sleep(0.5)
        world.loop.end_process(process)
        await asyncio.sleep(5)

    world.run(script)
    assert events == ["closed"]
    assert world.loop.errors == []
