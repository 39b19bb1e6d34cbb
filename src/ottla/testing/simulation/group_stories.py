"""Stories of groups whose members come, go and die, while their coordinators do the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ottla.testing.simulation.admins import Admin
from ottla.testing.simulation.cluster_stories import drawn_properties
from ottla.testing.simulation.group_ledger import GroupLedger
from ottla.testing.simulation.group_members import PROPERTIES, ClassicMember, ConsumerMember, GroupMember
from ottla.testing.simulation.nemesis import Nemesis, quarrel
from ottla.testing.simulation.world import Story, World

TOPIC = "read"
GROUP_TOPIC = "__consumer_offsets"
PARTITIONS = 4
MEMBERS_MAX = 4
CHANGE_S = (0.2, 3.0)
SETTLED_WITHIN_S = 60.0
KINDS: dict[str, type[GroupMember]] = {"classic": ClassicMember, "consumer": ConsumerMember}


class Crowd:
    """The members of one group: some come, some leave, some are gone without a word."""

    def __init__(self, world: World, kind: str) -> None:
        self.world = world
        self.kind = kind
        self.ledger = GroupLedger(world, f"{kind} readers")
        self.members: dict[GroupMember, asyncio.Task[None]] = {}
        self.stopping = False
        self._rng = world.rng(f"crowd of {kind}")
        self._count = 0

    def come(self) -> None:
        self._count += 1
        name = f"{self.kind}{self._count}"
        member = KINDS[self.kind](self.world, name, TOPIC, PARTITIONS, self.ledger)
        self.members[member] = self.world.spawn(member.process, member.run())

    async def go(self, *, silently: bool) -> None:
        member = self._rng.choice(list(self.members))
        task = self.members.pop(member)
        member.stopping = True
        if silently:
            task.cancel()
            member.drop(member.owned)  # nobody is there to own anything
        await asyncio.wait([task])

    async def run(self) -> None:
        self.come()
        while not self.stopping:
            await asyncio.sleep(self._rng.uniform(*CHANGE_S))
            if len(self.members) < 2 or (len(self.members) < MEMBERS_MAX and self._rng.random() < 0.5):
                self.come()
            else:
                await self.go(silently=self._rng.random() < 0.5)

    async def settle(self) -> None:
        """With all members well, every partition has an owner before long, and its offset can be moved."""
        until_s = self.world.loop.time() + SETTLED_WITHIN_S
        commits = self.ledger.commits
        while len(self.ledger.owners()) < PARTITIONS or self.ledger.commits <= commits + PARTITIONS:
            if self.world.loop.time() > until_s:
                text = f"group {self.ledger.group} does not settle: {self.ledger.owners()}"
                self.world.history.surprise("crowd", text)
                break
            await asyncio.sleep(0.1)
        for member, task in self.members.items():
            if task.done():
                task.result()
            member.stopping = True
        await asyncio.wait(self.members.values(), timeout=SETTLED_WITHIN_S)


def groups(
    brokers: int, faults: Sequence[str], *, duration_s: float = 15.0, nemeses: int = 1, flushed: bool = False
) -> Story:
    async def story(world: World) -> None:
        properties = {
            **drawn_properties(world.rng("properties")),
            **PROPERTIES,
            "min.insync.replicas": str(min(brokers, 2)),
            **({"log.flush.interval.messages": "1"} if flushed else {}),
        }
        await world.start_all(world.add_cluster(brokers, properties))
        admin = Admin(world, "admin")
        replicas = min(brokers, 3)
        create = admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=replicas, configs={})
        await world.spawn(admin.process, create)
        crowds = [Crowd(world, kind) for kind in KINDS]
        changing = [asyncio.ensure_future(crowd.run()) for crowd in crowds]
        await asyncio.sleep(1)
        await quarrel(world, nemeses, duration_s, faults, topic=GROUP_TOPIC, flushed=flushed)
        await Nemesis(world, "the last").make_good()
        for crowd in crowds:
            crowd.stopping = True
        await asyncio.gather(*changing)
        await asyncio.gather(*(crowd.settle() for crowd in crowds))
        for crowd in crowds:
            world.trace("crowd", crowd.kind, f"{crowd.ledger.moves} moves, {crowd.ledger.commits} commits")

    return story
