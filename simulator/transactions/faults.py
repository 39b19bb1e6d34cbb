"""Faults that transactions are sensitive to: slow links, and kills while messages are in flight.

Slow links reorder requests of different connections. A leader or coordinator that is killed while its
messages are slow leaves decided ends without a response, and markers that arrive after its successor has
written them.
"""

from __future__ import annotations

import asyncio

from simulator.faults import FAULT_S, FaultInjector
from simulator.inspection import leaders
from simulator.world import Node, World

SLOW_LINK_DELAY_MS = (1.0, 1_200.0)
SLOW_LINK_S = (0.1, 1.5)
IN_FLIGHT_DELAY_MS = (100.0, 1_200.0)
IN_FLIGHT_S = (0.2, 1.2)
FINE_MS = (0.05, 0.4)


class TxnFaultInjector(FaultInjector):
    """Injects faults into the leaders of `topics`, one topic at a time."""

    def __init__(self, world: World, name: str, topics: tuple[str, ...], *, flushed: bool) -> None:
        super().__init__(world, name, topic=topics[0], flushed=flushed)
        self.topics = topics
        self.faults["kill-in-flight"] = self.kill_in_flight

    def choose_node(self) -> Node:
        self.topic = self.rng.choice(self.topics)
        return super().choose_node()

    async def kill_in_flight(self, node: Node) -> None:
        led = leaders(self.world, self.topic)
        if not led or self.world.recovering is not None:
            return
        leader = self.rng.choice(led)
        others = [each for each in self.world.nodes.values() if each is not leader]
        slow = self.rng.sample(others, self.rng.randint(1, len(others)))
        for each in slow:
            self.world.network.slow(leader.name, each.name, delay_ms=IN_FLIGHT_DELAY_MS)
        await self._sleep(IN_FLIGHT_S)
        leader.kill()
        for each in slow:
            self.world.network.slow(leader.name, each.name, delay_ms=FINE_MS)
        await self._sleep(FAULT_S)
        await self.bring_up(leader)


async def slow_random_links(world: World, number: int, duration_s: float) -> None:
    """Slow down random links for random times; requests on other connections overtake."""
    rng = world.rng(f"weather{number}")
    network, until_s = world.network, world.loop.time() + duration_s * world.length
    nodes = [node.name for node in world.nodes.values()]
    while world.loop.time() < until_s:
        pairs = dict.fromkeys((each.local[0], each.remote[0]) for each in network.open)
        links = [(sender, receiver) for sender, receiver in pairs if sender != receiver]
        if not links:
            await asyncio.sleep(SLOW_LINK_S[0])
            continue
        of_clients = [link for link in links if link[0] not in nodes]
        sender, receiver = rng.choice(of_clients if of_clients and rng.random() < 0.6 else links)
        network.slow(sender, receiver, delay_ms=SLOW_LINK_DELAY_MS)
        await asyncio.sleep(rng.uniform(*SLOW_LINK_S))
        network.slow(sender, receiver, delay_ms=FINE_MS)
