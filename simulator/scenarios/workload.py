"""The clients of a story: who writes, who reads, who meddles, and who looks at everything in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from simulator.clients.admins import MEDDLED_CONFIGS, Admin, Meddler
from simulator.clients.consumers import Consumer, RovingConsumer
from simulator.clients.producers import LooseProducer, Producer
from simulator.inspection import Watcher, replica_records
from simulator.scenarios.final_state import (
    FINISH_S,
    end_open_operations,
    in_sync,
    in_time,
    look_at_everything,
)
from simulator.world import World

TOPIC = "events"
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
        world = self.world
        await self._check_up()
        for producer in self.producers:
            producer.stopping = True
        for each in self.others:
            each.stopping = isinstance(each, LooseProducer | Meddler)
        ending = [task for task, each in zip(self._running, self.others, strict=True) if each.stopping]
        if self._writing or ending:
            await asyncio.wait((*self._writing, *ending), timeout=FINISH_S)
        self._raise_errors()
        await in_sync(world, TOPIC)
        reader = Consumer(world, "reader", TOPIC, self.partitions)
        await look_at_everything(world, reader, self.admin, replica_records)
        for each in self.others:
            each.stopping = True
        end_open_operations(world)

    async def _check_up(self) -> None:
        """The healed cluster can be changed and written to, in every partition, by somebody new."""
        world = self.world
        create = self.admin.create_topic("afterwards", replication_factor=self._replication_factor)
        newcomer = Producer(world, "newcomer", TOPIC, self.partitions)
        writing = world.spawn(newcomer.process, newcomer.run())
        await in_time(world.spawn(self.admin.process, create))
        await asyncio.sleep(0.3)
        newcomer.stopping = True
        await in_time(writing)

    def _raise_errors(self) -> None:
        for task in (*self._writing, *self._running):
            if task.done() and not task.cancelled():
                task.result()
