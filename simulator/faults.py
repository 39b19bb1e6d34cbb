"""The fault injector: draws a fault, a node and a time, injects the fault and repairs it.

One injector injects one fault at a time; `run_injectors` runs several concurrently (Jepsen's nemesis).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from simulator.inspection import (
    active_controllers,
    all_in_sync,
    has_voted_since,
    leaders,
    quorum_epoch_of,
)
from simulator.world import Node, NodeEnded, World

STARTS_MAX = 20
QUIET_S = (0.05, 1.2)
FAULT_S = (0.05, 2.5)
ISOLATED_S = (0.5, 4.5)  # long enough for the other nodes to fence it
PATIENCE_S = 4.0  # a slower start continues during the next fault: it may need a quorum
HEAL_WITHIN_S = 90.0
SKEW_MS_MAX = 5_000
INTERRUPT_CHANCE = 0.25
AIMED_CHANCE = 0.6
FLIP_CHANCE = 0.3
VOTE_STEP_S = 0.0002
VERY_SLOW_SYNC_MS = (800.0, 3_000.0)

Found = TypeVar("Found")


class NodeDoesNotStart(Exception):
    """A node did not start although no fault was active."""


class FaultInjector:
    """Injects faults into nodes, preferably into leaders of `topic`.

    With `flushed`, brokers flush before they acknowledge, so all nodes may lose power at once. Without it one
    node at a time loses power, while all replicas are in sync, and no other node goes down until it is back
    in sync: only the others have what it lost.
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
            "isolate": self.isolate_node,
            "lag": self.lag,
            "double-vote": self.double_vote,
            "unsynced-leader": self.unsynced_leader,
            "split": self.split,
            "reset": self.reset,
            "slow-net": self.slow_net,
            "slow-disk": self.slow_disk,
            "full-disk": self.full_disk,
            "skew": self.skew,
        }

    async def run(self, duration_s: float, faults: Sequence[str]) -> None:
        """Alternate between faults and quiet for `duration_s`."""
        loop = self.world.loop
        until_s = loop.time() + duration_s * self.world.length
        while loop.time() < until_s:
            await self._sleep(QUIET_S)
            fault = self.rng.choice(list(faults))
            node = self.choose_node()
            self.world.trace("nemesis", node.name, fault)
            await self.faults[fault](node)

    def choose_node(self) -> Node:
        """Draw a node, preferring leaders and the active controller."""
        if self.rng.random() < AIMED_CHANCE and len(self.world.nodes) > 1:
            aimed = leaders(self.world, self.topic) if self._coin() else active_controllers(self.world)
            if aimed:
                return self.rng.choice(aimed)
        return self.rng.choice(list(self.world.nodes.values()))

    async def heal_all(self) -> None:
        """Heal everything and start all nodes that are down, concurrently: they may need each other."""
        self.world.heal()
        nodes = self.world.nodes.values()
        returning = [
            asyncio.ensure_future(self.bring_up(node, may_interrupt=False, required=True)) for node in nodes
        ]
        _, late = await asyncio.wait(returning, timeout=HEAL_WITHIN_S)
        names = [node.name for node in nodes if not node.serving]
        if late:
            raise NodeDoesNotStart(f"{', '.join(names)}: not started within {HEAL_WITHIN_S:g} s")
        for task in returning:
            task.result()

    async def bring_up(self, node: Node, *, may_interrupt: bool = True, required: bool = False) -> None:
        """Start a node that is down; with `may_interrupt`, sometimes kill it during recovery.

        Without `may_interrupt`, wait until the node serves, otherwise for at most PATIENCE_S. `required`: no
        fault is active any more, so a failed start is an error.
        """
        for _ in range(STARTS_MAX):
            if node.serving:
                return
            starting = node.starting if node.up and node.starting is not None else None
            if starting is None or starting.done():
                if node.up:
                    return  # another injector started it, or is about to stop it
                starting = node.start_soon()
            if may_interrupt and self.rng.random() < INTERRUPT_CHANCE:
                await asyncio.sleep(self.rng.uniform(0, 0.01) if self._coin() else self.rng.uniform(0, 0.5))
                if self.flushed:
                    node.power_cut(silent=self._coin())
                else:
                    node.kill()
            done, _ = await asyncio.wait([starting], timeout=PATIENCE_S if may_interrupt else HEAL_WITHIN_S)
            if not done:
                return
            try:
                starting.result()
            except NodeEnded:
                await self._sleep((0.01, 0.3))
            except Exception as error:
                self.world.trace("nemesis", node.name, f"does not start: {error}")
                if required:
                    raise NodeDoesNotStart(f"{node.name}: {error!r}") from error
                await self._sleep((0.1, 0.5))
        if required and not node.up:
            raise NodeDoesNotStart(f"{node.name} is down after {STARTS_MAX} starts")

    # -- machine faults

    async def kill(self, node: Node) -> None:
        if self.world.recovering is None:
            node.kill()
            await self._sleep(FAULT_S)
            await self.bring_up(node)

    async def kill_all(self, node: Node) -> None:
        if self.world.recovering is None:
            for each in self.world.nodes.values():
                each.kill()
            await self._bring_up_all()

    async def power(self, node: Node) -> None:
        if self.flushed:
            node.power_cut(silent=self._coin(), flip_chance=FLIP_CHANCE)
            await self._sleep(FAULT_S)
            await self.bring_up(node)
        elif self.world.recovering is None and self._all_in_sync_and_serving():
            self.world.recovering = node
            node.power_cut(silent=self._coin(), flip_chance=FLIP_CHANCE)
            await self._sleep(FAULT_S)
            for _ in range(round(HEAL_WITHIN_S)):
                await self.bring_up(node)
                if node.serving and all_in_sync(self.world):
                    break
                await asyncio.sleep(1.0)
            self.world.recovering = None

    def _all_in_sync_and_serving(self) -> bool:
        return all_in_sync(self.world) and all(node.serving for node in self.world.brokers)

    async def slow_power(self, node: Node) -> None:
        """Cut the power while many writes are not synced."""
        node.disk.slow()
        await self._sleep((0.0, 0.5))
        await self.power(node)
        node.disk.heal()

    async def power_all(self, node: Node) -> None:
        for each in self.world.nodes.values():
            each.power_cut(silent=True)
        await self._bring_up_all()

    async def _bring_up_all(self) -> None:
        await self._sleep(FAULT_S)
        starts = [self.bring_up(each, may_interrupt=False) for each in self.world.nodes.values()]
        await asyncio.gather(*starts)

    async def stop(self, node: Node) -> None:
        if self.world.recovering is not None:
            return
        if node.serving:
            with contextlib.suppress(NodeEnded):
                await node.stop()
        await self._sleep((0.0, 0.5))
        await self.bring_up(node)

    async def rolling(self, node: Node) -> None:
        """Restart all nodes, each after the previous one serves again."""
        for each in self.world.nodes.values():
            await self.stop(each)

    async def pause(self, node: Node) -> None:
        node.pause()
        await self._sleep(FAULT_S)
        node.resume()

    async def skew(self, node: Node) -> None:
        """Shift the node's clock, for good."""
        node.clock_skew_ms = self.rng.randint(-SKEW_MS_MAX, SKEW_MS_MAX)

    # -- network faults

    async def cut(self, node: Node) -> None:
        """Cut the node off from all or some hosts, in both directions or one."""
        network = self.world.network
        others = [name for name in network.hosts if name not in (node.name, "world")]
        chosen = others if self._coin() else self.rng.sample(others, self.rng.randint(1, len(others)))
        way = self.rng.choice(("both", "in", "out"))
        network.isolate(node.name, others=chosen, outbound=way != "in", inbound=way != "out")
        await self._sleep(FAULT_S)
        network.heal()

    async def split(self, node: Node) -> None:
        """Partition the nodes in two; clients reach both sides, or are partitioned as well."""
        names = [each.name for each in self.world.nodes.values()]
        if self._coin():
            names = [name for name in self.world.network.hosts if name != "world"]
        self.rng.shuffle(names)
        names.remove(node.name)
        size = self.rng.randint(0, len(names) // 2)
        self.world.network.partition([node.name, *names[:size]], names[size:])
        await self._sleep(FAULT_S)
        self.world.network.heal()

    async def isolate_node(self, node: Node) -> None:
        """Cut the node off from other nodes for long: clients still reach a leader that may be deposed."""
        led = leaders(self.world, self.topic)
        if led and self._coin():
            node = self.rng.choice(led)
        others = [each.name for each in self.world.nodes.values() if each is not node]
        if len(others) > 2 and self._coin():
            others.remove(self.rng.choice(others))  # one node stays with it
        self.world.network.isolate(node.name, others=others)
        await self._sleep(ISOLATED_S)
        if self._coin():
            await self.kill(node)
        self.world.network.heal()
        successors = [each for each in leaders(self.world, self.topic) if each is not node]
        if successors and self._coin():
            # The stale state of the returning node must not survive the death of its successor.
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
        await self._sleep(FAULT_S)
        network.heal()

    # -- disk faults

    async def slow_disk(self, node: Node) -> None:
        node.disk.slow()
        await self._sleep(FAULT_S)
        node.disk.heal()

    async def full_disk(self, node: Node) -> None:
        node.disk.fill(self.rng.randint(0, 4096))
        await self._sleep(FAULT_S)
        if self._coin() and self.flushed:
            node.power_cut(silent=self._coin())
        node.disk.heal()
        await self.bring_up(node)

    # -- faults in several steps, for states that random faults hardly ever reach

    async def lag(self, node: Node) -> None:
        """Cut a follower off from its leader, too briefly to shrink the ISR; then kill the leader."""
        led = leaders(self.world, self.topic)
        if not led or self.world.recovering is not None:
            return
        leader = self.rng.choice(led)
        other = self.rng.choice([each for each in self.world.brokers if each is not leader])
        self.world.network.isolate(leader.name, others=[other.name])
        await self._sleep((0.05, 0.6))
        leader.kill()
        self.world.network.heal()
        await self._sleep(FAULT_S)
        await self.bring_up(leader)

    async def double_vote(self, node: Node) -> None:
        """Kill the quorum leader, then the first voter that votes for another node.

        The winner is cut off and the other two return: they must not elect again in the same epoch.
        """
        controllers = active_controllers(self.world)
        if not controllers or self.world.recovering is not None:
            return
        controller_node = self.rng.choice(controllers)
        voters = [each for each in self.world.nodes_up if each.is_controller and each is not controller_node]
        before = {each: quorum_epoch_of(each) for each in voters}
        controller_node.kill()
        voter = await self._until(
            lambda: next((each for each in voters if each.up and has_voted_since(each, before[each])), None),
            step_s=VOTE_STEP_S,
        )
        if voter is not None:
            await self._sleep((0.0, 0.006))  # the response is sent when the vote is on disk
            voter.kill()
            rest = [each for each in voters if each is not voter]
            for each in rest:
                self.world.network.isolate(each.name, others=[controller_node.name, voter.name])
            await asyncio.gather(
                self.bring_up(controller_node, may_interrupt=False), self.bring_up(voter, may_interrupt=False)
            )
            await self._sleep((0.0, 1.5))
            self.world.network.heal()
        await self.bring_up(controller_node)

    async def unsynced_leader(self, node: Node) -> None:
        """Kill the leader while the other nodes' disks are slow; cut their power once one of them leads."""
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
        await self._bring_up_all()

    async def _until(self, find: Callable[[], Found | None], *, step_s: float = 0.01) -> Found | None:
        """Poll until `find` returns something; None after PATIENCE_S."""
        until_s = self.world.loop.time() + PATIENCE_S
        while self.world.loop.time() < until_s:
            found = find()
            if found is not None:
                return found
            await asyncio.sleep(step_s)
        return None

    # -- random draws

    def _coin(self) -> bool:
        return self.rng.random() < 0.5

    async def _sleep(self, span_s: tuple[float, float]) -> None:
        await asyncio.sleep(self.rng.uniform(*span_s))


async def run_injectors(
    world: World, count: int, duration_s: float, faults: Sequence[str], *, topic: str, flushed: bool
) -> None:
    """Run several injectors: faults overlap, and one may heal what another has just broken."""
    running = [
        FaultInjector(world, f"nemesis{number}", topic=topic, flushed=flushed).run(duration_s, faults)
        for number in range(count)
    ]
    await asyncio.gather(*running)
