"""Trouble that transactions are sensitive to: links that are slow, and deaths while something is on its way.

Weather makes single links slow, so that what was sent first on one connection comes after what was sent later
on another. An orphan is what a leader or coordinator leaves behind that dies while its messages are slow:
ends that are decided and not yet told, markers that come when another has written them long ago.
"""

from __future__ import annotations

import asyncio

from simulator.faults import TROUBLE_S, Nemesis
from simulator.inspection import leaders
from simulator.world import Node, World

WEATHER_DELAY_MS = (1.0, 1_200.0)
WEATHER_S = (0.1, 1.5)
ORPHAN_DELAY_MS = (100.0, 1_200.0)
ORPHAN_S = (0.2, 1.2)
FINE_MS = (0.05, 0.4)


class TxnNemesis(Nemesis):
    """`topics`: whose leaders are hit, one of them at a time."""

    def __init__(self, world: World, name: str, topics: tuple[str, ...], *, flushed: bool) -> None:
        super().__init__(world, name, topic=topics[0], flushed=flushed)
        self.topics = topics
        self.faults["orphan"] = self.orphan

    def victim(self) -> Node:
        self.topic = self.rng.choice(self.topics)
        return super().victim()

    async def orphan(self, node: Node) -> None:
        led = leaders(self.world, self.topic)
        if not led or self.world.fragile is not None:
            return
        leader = self.rng.choice(led)
        others = [each for each in self.world.nodes.values() if each is not leader]
        slow = self.rng.sample(others, self.rng.randint(1, len(others)))
        for each in slow:
            self.world.network.slow(leader.name, each.name, delay_ms=ORPHAN_DELAY_MS)
        await self._sleep(ORPHAN_S)
        leader.kill()
        for each in slow:
            self.world.network.slow(leader.name, each.name, delay_ms=FINE_MS)
        await self._sleep(TROUBLE_S)
        await self.revive(leader)


async def weather(world: World, number: int, duration_s: float) -> None:
    """The link of some connection is slow for a while; who sends over another one is faster."""
    rng = world.rng(f"weather{number}")
    network, until_s = world.network, world.loop.time() + duration_s * world.length
    nodes = [node.name for node in world.nodes.values()]
    while world.loop.time() < until_s:
        pairs = dict.fromkeys((each.local[0], each.remote[0]) for each in network.open)
        links = [(sender, receiver) for sender, receiver in pairs if sender != receiver]
        if not links:
            await asyncio.sleep(WEATHER_S[0])
            continue
        of_clients = [link for link in links if link[0] not in nodes]
        sender, receiver = rng.choice(of_clients if of_clients and rng.random() < 0.6 else links)
        network.slow(sender, receiver, delay_ms=WEATHER_DELAY_MS)
        await asyncio.sleep(rng.uniform(*WEATHER_S))
        network.slow(sender, receiver, delay_ms=FINE_MS)
