"""A group of consumers, played by processes that crash, pause, leave and come back; and its end.

A seat is a place in the group. Somebody sits there most of the time, one after the other; a static member's
successors have its instance id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from simulator.clients.base import NotNow
from simulator.groups.classic_members import ClassicMember, CooperativeMember
from simulator.groups.consumer_members import ReconcilingMember
from simulator.groups.history import GroupHistory
from simulator.groups.members import GroupClient, GroupMember, Timing
from simulator.world import World

KINDS: Mapping[str, Sequence[type[GroupMember]]] = {
    "eager": (ClassicMember,),
    "cooperative": (CooperativeMember,),
    "consumer": (ReconcilingMember,),
    "mixed": (CooperativeMember, ReconcilingMember),
}
SITS_S = (0.5, 5.0)
AWAY_S = (0.0, 3.0)
LEAVES_WITHIN_S = 6.0
PAUSE_SESSIONS = (0.1, 2.5)
SLOW_CHANCE = 0.25
SLOWNESS_S = (0.0, 4.0)
LAST_DIES_CHANCE = 0.6
STABLE_WITHIN_S = 20.0
STAYS_S = 2.0
DRAINED_WITHIN_S = 30.0
STEP_S = 0.05


class Seat:
    def __init__(self, company: Company, number: int, *, static: bool) -> None:
        self.company = company
        self.world = company.world
        self.name = f"{company.group.group_id}{number}"
        self.instance_id = self.name if static else None
        self.rng = self.world.rng(f"seat {self.name}")
        self.member: GroupMember | None = None
        self.stopping = False
        self.is_empty = False  # for good
        self._sat: list[GroupMember] = []
        self._deeds: dict[str, Callable[[GroupMember], Awaitable[None]]] = {
            "crash": self.crash,
            "pause": self.pause,
            "leave": self.leave,
            "restart": self.restart,
            "twin": self.twin,
        }

    async def run(self) -> None:
        """Until `stopping`; then somebody sits there and stays."""
        await asyncio.sleep(self.rng.uniform(*AWAY_S))
        while not self.stopping:
            member = self.sit_down()
            member.slowness_s = SLOWNESS_S if self.rng.random() < SLOW_CHANCE else (0.0, 0.0)
            await self._sleep_or_stop(SITS_S)
            if not self.stopping:
                await self._deeds[self.rng.choice(list(self._deeds))](member)
        if self.member is not None:
            self.member.slowness_s = (0.0, 0.0)

    def sit_down(self) -> GroupMember:
        """Somebody sits here now, if nobody does."""
        member = self.member
        if member is None or member.ended:
            if member is not None:
                self._end(member)
            member = self.member = self._newcomer()
        return member

    def _newcomer(self) -> GroupMember:
        number = len(self._sat)
        kind = self.rng.choice(self.company.kinds)
        # A twin is on another machine.
        name = f"{self.name}{'ab'[number % 2]}"
        member = kind(self.world, name, self.company.group, self.company.timing, self.instance_id, number)
        member.siblings = self._sat
        self._sat.append(member)
        self.company.group.trace(name, f"sits down: {kind.__name__} {self.instance_id}")
        running = self.world.spawn(member.process, member.run())
        running.add_done_callback(lambda task: self._failed(member, task))
        return member

    def _failed(self, member: GroupMember, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.world.history.surprise(member.name, f"member failed: {task.exception()!r}")

    def _end(self, member: GroupMember) -> None:
        """The process is gone."""
        if not member.process.alive:
            return
        self.company.group.trace(member.name, "is gone")
        self.world.network.process_ended(member.process, silent=False)
        self.world.loop.end_process(member.process)
        member.release(list(member.holds), "is gone")

    async def _sleep_or_stop(self, span_s: tuple[float, float]) -> None:
        until_s = self.world.loop.time() + self.rng.uniform(*span_s)
        while self.world.loop.time() < until_s and not self.stopping:  # noqa: ASYNC110
            await asyncio.sleep(STEP_S)

    def close(self) -> None:
        """Whoever sits here dies, and nobody comes after it."""
        if self.member is not None:
            self._end(self.member)
        self.is_empty = True

    # -- what becomes of a member

    async def crash(self, member: GroupMember) -> None:
        self._end(member)
        self.member = None
        await self._sleep_or_stop(AWAY_S)

    async def pause(self, member: GroupMember) -> None:
        """For less than a session, or for more."""
        self.company.group.trace(member.name, "pauses")
        member.process.paused = True
        low, high = PAUSE_SESSIONS
        session_s = self.company.timing.session_ms / 1000
        await self._sleep_or_stop((low * session_s, high * session_s))
        member.process.paused = False
        self.company.group.trace(member.name, "goes on")

    async def leave(self, member: GroupMember) -> None:
        await self._leave(member)
        await self._sleep_or_stop(AWAY_S)

    async def restart(self, member: GroupMember) -> None:
        """Static members come back as they were; others leave, and join again at once."""
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
        """Another of the same instance id comes while this one is paused, and finds it there afterwards."""
        if self.instance_id is None:
            await self.crash(member)
            return
        member.process.paused = True
        self.member = self._newcomer()
        await self._sleep_or_stop(AWAY_S)
        member.process.paused = False
        await self._sleep_or_stop(AWAY_S)
        self._end(member)


class Company:
    """`shards` is how many partitions the topic of offsets has."""

    def __init__(
        self, world: World, group_id: str, mode: str, *, topic: str, partitions: int, shards: int, seats: int
    ) -> None:
        self.world = world
        self.mode = mode
        self.kinds = KINDS[mode]
        self.group = GroupHistory(world, group_id, topic, partitions, shards)
        rng = world.rng(f"company {group_id}")
        self.timing = company_timing(world)
        static = rng.choice((0, 1, seats))
        self.seats = [Seat(self, number, static=number < static) for number in range(seats)]
        self._running: list[asyncio.Task[None]] = []
        world.trace("group", group_id, f"{mode}, {static} of {seats} are static")

    def begin(self) -> None:
        self._running = [self.world.spawn(self.world.process, seat.run()) for seat in self.seats]

    async def finish(self) -> None:
        """All is healed, nobody writes any more: the group comes to rest and has read everything.

        One of its members may die before that and not come back: the group has to find out. If nobody does,
        nothing covers up what the group has come to.
        """
        history, group = self.world.history, self.group
        for seat in self.seats:
            seat.stopping = True
        await asyncio.gather(*self._running)
        rng = self.world.rng(f"last {group.group_id}")
        if rng.random() < LAST_DIES_CHANCE:
            rng.choice(self.seats).close()
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
        """Somebody new asks what is committed."""
        operation = self.world.history.invoke(self.group.group_id, "group-offsets", self.group.topic)
        auditor = GroupClient(self.world, f"{name} {self.group.group_id}", self.group)

        async def ask() -> dict[int, int]:
            while True:
                try:
                    return await auditor.committed_offsets(range(self.group.partitions))
                except NotNow:
                    await auditor.back_off()

        asking = self.world.spawn(auditor.process, ask())
        done, _ = await asyncio.wait([asking], timeout=DRAINED_WITHIN_S)
        if done:
            operation.ok(asking.result())
        else:
            operation.fail("not within its time")

    @property
    def members(self) -> list[GroupMember]:
        return [seat.sit_down() for seat in self.seats if not seat.is_empty]

    def _is_stable(self) -> bool:
        """Everybody is content, and everything has one owner."""
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
        """A static member is started again within its session: nobody else notices."""
        seats = [seat for seat in self.seats if seat.instance_id is not None and not seat.is_empty]
        if not seats or len(self.kinds) > 1:
            return
        seat = self.world.rng(f"restart {self.group.group_id}").choice(seats)
        before = self._noticed(seat)
        member = seat.sit_down()
        held = sorted(member.holds)
        await seat.restart(member)
        again = seat.sit_down()
        if not await self._within(STABLE_WITHIN_S, self._is_stable):
            self.group.restless.append(f"{seat.name} was started again: {self._describe()}")
        elif self._noticed(seat) != before or sorted(again.holds) != held:
            text = f"{before} became {self._noticed(seat)}, {held} became {sorted(again.holds)}"
            self.group.restless.append(f"{seat.name} was started again: {text}")

    def _noticed(self, but: Seat) -> list[int]:
        """How often the others were called to rebalance."""
        return [seat.sit_down().rebalances for seat in self.seats if seat is not but and not seat.is_empty]


def company_timing(world: World) -> Timing:
    """The same for all groups of a seed: brokers know one session for members of the new protocol."""
    rng = world.rng("company timing")
    session_ms = rng.choice((1_500, 2_500))
    return Timing(session_ms, rng.choice((1_500, 4_000)), rng.choice((150, 400)))
