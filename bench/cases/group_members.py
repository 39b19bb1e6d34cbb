"""Many members: the time until members that join at once have partitions, and the cost of heartbeats."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from bench.broker import BenchError, Broker, Launch
from bench.figures import Figure, figure_of
from bench.members import (
    CLASSIC_INTERVAL_MS,
    ClassicMember,
    ConsumerMember,
    MemberWire,
    find_coordinator,
    open_wires,
)
from bench.meter import CpuMeter, rss_bytes
from bench.sizes import Sizes
from bench.wire import Wire

TOPIC = "bench"
PARTITIONS_PER_MEMBER = 2
MEMBERS_PER_GROUP = 4
CLASSIC, CONSUMER = "classic", "KIP-848"
CONSUMER_INTERVAL_MS = 5000
INITIAL_DELAY_MS = 3000
# Goals: the time in addition to the initial delay of the classic protocol, and the time of KIP-848, whose
# members learn of a new assignment with their next heartbeat.
JOIN_GOAL_S = {CLASSIC: 1.0, CONSUMER: 3.0}
LOOK_SECONDS = 0.005
STABLE_SECONDS_MAX = 60
CORE_SHARE_GOAL = 0.3  # for the groups of this many:
GOAL_GROUPS = 2000
JOINING_MAX = 200  # groups that are created concurrently


def settings(sizes: Sizes) -> dict[str, str]:
    """Return the defaults, or short intervals for a smoke run."""
    if not sizes.group_hurry:
        return {}
    return {
        "group.initial.rebalance.delay.ms": "50",
        "group.consumer.min.heartbeat.interval.ms": "50",
        "group.consumer.heartbeat.interval.ms": "200",
    }


# -- joining


def join(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    count = sizes.joining_members
    with Broker(launch, settings(sizes)) as broker:
        with Wire(broker) as wire:
            wire.create_topic(TOPIC, count * PARTITIONS_PER_MEMBER)
        for protocol, joined in ((CLASSIC, classic_join), (CONSUMER, consumer_join)):
            took_s, cpu_s = [], []
            for number in range(sizes.joining_rounds):
                meter = CpuMeter(broker)
                took_s.append(asyncio.run(joined(broker, f"join-{protocol}-{number}", count)))
                cpu_s.append(meter.end())
            goal_s = JOIN_GOAL_S[protocol]
            note = "without the time to connect"
            if protocol == CLASSIC:
                goal_s += 2 * INITIAL_DELAY_MS / 1000
                note += f"; with group.initial.rebalance.delay.ms={INITIAL_DELAY_MS}, once or twice"
            name = f"{count} members join at once, {protocol}"
            yield figure_of(f"{name}: until all have partitions", took_s, "s", goal_s, note)
            yield figure_of(f"{name}: CPU", cpu_s, "CPU s", None, "with connecting")


async def classic_join(broker: Broker, group_id: str, count: int) -> float:
    wires = await open_wires(broker, count)
    await find_coordinator(wires[0], group_id)
    members = [ClassicMember(wire, group_id, TOPIC, count * PARTITIONS_PER_MEMBER) for wire in wires]
    began_s = time.perf_counter()
    await asyncio.gather(*[member.join() for member in members])
    took_s = time.perf_counter() - began_s
    generations = {member.generation for member in members}
    if len(generations) > 1 or sum([member.owned for member in members]) != count * PARTITIONS_PER_MEMBER:
        raise BenchError(f"{group_id}: generations {sorted(generations)}")
    _close(wires)
    return took_s


async def consumer_join(broker: Broker, group_id: str, count: int) -> float:
    wires = await open_wires(broker, count)
    await find_coordinator(wires[0], group_id)
    members = [ConsumerMember(wire, group_id, TOPIC, number) for number, wire in enumerate(wires)]
    began_s = time.perf_counter()
    lives = [asyncio.ensure_future(member.live()) for member in members]
    try:
        await _until(lambda: is_stable(members), lives)
        return time.perf_counter() - began_s
    finally:
        for life in lives:
            life.cancel()
        await asyncio.wait(lives)
        _close(wires)


def is_stable(members: Sequence[ConsumerMember]) -> bool:
    """Return whether all members have the same epoch and their share of the partitions."""
    epochs = {member.epoch for member in members}
    return len(epochs) == 1 and all(member.owned == PARTITIONS_PER_MEMBER for member in members)


async def _until(reached: Callable[[], bool], lives: Sequence[asyncio.Future[None]]) -> None:
    async with asyncio.timeout(STABLE_SECONDS_MAX):
        while not reached():
            for life in lives:
                if life.done():
                    life.result()
            await asyncio.sleep(LOOK_SECONDS)


def _close(wires: Sequence[MemberWire]) -> None:
    for wire in wires:
        wire.close()


# -- heartbeats


def heartbeats(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    """Each member has its own connection, as clients do; heartbeats are spread over the interval."""
    for protocol, default_ms, make in (
        (CLASSIC, CLASSIC_INTERVAL_MS, _make_classic),
        (CONSUMER, CONSUMER_INTERVAL_MS, _make_consumer),
    ):
        interval_ms = default_ms // 20 if sizes.group_hurry else default_ms
        with Broker(launch, {**settings(sizes), "group.initial.rebalance.delay.ms": "50"}) as broker:
            with Wire(broker) as wire:
                wire.create_topic(TOPIC, MEMBERS_PER_GROUP * PARTITIONS_PER_MEMBER)
            empty_mb = rss_bytes(broker) / 1e6
            used_s, count, longest_s = asyncio.run(_beat(broker, sizes, interval_ms, make))
            memory_mb = rss_bytes(broker) / 1e6 - empty_mb
        groups = sizes.heartbeat_groups
        name = f"{groups:,} groups x {MEMBERS_PER_GROUP}, {protocol}"
        per_second = groups * MEMBERS_PER_GROUP * 1000 / interval_ms
        goal_ms = CORE_SHARE_GOAL * 1000 * groups / GOAL_GROUPS
        note = f"every {interval_ms / 1000:g} s each: {per_second:.0f} heartbeats/s"
        note += f"; slowest response {longest_s * 1000:.0f} ms"
        yield Figure(f"{name}: CPU", used_s / count * per_second * 1000, "ms per s", goal_ms, note)
        yield Figure(f"{name}: CPU of one heartbeat", used_s / count * 1e6, "CPU us")
        yield Figure(f"{name}: memory", memory_mb, "MB RSS", None, "on top of an empty broker, with sockets")


Made = Coroutine[Any, Any, list[tuple[MemberWire, bytes]]]


async def _beat(
    broker: Broker, sizes: Sizes, interval_ms: int, make: Callable[[Sequence[MemberWire], str], Made]
) -> tuple[float, int, float]:
    """Return the CPU seconds of the broker, the number of heartbeats, and the longest response time."""
    groups = sizes.heartbeat_groups
    wires = await open_wires(broker, groups * MEMBERS_PER_GROUP)
    await find_coordinator(wires[0], "group-0")
    beats: list[tuple[MemberWire, bytes]] = []
    for first in range(0, groups, JOINING_MAX):
        numbers = range(first, min(first + JOINING_MAX, groups))
        made = [
            make(wires[number * MEMBERS_PER_GROUP : (number + 1) * MEMBERS_PER_GROUP], f"group-{number}")
            for number in numbers
        ]
        for part in await asyncio.gather(*made):
            beats += part
    beats = [beat for offset in range(MEMBERS_PER_GROUP) for beat in beats[offset::MEMBERS_PER_GROUP]]
    pacer = HeartbeatPacer(beats, interval_ms / 1000)
    await pacer.run(len(beats))  # warm-up
    meter = CpuMeter(broker)
    count = max(len(beats) // 2, int(sizes.heartbeat_seconds * len(beats) * 1000 / interval_ms))
    pacer.longest_s = 0.0
    await pacer.run(count)
    used_s = meter.end()
    _close(wires)
    return used_s, count, pacer.longest_s


class HeartbeatPacer:
    """Sends prepared frames at a constant rate, independent of the responses."""

    def __init__(self, beats: Sequence[tuple[MemberWire, bytes]], interval_s: float) -> None:
        self._beats = beats
        self._pause_s = interval_s / len(beats)
        self._next = 0
        self._sent_s = [0.0] * len(beats)
        self._first: list[bytes] = [b""] * len(beats)
        self._wrong = b""
        self._open = 0
        self._idle = asyncio.Event()
        self.longest_s = 0.0

    async def run(self, count: int) -> None:
        clock = time.perf_counter
        began_s = clock()
        for number in range(count):
            wait_s = began_s + number * self._pause_s - clock()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            elif number % 64 == 0:
                await asyncio.sleep(0)
            self._send()
        async with asyncio.timeout(STABLE_SECONDS_MAX):
            await self._idle.wait()
        if self._wrong:
            raise BenchError(f"the response to a heartbeat differs from the first one: {self._wrong.hex()}")

    def _send(self) -> None:
        index = self._next
        self._next = (index + 1) % len(self._beats)
        wire, frame = self._beats[index]
        sent_s = time.perf_counter()
        self._open += 1
        self._idle.clear()

        def answered(answer: bytes) -> None:
            self._open -= 1
            if not self._open:
                self._idle.set()
            self.longest_s = max(self.longest_s, time.perf_counter() - sent_s)
            if answer != (self._first[index] or answer):
                self._wrong = answer
            self._first[index] = answer

        wire.send(frame, answered)


async def _make_classic(wires: Sequence[MemberWire], group_id: str) -> list[tuple[MemberWire, bytes]]:
    partitions = MEMBERS_PER_GROUP * PARTITIONS_PER_MEMBER
    members = [ClassicMember(wire, group_id, TOPIC, partitions) for wire in wires]
    await asyncio.gather(*[member.join() for member in members])
    return [(member.wire, member.heartbeat()) for member in members]


async def _make_consumer(wires: Sequence[MemberWire], group_id: str) -> list[tuple[MemberWire, bytes]]:
    members = [ConsumerMember(wire, group_id, TOPIC, number) for number, wire in enumerate(wires)]
    lives = [asyncio.ensure_future(member.live()) for member in members]
    await _until(lambda: is_stable(members), lives)
    for life in lives:
        life.cancel()
    await asyncio.wait(lives)
    for member in members:  # responses that arrived in the meantime were not checked
        while not await member.step():
            pass
    return [(member.wire, member.heartbeat()) for member in members]
