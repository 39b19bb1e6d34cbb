"""Faults of machines that are up and connected, but slow, out of something, or wrong about the time.

Each fault says in `disturb` for how long it excuses that a node is fenced. A fault that does not call it must
not have that effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ottla.protocol.messages.fetch_request import FetchRequest
from simulator.faults import FAULT_S, FaultInjector
from simulator.inspection import active_controllers, all_in_sync, leader_of, newest_image
from simulator.runtime.files import ALL, NAMES, SYNC, WRITE
from simulator.runtime.request_hold import RequestHold
from simulator.world import CONTROLLER_PORT, Node, World

SHORT_STALL_S = (0.05, 0.8)  # shorter than any timeout: nobody may notice
LONG_STALL_S = (2.5, 12.0)
BUSY_CALLBACK_NS = (50_000, 400_000)
SLOW_FSYNC_MS = (300.0, 2_500.0)
SLOW_NAMES_MS = (0.0, 40.0)
SLOW_S = (2.0, 6.0)
HANG_S = (4.0, 30.0)
STEP_MS = (3_600_000, 6 * 3_600_000)
IDLE_NS = (0, 300_000_000)
DESCRIPTORS_S = (0.2, 3.0)
EXCUSED_AFTER_S = 12.0  # a session time-out and the way back
IN_SYNC_WITHIN_S = 30.0
METADATA_LAG_S = (0.2, 1.2)  # shorter than the fetch timeout of the quorum
SHRINKS_WITHIN_S = 2.0

SetConfig = Callable[[str, str], Awaitable[None]]


class StressInjector(FaultInjector):
    """`set_config`: sets a configuration of the topic, for faults that need one at a certain moment."""

    def __init__(
        self,
        world: World,
        name: str = "nemesis",
        *,
        topic: str = "",
        flushed: bool = True,
        set_config: SetConfig | None = None,
    ) -> None:
        super().__init__(world, name, topic=topic, flushed=flushed)
        self.set_config = set_config
        self.faults |= {
            "stall": self.stall,
            "long-stall": self.long_stall,
            "busy": self.busy,
            "slow-data": self.slow_data,
            "slow-data-majority": self.slow_data_majority,
            "hang-data": self.hang_data,
            "failed-directory": self.failed_directory,
            "no-descriptors": self.no_descriptors,
            "clock-step": self.clock_step,
            "idle-reset": self.idle_reset,
            "kill-controller": self.kill_controller,
            "metadata-lag": self.metadata_lag,
            "raise-min-isr": self.raise_min_isr,
        }

    def disturb(self, node: Node, duration_s: float = 0.0) -> None:
        """For so long, and a while after, it is no surprise that the node is fenced."""
        until_ns = self.world.loop.now_ns + round((duration_s + EXCUSED_AFTER_S) * 1_000_000_000)
        known = self.world.history.health.disturbed_until_ns
        known[node.id] = max(known.get(node.id, 0), until_ns)

    # -- the loop

    async def stall(self, node: Node) -> None:
        """Block the node's loop, several times, each too briefly to matter."""
        for _ in range(self.rng.randint(1, 3)):
            if node.process is not None:
                duration_s = self.rng.uniform(*SHORT_STALL_S)
                self.world.loop.stall(node.process, round(duration_s * 1_000_000_000))
                await asyncio.sleep(duration_s)
            await self._sleep((0.3, 1.0))

    async def long_stall(self, node: Node) -> None:
        if node.process is not None:
            duration_s = self.rng.uniform(*LONG_STALL_S)
            self.disturb(node, duration_s)
            self.world.loop.stall(node.process, round(duration_s * 1_000_000_000))
            await asyncio.sleep(duration_s)

    async def busy(self, node: Node) -> None:
        """Every callback takes longer."""
        if node.process is not None:
            node.process.callback_ns = self.rng.randint(*BUSY_CALLBACK_NS)
            await self._sleep(FAULT_S)
            node.recover()

    # -- the disk

    async def slow_data(self, node: Node) -> None:
        """The directories without the metadata log are slow to sync: nothing else may suffer."""
        await self._slow_data([node])

    async def slow_data_majority(self, node: Node) -> None:
        others = [each for each in self.world.brokers if each is not node]
        await self._slow_data([node, *self.rng.sample(others, len(others) // 2)])

    async def _slow_data(self, nodes: list[Node]) -> None:
        for node in nodes:
            for path in node.data_directories:
                node.disk.slow_directory(path, {SYNC: SLOW_FSYNC_MS, NAMES: SLOW_NAMES_MS})
        await self._sleep(SLOW_S)
        for node in nodes:
            node.disk.heal()

    async def hang_data(self, node: Node) -> None:
        """One directory without the metadata log hangs: what lives elsewhere goes on."""
        path = self.rng.choice(node.data_directories)
        duration_s = self.rng.uniform(*HANG_S)
        kinds = (SYNC, NAMES) if self._coin() else (SYNC, NAMES, WRITE) if self._coin() else ALL
        self.world.trace("nemesis", node.name, f"{path} hangs for {duration_s:.1f} s: {', '.join(kinds)}")
        node.disk.hang(path, duration_s, kinds)
        await asyncio.sleep(duration_s)
        node.disk.heal()

    async def failed_directory(self, node: Node) -> None:
        """A directory fails; later its disk works again, and the node is restarted."""
        path = self.rng.choice(node.data_directories)
        self.world.trace("nemesis", node.name, f"{path} fails")
        node.disk.fail(path)
        await self._sleep((1.0, 4.0))
        node.disk.heal()
        self.disturb(node)
        await (self.stop(node) if self._coin() else self.kill(node))

    async def no_descriptors(self, node: Node) -> None:
        if node.process is not None:
            node.process.out_of_descriptors = True
            await self._sleep(DESCRIPTORS_S)
            node.recover()

    # -- time

    async def clock_step(self, node: Node) -> None:
        """Step the node's wall clock by hours, for good."""
        step_ms = self.rng.randint(*STEP_MS) * self.rng.choice((-1, 1))
        self.world.trace("nemesis", node.name, f"clock {step_ms / 3_600_000:+.1f} h")
        node.clock_skew_ms += step_ms if abs(node.clock_skew_ms + step_ms) < STEP_MS[1] else -step_ms

    # -- the network

    async def idle_reset(self, node: Node) -> None:
        """Reset the connections that carry nothing, as a firewall does: all nodes stay reachable."""
        self.world.network.break_idle(node.name, self.rng.randint(*IDLE_NS))

    async def metadata_lag(self, node: Node) -> None:
        """The node gets committed metadata late; its other connections to the controller are fast."""
        hold = self._hold_metadata(node)
        await self._sleep(METADATA_LAG_S)
        if hold is not None:
            hold.release_held()

    def _hold_metadata(self, node: Node) -> RequestHold | None:
        controllers = [each for each in active_controllers(self.world) if each is not node]
        if not controllers:
            return None
        return RequestHold(
            self.world.network,
            node.name,
            controllers[0].name,
            FetchRequest.API_KEY,
            port=CONTROLLER_PORT,
            all_of_them=True,
            answers=True,
        )

    # -- machines

    async def kill(self, node: Node) -> None:
        self.disturb(node)
        await super().kill(node)

    async def kill_controller(self, node: Node) -> None:
        for each in active_controllers(self.world)[:1]:
            await self.kill(each)

    # -- faults in several steps

    async def raise_min_isr(self, node: Node) -> None:
        """Raise min.insync.replicas while the leader's metadata is late, shrink its ISR, and kill it.

        The followers that left the ISR are eligible leaders under the new minimum, so what the leader
        acknowledged alone under the old one must not count as committed.
        """
        leader = leader_of(self.world, self.topic, 0)
        if self.set_config is None or leader is None or leader in active_controllers(self.world):
            return
        await self.set_config("min.insync.replicas", "1")
        if not await self._in_sync():
            return
        hold = self._hold_metadata(leader)
        if hold is None:
            return
        setting = asyncio.ensure_future(self.set_config("min.insync.replicas", "2"))
        others = [each for each in self.world.brokers if each is not leader]
        await self._sleep((0.0, 0.05))
        for each in others:
            # In this direction only: the followers' fetches, not the way to the controller among them.
            if each not in active_controllers(self.world):
                self.world.network.isolate(leader.name, others=[each.name])
        fetches = [
            RequestHold(self.world.network, each.name, leader.name, FetchRequest.API_KEY, all_of_them=True)
            for each in others
        ]
        await self._until_shrunk(leader)
        await self._sleep((0.0, 0.4))
        await setting
        self.disturb(leader)
        leader.kill()
        for each_hold in (*fetches, hold):
            each_hold.release_held()
        self.world.network.heal()
        await self._sleep(FAULT_S)
        await self.bring_up(leader, may_interrupt=False)
        await self.set_config("min.insync.replicas", "1")

    async def _in_sync(self) -> bool:
        until_s = self.world.loop.time() + IN_SYNC_WITHIN_S
        while not all_in_sync(self.world):
            if self.world.loop.time() > until_s:
                return False
            await asyncio.sleep(0.1)
        return True

    async def _until_shrunk(self, leader: Node) -> None:
        until_s = self.world.loop.time() + SHRINKS_WITHIN_S
        while self.world.loop.time() < until_s:
            image = newest_image(self.world)
            topic = None if image is None else image.topics_by_name.get(self.topic)
            if topic is not None and topic.partitions[0].isr == (leader.id,):
                return
            await asyncio.sleep(0.005)
