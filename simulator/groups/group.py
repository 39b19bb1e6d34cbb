"""A consumer group whose members crash, pause, leave and return, and the checks at its end.

A slot runs one member after another; in the slot of a static member all have the same instance id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from simulator.clients.base import RetryLater
from simulator.groups.classic_members import ClassicMember, CooperativeMember
from simulator.groups.consumer_members import ReconcilingMember
from simulator.groups.members import GroupClient, GroupMember, Timing
from simulator.history.groups import GroupHistory
from simulator.world import World

KINDS: Mapping[str, Sequence[type[GroupMember]]] = {
    "eager": (ClassicMember,),
    "cooperative": (CooperativeMember,),
    "consumer": (ReconcilingMember,),
    "mixed": (CooperativeMember, ReconcilingMember),
}
ALIVE_S = (0.5, 5.0)
DOWN_S = (0.0, 3.0)
LEAVES_WITHIN_S = 6.0
PAUSE_SESSIONS = (0.1, 2.5)
SLOW_CHANCE = 0.25
SLOWNESS_S = (0.0, 4.0)
FINAL_CRASH_CHANCE = 0.6
STABLE_WITHIN_S = 20.0
STAYS_S = 2.0
DRAINED_WITHIN_S = 30.0
STEP_S = 0.05


class MemberSlot:
    def __init__(self, consumer_group: ConsumerGroup, number: int, *, static: bool) -> None:
        self.consumer_group = consumer_group
        self.world = consumer_group.world
        self.name = f"{consumer_group.group.group_id}{number}"
        self.instance_id = self.name if static else None
        self.rng = self.world.rng(f"seat {self.name}")
        self.member: GroupMember | None = None
        self.stopping = False
        self.is_empty = False  # permanently
        self._started: list[GroupMember] = []
        self._actions: dict[str, Callable[[GroupMember], Awaitable[None]]] = {
            "crash": self.crash,
            "pause": self.pause,
            "leave": self.leave,
            "restart": self.restart,
            "twin": self.twin,
        }

    async def run(self) -> None:
        """Start and end members until `stopping`; the last member stays."""
        await asyncio.sleep(self.rng.uniform(*DOWN_S))
        while not self.stopping:
            member = self.current_member()
            member.slowness_s = SLOWNESS_S if self.rng.random() < SLOW_CHANCE else (0.0, 0.0)
            await self._sleep_or_stop(ALIVE_S)
            if not self.stopping:
                await self._actions[self.rng.choice(list(self._actions))](member)
        if self.member is not None:
            self.member.slowness_s = (0.0, 0.0)

    def current_member(self) -> GroupMember:
        """Return the running member; start one if there is none."""
        member = self.member
        if member is None or member.ended:
            if member is not None:
                self._end(member)
            member = self.member = self._new_member()
        return member

    def _new_member(self) -> GroupMember:
        number = len(self._started)
        kind = self.rng.choice(self.consumer_group.kinds)
        # Two members of a slot that run at the same time are on different hosts.
        name = f"{self.name}{'ab'[number % 2]}"
        member = kind(
            self.world, name, self.consumer_group.group, self.consumer_group.timing, self.instance_id, number
        )
        member.siblings = self._started
        self._started.append(member)
        self.consumer_group.group.trace(name, f"starts: {kind.__name__} {self.instance_id}")
        running = self.world.spawn(member.process, member.run())
        running.add_done_callback(lambda task: self._failed(member, task))
        return member

    def _failed(self, member: GroupMember, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.world.history.surprise(member.name, f"member failed: {task.exception()!r}")

    def _end(self, member: GroupMember) -> None:
        """End the process of a member."""
        if not member.process.alive:
            return
        self.consumer_group.group.trace(member.name, "is gone")
        self.world.network.process_ended(member.process, silent=False)
        self.world.loop.end_process(member.process)
        member.release(list(member.holds), "is gone")

    async def _sleep_or_stop(self, span_s: tuple[float, float]) -> None:
        until_s = self.world.loop.time() + self.rng.uniform(*span_s)
        while self.world.loop.time() < until_s and not self.stopping:  # noqa: ASYNC110
            await asyncio.sleep(STEP_S)

    def close(self) -> None:
        """Kill the member and start no other."""
        if self.member is not None:
            self._end(self.member)
        self.is_empty = True

    # -- actions

    async def crash(self, member: GroupMember) -> None:
        self._end(member)
        self.member = None
        await self._sleep_or_stop(DOWN_S)

    async def pause(self, member: GroupMember) -> None:
        """Pause for less or more than the session timeout."""
        self.consumer_group.group.trace(member.name, "pauses")
        member.process.paused = True
        low, high = PAUSE_SESSIONS
        session_s = self.consumer_group.timing.session_ms / 1000
        await self._sleep_or_stop((low * session_s, high * session_s))
        member.process.paused = False
        self.consumer_group.group.trace(member.name, "resumes")

    async def leave(self, member: GroupMember) -> None:
        await self._leave(member)
        await self._sleep_or_stop(DOWN_S)

    async def restart(self, member: GroupMember) -> None:
        """Restart: a static member keeps its membership, others leave and rejoin."""
        await self._leave(member, for_restart=True)

    async def _leave(self, member: GroupMember, *, for_restart: bool = False) -> None:
        member.leave_for_restart = for_restart
        member.leaving = True
        until_s = self.world.loop.time() + LEAVES_WITHIN_S
        while not member.ended and self.world.loop.time() < until_s:  # noqa: ASYNC110
            await asyncio.sleep(STEP_S)
        self._end(member)
        self.member = None

    async def twin(self, member: GroupMember) -> None:
        """Start a second member with the instance id while the first is paused, then resume it."""
        if self.instance_id is None:
            await self.crash(member)
            return
        member.process.paused = True
        self.member = self._new_member()
        await self._sleep_or_stop(DOWN_S)
        member.process.paused = False
        await self._sleep_or_stop(DOWN_S)
        self._end(member)


class ConsumerGroup:
    """All slots of a group. `shards`: number of partitions of the offsets topic."""

    def __init__(
        self, world: World, group_id: str, mode: str, *, topic: str, partitions: int, shards: int, slots: int
    ) -> None:
        self.world = world
        self.mode = mode
        self.kinds = KINDS[mode]
        self.group = GroupHistory(world, group_id, topic, partitions, shards)
        rng = world.rng(f"company {group_id}")
        self.timing = group_timing(world)
        static = rng.choice((0, 1, slots))
        self.slots = [MemberSlot(self, number, static=number < static) for number in range(slots)]
        self._running: list[asyncio.Task[None]] = []
        world.trace("group", group_id, f"{mode}, {static} of {slots} are static")

    def begin(self) -> None:
        self._running = [self.world.spawn(self.world.process, slot.run()) for slot in self.slots]

    async def finish(self) -> None:
        """After healing and the last write: wait until the group is stable and has processed everything.

        One member may be killed before that and not return: the coordinator has to notice. In other seeds no
        member is killed, so that no rebalance hides a wrong state.
        """
        history, group = self.world.history, self.group
        for slot in self.slots:
            slot.stopping = True
        await asyncio.gather(*self._running)
        rng = self.world.rng(f"last {group.group_id}")
        if rng.random() < FINAL_CRASH_CHANCE:
            rng.choice(self.slots).close()
        operation = history.invoke(group.group_id, "group-stable", group.topic)
        if await self._within(STABLE_WITHIN_S, self._is_stable, stays_s=STAYS_S):
            operation.ok()
        else:
            operation.fail(self._describe())
            return
        operation = history.invoke(group.group_id, "group-drained", group.topic)
        if await self._within(DRAINED_WITHIN_S, self._is_drained):
            operation.ok()
        else:
            operation.fail(self._describe())
        await self._restart_static()
        await self.read_offsets("auditor")

    async def read_offsets(self, name: str) -> None:
        """Fetch the committed offsets with a new client."""
        operation = self.world.history.invoke(self.group.group_id, "group-offsets", self.group.topic)
        auditor = GroupClient(self.world, f"{name} {self.group.group_id}", self.group)

        async def request_from() -> dict[int, int]:
            while True:
                try:
                    return await auditor.committed_offsets(range(self.group.partitions))
                except RetryLater:
                    await auditor.back_off()

        asking = self.world.spawn(auditor.process, request_from())
        done, _ = await asyncio.wait([asking], timeout=DRAINED_WITHIN_S)
        if done:
            operation.ok(asking.result())
        else:
            operation.fail("timed out")

    @property
    def members(self) -> list[GroupMember]:
        return [slot.current_member() for slot in self.slots if not slot.is_empty]

    def _is_stable(self) -> bool:
        """Return whether all members are settled and every partition has one owner."""
        held = [index for member in self.members for index in member.holds]
        settled = all(member.is_settled for member in self.members)
        return settled and sorted(held) == list(range(self.group.partitions))

    def _is_drained(self) -> bool:
        final = self.world.history.final
        for member in self.members:
            for index, hold in member.holds.items():
                records = final.get(self.group.name_of(index), [])
                if records and hold.committed <= records[-1][0]:
                    return False
        return self._is_stable()

    def _describe(self) -> str:
        return "; ".join(
            f"{member.name} epoch {member.epoch} has {sorted(member.holds)}"
            + ("" if member.is_settled else " unsettled")
            for member in self.members
        )

    async def _within(self, limit_s: float, holds: Callable[[], bool], *, stays_s: float = 0.0) -> bool:
        loop = self.world.loop
        until_s = loop.time() + limit_s
        since_s: float | None = None
        while loop.time() < until_s:
            if not holds():
                since_s = None
            elif since_s is None:
                since_s = loop.time()
            if since_s is not None and loop.time() - since_s >= stays_s:
                return True
            await asyncio.sleep(STEP_S)
        return False

    async def _restart_static(self) -> None:
        """Restart a static member within its session timeout: no other member may notice."""
        slots = [slot for slot in self.slots if slot.instance_id is not None and not slot.is_empty]
        if not slots or len(self.kinds) > 1:
            return
        slot = self.world.rng(f"restart {self.group.group_id}").choice(slots)
        before = self._noticed(slot)
        member = slot.current_member()
        held = sorted(member.holds)
        await slot.restart(member)
        again = slot.current_member()
        if not await self._within(STABLE_WITHIN_S, self._is_stable):
            self.group.extra_rebalances.append(f"{slot.name} was restarted: {self._describe()}")
        elif self._noticed(slot) != before or sorted(again.holds) != held:
            text = f"{before} became {self._noticed(slot)}, {held} became {sorted(again.holds)}"
            self.group.extra_rebalances.append(f"{slot.name} was restarted: {text}")

    def _noticed(self, but: MemberSlot) -> list[int]:
        """Numbers of rebalances of the other members."""
        return [
            slot.current_member().rebalances for slot in self.slots if slot is not but and not slot.is_empty
        ]


def group_timing(world: World) -> Timing:
    """Draw the timing of all groups: the broker has one session timeout for the consumer protocol."""
    rng = world.rng("company timing")
    session_ms = rng.choice((1_500, 2_500))
    return Timing(session_ms, rng.choice((1_500, 4_000)), rng.choice((150, 400)))
