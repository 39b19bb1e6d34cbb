"""The one who breaks things: draws a fault, a victim and a time, and makes good again what it broke.

Jepsen's word for it. Faults come one after another; `quarrel` runs several of these side by side.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from simulator.inspection import (
    active_controllers,
    all_in_sync,
    has_voted_anew,
    leaders,
    vote_of,
)
from simulator.world import Node, NodeEnded, World

STARTS_MAX = 20
CALM_S = (0.05, 1.2)
TROUBLE_S = (0.05, 2.5)
ISLAND_S = (0.5, 4.5)  # until the others have given the node up
PATIENCE_S = 4.0  # a start that takes longer goes on beside the next fault: it may need a quorum
MAKE_GOOD_S = 90.0
SKEW_MS_MAX = 5_000
CUT_SHORT_CHANCE = 0.25
AIMED_CHANCE = 0.6
FLIP_CHANCE = 0.3
VOTE_STEP_S = 0.0002
VERY_SLOW_SYNC_MS = (800.0, 3_000.0)

Found = TypeVar("Found")


class NodeDoesNotStart(Exception):
    """A node that should come back does not."""


class Nemesis:
    """`topic`: whose leaders it likes to hit. `flushed`: acknowledgements wait for the disk, so that all may
    lose their power at once. Else one does, while all replicas are in sync, and until it is so again itself
    no other goes down: what it has lost is only with them.
    """

    def __init__(self, world: World, name: str = "nemesis", *, topic: str = "", flushed: bool = True) -> None:
        self.world = world
        self.rng = world.rng(name)
        self.topic = topic
        self.flushed = flushed
        self.faults: dict[str, Callable[[Node], Awaitable[None]]] = {
            "kill": self.kill,
            "kill-all": self.kill_all,
            "power": self.power,
            "power-all": self.power_all,
            "slow-power": self.slow_power,
            "stop": self.stop,
            "rolling": self.rolling,
            "pause": self.pause,
            "cut": self.cut,
            "island": self.island,
            "lag": self.lag,
            "coup": self.coup,
            "usurp": self.usurp,
            "split": self.split,
            "reset": self.reset,
            "slow-net": self.slow_net,
            "slow-disk": self.slow_disk,
            "full-disk": self.full_disk,
            "skew": self.skew,
        }

    async def run(self, duration_s: float, faults: Sequence[str]) -> None:
        """Trouble and calm in turn; at the end everything is well again."""
        loop = self.world.loop
        until_s = loop.time() + duration_s * self.world.length
        while loop.time() < until_s:
            await self._sleep(CALM_S)
            fault = self.rng.choice(list(faults))
            node = self.victim()
            self.world.trace("nemesis", node.name, fault)
            await self.faults[fault](node)

    def victim(self) -> Node:
        """Anybody, but more often one that the others depend on."""
        if self.rng.random() < AIMED_CHANCE and len(self.world.nodes) > 1:
            aimed = leaders(self.world, self.topic) if self._coin() else active_controllers(self.world)
            if aimed:
                return self.rng.choice(aimed)
        return self.rng.choice(list(self.world.nodes.values()))

    async def make_good(self) -> None:
        """Heal everything and start who is down, all at once: they may need each other."""
        self.world.heal()
        nodes = self.world.nodes.values()
        returning = [asyncio.ensure_future(self.revive(node, cut_short=False, must=True)) for node in nodes]
        _, late = await asyncio.wait(returning, timeout=MAKE_GOOD_S)
        names = [node.name for node in nodes if not node.serving]
        if late:
            raise NodeDoesNotStart(f"{', '.join(names)}: not within {MAKE_GOOD_S:g} s")
        for task in returning:
            task.result()

    async def revive(self, node: Node, *, cut_short: bool = True, must: bool = False) -> None:
        """Start a node that is down; sometimes it goes down again in the middle of its recovery.

        Without `cut_short` it waits until the node serves, else not longer than PATIENCE_S. `must`: nobody
        troubles it any more, so that a start that fails is a failure.
        """
        for _ in range(STARTS_MAX):
            if node.serving:
                return
            starting = node.starting if node.up and node.starting is not None else None
            if starting is None or starting.done():
                if node.up:
                    return  # somebody else started it, or is about to stop it
                starting = node.start_soon()
            if cut_short and self.rng.random() < CUT_SHORT_CHANCE:
                await asyncio.sleep(self.rng.uniform(0, 0.01) if self._coin() else self.rng.uniform(0, 0.5))
                if self.flushed:
                    node.power_cut(silent=self._coin())
                else:
                    node.kill()
            done, _ = await asyncio.wait([starting], timeout=PATIENCE_S if cut_short else MAKE_GOOD_S)
            if not done:
                return
            try:
                starting.result()
            except NodeEnded:
                await self._sleep((0.01, 0.3))
            except Exception as error:
                self.world.trace("nemesis", node.name, f"does not start: {error}")
                if must:
                    raise NodeDoesNotStart(f"{node.name}: {error!r}") from error
                await self._sleep((0.1, 0.5))
        if must and not node.up:
            raise NodeDoesNotStart(f"{node.name} is down after {STARTS_MAX} starts")

    # -- faults of a machine

    async def kill(self, node: Node) -> None:
        if self.world.fragile is None:
            node.kill()
            await self._sleep(TROUBLE_S)
            await self.revive(node)

    async def kill_all(self, node: Node) -> None:
        if self.world.fragile is None:
            for each in self.world.nodes.values():
                each.kill()
            await self._revive_all()

    async def power(self, node: Node) -> None:
        if self.flushed:
            node.power_cut(silent=self._coin(), flip_chance=FLIP_CHANCE)
            await self._sleep(TROUBLE_S)
            await self.revive(node)
        elif self.world.fragile is None and self._all_are_well():
            self.world.fragile = node
            node.power_cut(silent=self._coin(), flip_chance=FLIP_CHANCE)
            await self._sleep(TROUBLE_S)
            for _ in range(round(MAKE_GOOD_S)):
                await self.revive(node)
                if node.serving and all_in_sync(self.world):
                    break
                await asyncio.sleep(1.0)
            self.world.fragile = None

    def _all_are_well(self) -> bool:
        return all_in_sync(self.world) and all(node.serving for node in self.world.brokers)

    async def slow_power(self, node: Node) -> None:
        """The power goes while much waits for the disk."""
        node.disk.slow()
        await self._sleep((0.0, 0.5))
        await self.power(node)
        node.disk.heal()

    async def power_all(self, node: Node) -> None:
        for each in self.world.nodes.values():
            each.power_cut(silent=True)
        await self._revive_all()

    async def _revive_all(self) -> None:
        await self._sleep(TROUBLE_S)
        starts = [self.revive(each, cut_short=False) for each in self.world.nodes.values()]
        await asyncio.gather(*starts)

    async def stop(self, node: Node) -> None:
        if self.world.fragile is not None:
            return
        if node.serving:
            with contextlib.suppress(NodeEnded):
                await node.stop()
        await self._sleep((0.0, 0.5))
        await self.revive(node)

    async def rolling(self, node: Node) -> None:
        """All of them, one after the other, each when the one before serves again."""
        for each in self.world.nodes.values():
            await self.stop(each)

    async def pause(self, node: Node) -> None:
        node.pause()
        await self._sleep(TROUBLE_S)
        node.resume()

    async def skew(self, node: Node) -> None:
        """The node's clock jumps, and stays where it is."""
        node.clock_skew_ms = self.rng.randint(-SKEW_MS_MAX, SKEW_MS_MAX)

    # -- faults of the network

    async def cut(self, node: Node) -> None:
        """From everybody or from some, both ways or one."""
        network = self.world.network
        others = [name for name in network.hosts if name not in (node.name, "world")]
        chosen = others if self._coin() else self.rng.sample(others, self.rng.randint(1, len(others)))
        way = self.rng.choice(("both", "in", "out"))
        network.isolate(node.name, others=chosen, outbound=way != "in", inbound=way != "out")
        await self._sleep(TROUBLE_S)
        network.heal()

    async def split(self, node: Node) -> None:
        """Two groups of nodes that do not reach each other; clients reach both, or are on a side as well."""
        names = [each.name for each in self.world.nodes.values()]
        if self._coin():
            names = [name for name in self.world.network.hosts if name != "world"]
        self.rng.shuffle(names)
        names.remove(node.name)
        size = self.rng.randint(0, len(names) // 2)
        self.world.network.partition([node.name, *names[:size]], names[size:])
        await self._sleep(TROUBLE_S)
        self.world.network.heal()

    async def island(self, node: Node) -> None:
        """Cut off from other nodes only, for long: clients still talk to one that may lead no more."""
        led = leaders(self.world, self.topic)
        if led and self._coin():
            node = self.rng.choice(led)
        others = [each.name for each in self.world.nodes.values() if each is not node]
        if len(others) > 2 and self._coin():
            others.remove(self.rng.choice(others))  # somebody stays with it
        self.world.network.isolate(node.name, others=others)
        await self._sleep(ISLAND_S)
        if self._coin():
            await self.kill(node)
        self.world.network.heal()
        successors = [each for each in leaders(self.world, self.topic) if each is not node]
        if successors and self._coin():
            # What the one that is back still believes must not outlive the one that took its place.
            await self._sleep((0.0, 0.6))
            await self.kill(self.rng.choice(successors))

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

    # -- faults of a disk

    async def slow_disk(self, node: Node) -> None:
        node.disk.slow()
        await self._sleep(TROUBLE_S)
        node.disk.heal()

    async def full_disk(self, node: Node) -> None:
        node.disk.fill(self.rng.randint(0, 4096))
        await self._sleep(TROUBLE_S)
        if self._coin() and self.flushed:
            node.power_cut(silent=self._coin())
        node.disk.heal()
        await self.revive(node)

    # -- faults in several steps, for what hardly ever comes about by chance

    async def lag(self, node: Node) -> None:
        """A follower does not reach its leader, not long enough to be missed; then the leader dies."""
        led = leaders(self.world, self.topic)
        if not led or self.world.fragile is not None:
            return
        leader = self.rng.choice(led)
        other = self.rng.choice([each for each in self.world.brokers if each is not leader])
        self.world.network.isolate(leader.name, others=[other.name])
        await self._sleep((0.05, 0.6))
        leader.kill()
        self.world.network.heal()
        await self._sleep(TROUBLE_S)
        await self.revive(leader)

    async def coup(self, node: Node) -> None:
        """The leader of the quorum goes, and so does the first who votes for another, before it learns more.

        Then the winner is cut off, and the other two are back: they must not elect again in the same epoch.
        """
        rulers = active_controllers(self.world)
        if not rulers or self.world.fragile is not None:
            return
        ruler = self.rng.choice(rulers)
        voters = [each for each in self.world.nodes_up if each.is_controller and each is not ruler]
        before = {each: vote_of(each) for each in voters}
        ruler.kill()
        voter = await self._until(
            lambda: next((each for each in voters if each.up and has_voted_anew(each, before[each])), None),
            step_s=VOTE_STEP_S,
        )
        if voter is not None:
            await self._sleep((0.0, 0.006))  # the answer goes out when the vote is on the disk
            voter.kill()
            rest = [each for each in voters if each is not voter]
            for each in rest:
                self.world.network.isolate(each.name, others=[ruler.name, voter.name])
            await asyncio.gather(self.revive(ruler, cut_short=False), self.revive(voter, cut_short=False))
            await self._sleep((0.0, 1.5))
            self.world.network.heal()
        await self.revive(ruler)

    async def usurp(self, node: Node) -> None:
        """The leader is killed while the disks of the others lag behind; when one of these leads, they lose
        their power."""
        if not self.flushed or not leaders(self.world, self.topic):
            return
        leader = self.rng.choice(leaders(self.world, self.topic))
        others = [each for each in self.world.nodes.values() if each is not leader]
        for each in others:
            each.disk.slow(VERY_SLOW_SYNC_MS)
        await self._sleep((0.3, 1.5))
        leader.kill()
        await self._until(lambda: leader not in leaders(self.world, self.topic) or None)
        await self._sleep((0.0, 0.1))
        for each in others:
            each.power_cut()
            each.disk.heal()
        await self._revive_all()

    async def _until(self, find: Callable[[], Found | None], *, step_s: float = 0.01) -> Found | None:
        """What `find` finds at last, or None after a few seconds."""
        until_s = self.world.loop.time() + PATIENCE_S
        while self.world.loop.time() < until_s:
            found = find()
            if found is not None:
                return found
            await asyncio.sleep(step_s)
        return None

    # -- chance

    def _coin(self) -> bool:
        return self.rng.random() < 0.5

    async def _sleep(self, span_s: tuple[float, float]) -> None:
        await asyncio.sleep(self.rng.uniform(*span_s))


async def quarrel(
    world: World, count: int, duration_s: float, faults: Sequence[str], *, topic: str, flushed: bool
) -> None:
    """Several at once: faults overlap, and one may heal what another has just broken."""
    troubles = [
        Nemesis(world, f"nemesis{number}", topic=topic, flushed=flushed).run(duration_s, faults)
        for number in range(count)
    ]
    await asyncio.gather(*troubles)
