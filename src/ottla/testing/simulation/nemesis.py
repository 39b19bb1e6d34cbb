"""The one who breaks things: draws a fault, a victim and a time, and makes good again what it broke.

Jepsen's word for it. Faults come one after another; `quarrel` runs several of these side by side.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

from ottla.testing.simulation.world import Node, NodeEnded, World

STARTS_MAX = 20
CALM_S = (0.05, 1.2)
TROUBLE_S = (0.05, 2.5)
SKEW_MS_MAX = 5_000
CUT_SHORT_CHANCE = 0.25


class NodeDoesNotStart(Exception):
    """A node that should come back does not."""


class Nemesis:
    def __init__(self, world: World, name: str = "nemesis") -> None:
        self.world = world
        self.rng = world.rng(name)
        self.faults: dict[str, Callable[[Node], Awaitable[None]]] = {
            "kill": self.kill,
            "power": self.power,
            "power-all": self.power_all,
            "stop": self.stop,
            "pause": self.pause,
            "cut": self.cut,
            "reset": self.reset,
            "slow-net": self.slow_net,
            "slow-disk": self.slow_disk,
            "full-disk": self.full_disk,
            "skew": self.skew,
        }

    async def run(self, duration_s: float, faults: Sequence[str]) -> None:
        """Trouble and calm in turn; at the end everything is well again."""
        loop = self.world.loop
        until_s = loop.time() + duration_s
        while loop.time() < until_s:
            await self._sleep(CALM_S)
            fault = self.rng.choice(list(faults))
            node = self.rng.choice(list(self.world.nodes.values()))
            self.world.trace("nemesis", node.name, fault)
            await self.faults[fault](node)
        await self.make_good()

    async def make_good(self) -> None:
        """Heal everything and start who is down, all at once: they may need each other."""
        self.world.heal()
        await asyncio.gather(*(self.revive(node, cut_short=False) for node in self.world.nodes.values()))

    async def revive(self, node: Node, *, cut_short: bool = True) -> None:
        """Start a node that is down; sometimes it goes down again in the middle of its recovery."""
        for _ in range(STARTS_MAX):
            if node.up:
                return
            starting = asyncio.ensure_future(self._start(node))
            if cut_short and self.rng.random() < CUT_SHORT_CHANCE:
                await asyncio.sleep(self.rng.uniform(0, 0.01))
                node.power_cut(silent=self._coin())
            try:
                await starting
            except NodeEnded:
                await self._sleep((0.01, 0.3))
            except Exception as error:
                self.world.trace("nemesis", node.name, f"does not start: {error}")
                if not cut_short:
                    raise NodeDoesNotStart(f"{node.name}: {error}") from error
                await self._sleep((0.1, 0.5))
        if not node.up:
            raise NodeDoesNotStart(f"{node.name} is down after {STARTS_MAX} starts")

    async def _start(self, node: Node) -> None:
        if not node.up:  # somebody else may have been faster
            await node.start()

    # -- faults

    async def kill(self, node: Node) -> None:
        node.kill()
        await self._sleep(TROUBLE_S)
        await self.revive(node)

    async def power(self, node: Node) -> None:
        node.power_cut(silent=self._coin())
        await self._sleep(TROUBLE_S)
        await self.revive(node)

    async def power_all(self, node: Node) -> None:
        for each in self.world.nodes.values():
            each.power_cut(silent=True)
        await self._sleep(TROUBLE_S)
        starts = [self.revive(each, cut_short=False) for each in self.world.nodes.values()]
        await asyncio.gather(*starts)

    async def stop(self, node: Node) -> None:
        if node.serving:
            with contextlib.suppress(NodeEnded):
                await node.stop()
        await self._sleep((0.0, 0.5))
        await self.revive(node)

    async def pause(self, node: Node) -> None:
        node.pause()
        await self._sleep(TROUBLE_S)
        node.resume()

    async def cut(self, node: Node) -> None:
        """From everybody or from some, both ways or one."""
        network = self.world.network
        others = [name for name in network.hosts if name not in (node.name, "world")]
        chosen = others if self._coin() else self.rng.sample(others, self.rng.randint(1, len(others)))
        way = self.rng.choice(("both", "in", "out"))
        network.isolate(node.name, others=chosen, outbound=way != "in", inbound=way != "out")
        await self._sleep(TROUBLE_S)
        network.heal()

    async def reset(self, node: Node) -> None:
        for _ in range(self.rng.randint(1, 5)):
            self.world.network.break_connections(node.name)
            await self._sleep((0.0, 0.1))

    async def slow_net(self, node: Node) -> None:
        network = self.world.network
        for name in network.hosts:
            if name != node.name and self._coin():
                network.slow(node.name, name, delay_ms=(5, 300), bandwidth_bytes_per_s=200_000)
                network.slow(name, node.name, delay_ms=(5, 300), bandwidth_bytes_per_s=200_000)
        await self._sleep(TROUBLE_S)
        network.heal()

    async def slow_disk(self, node: Node) -> None:
        node.disk.slow()
        await self._sleep(TROUBLE_S)
        node.disk.heal()

    async def full_disk(self, node: Node) -> None:
        node.disk.fill(self.rng.randint(0, 4096))
        await self._sleep(TROUBLE_S)
        if self._coin():
            node.power_cut(silent=self._coin())
        node.disk.heal()
        await self.revive(node)

    async def skew(self, node: Node) -> None:
        """The node's clock jumps, and stays where it is."""
        node.clock_skew_ms = self.rng.randint(-SKEW_MS_MAX, SKEW_MS_MAX)

    # -- chance

    def _coin(self) -> bool:
        return self.rng.random() < 0.5

    async def _sleep(self, span_s: tuple[float, float]) -> None:
        await asyncio.sleep(self.rng.uniform(*span_s))


async def quarrel(world: World, count: int, duration_s: float, faults: Sequence[str]) -> None:
    """Several at once: faults overlap, and one may heal what another has just broken."""
    troubles = [Nemesis(world, f"nemesis{number}").run(duration_s, faults) for number in range(count)]
    await asyncio.gather(*troubles)
