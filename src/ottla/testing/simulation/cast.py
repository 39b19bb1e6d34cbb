"""The clients of a story: who writes, who reads, who meddles, and who looks at everything in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ottla.testing.simulation.admins import MEDDLED_CONFIGS, Admin, Meddler, facts
from ottla.testing.simulation.consumers import Consumer, RovingConsumer
from ottla.testing.simulation.history import OPEN, PartitionName
from ottla.testing.simulation.observe import (
    Watcher,
    all_in_sync,
    all_know_the_same,
    committed_batches,
    replica_records,
    unclean_elections,
)
from ottla.testing.simulation.producers import LooseProducer, Producer
from ottla.testing.simulation.world import World

TOPIC = "events"
FINISH_S = 60.0  # after healing everything asked for must be done within this
FLUSHED = {"flush.messages": "1"}
SHORT_SEGMENTS = {"segment.ms": "700"}  # so that recovery meets several


class Cast:
    def __init__(
        self,
        world: World,
        *,
        partitions: int = 2,
        producers: int = 2,
        consumers: int = 1,
        loose_producers: int = 0,
        roving_consumers: int = 0,
        meddlers: int = 0,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
        pause_s: tuple[float, float] = (0.0, 0.05),
    ) -> None:
        self.world = world
        self.partitions = partitions
        self.admin = Admin(world, "admin")
        self.producers = [
            Producer(world, f"p{n}", TOPIC, partitions, pause_s=pause_s) for n in range(1, producers + 1)
        ]
        self.others: list[LooseProducer | Consumer | Meddler | Watcher] = [Watcher(world)]
        for n in range(1, loose_producers + 1):
            self.others.append(LooseProducer(world, f"l{n}", TOPIC, partitions, pause_s=pause_s))
        for n in range(1, consumers + 1):
            self.others.append(Consumer(world, f"c{n}", TOPIC, partitions))
        for n in range(1, roving_consumers + 1):
            self.others.append(RovingConsumer(world, f"r{n}", TOPIC, partitions))
        for n in range(1, meddlers + 1):
            own = range(n - 1, partitions, meddlers)
            config = MEDDLED_CONFIGS[n - 1]
            self.others.append(
                Meddler(world, f"m{n}", TOPIC, own, config, replication_factor=replication_factor)
            )
        self._replication_factor = replication_factor
        self._configs = dict(configs or {})
        self._writing: list[asyncio.Task[None]] = []
        self._running: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Create the topic and let everybody loose."""
        world = self.world
        create = self.admin.create_topic(
            TOPIC,
            partitions=self.partitions,
            replication_factor=self._replication_factor,
            configs=self._configs,
        )
        await world.spawn(self.admin.process, create)
        self._writing = [world.spawn(producer.process, producer.run()) for producer in self.producers]
        for each in self.others:
            process = world.process if isinstance(each, Watcher) else each.process
            self._running.append(world.spawn(process, each.run()))

    async def finish(self) -> None:
        """All is healed: let the writers end, see whether the cluster is whole, and read everything."""
        world, history = self.world, self.world.history
        await self._check_up()
        for producer in self.producers:
            producer.stopping = True
        for each in self.others:
            each.stopping = isinstance(each, LooseProducer | Meddler)
        ending = [task for task, each in zip(self._running, self.others, strict=True) if each.stopping]
        if self._writing or ending:
            await asyncio.wait((*self._writing, *ending), timeout=FINISH_S)
        self._raise_errors()
        await self._in_sync()
        reader = Consumer(world, "reader", TOPIC, self.partitions)
        for name in self.names:
            operation = history.invoke("reader", "final-read", name)
            found = await self._in_time(world.spawn(reader.process, reader.read_all(name.partition)))
            if found is not None:
                history.final[name] = found
                operation.ok(len(found))
            else:
                operation.info("not within its time")
        found = await self._in_time(world.spawn(self.admin.process, facts(self.admin, TOPIC)))
        history.final_facts = found or {}
        self._look_inside()
        for each in self.others:
            each.stopping = True
        for operation in history.operations:
            if operation.outcome == OPEN:
                operation.info("never ended")

    @property
    def names(self) -> list[PartitionName]:
        return [PartitionName(TOPIC, index) for index in range(self.partitions)]

    async def _check_up(self) -> None:
        """The healed cluster can be changed and written to, in every partition, by somebody new."""
        world = self.world
        create = self.admin.create_topic("afterwards", replication_factor=self._replication_factor)
        newcomer = Producer(world, "newcomer", TOPIC, self.partitions)
        writing = world.spawn(newcomer.process, newcomer.run())
        await self._in_time(world.spawn(self.admin.process, create))
        await asyncio.sleep(0.3)
        newcomer.stopping = True
        await self._in_time(writing)

    async def _in_sync(self) -> None:
        """Every replica comes back into the ISR, and every node knows of it."""
        operation = self.world.history.invoke("admin", "in-sync", TOPIC)
        until_s = self.world.loop.time() + FINISH_S
        while self.world.loop.time() < until_s:
            if all_in_sync(self.world) and all_know_the_same(self.world):
                operation.ok()
                return
            await asyncio.sleep(0.1)
        operation.fail("not within its time")

    async def _in_time(self, task: asyncio.Task[Any]) -> Any:
        done, _ = await asyncio.wait([task], timeout=FINISH_S)
        return task.result() if done else None

    def _look_inside(self) -> None:
        """What the nodes hold, whether clients can see it or not."""
        world, history = self.world, self.world.history
        for name in self.names:
            held = {node.id: replica_records(node, name) for node in world.nodes_up}
            history.replicas[name] = {node_id: found for node_id, found in held.items() if found is not None}
        for node in world.nodes_up:
            history.final_metadata[node.id] = committed_batches(node)
            history.unclean_elections += unclean_elections(node)

    def _raise_errors(self) -> None:
        for task in (*self._writing, *self._running):
            if task.done() and not task.cancelled():
                task.result()
