"""The clients of a scenario: producers, consumers, topic changers, and the final reader."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from simulator.clients.admins import CHANGED_CONFIGS, Admin, TopicChanger
from simulator.clients.consumers import AnyReplicaConsumer, Consumer
from simulator.clients.producers import Producer, UnreliableProducer
from simulator.inspection import Watcher, replica_records
from simulator.scenarios.final_state import (
    FINISH_S,
    end_open_operations,
    in_sync,
    in_time,
    read_final_state,
)
from simulator.world import World

TOPIC = "events"
FLUSHED = {"flush.messages": "1"}
SHORT_SEGMENTS = {"segment.ms": "700"}  # so that recovery has several segments


class Workload:
    def __init__(
        self,
        world: World,
        *,
        partitions: int = 2,
        producers: int = 2,
        consumers: int = 1,
        unreliable_producers: int = 0,
        any_replica_consumers: int = 0,
        changers: int = 0,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
        pause_s: tuple[float, float] = (0.0, 0.05),
        consumer_class: type[Consumer] = Consumer,
        records_max: int = 4,
        record_bytes: int = 40,
    ) -> None:
        self.world = world
        self.partitions = partitions
        self.admin = Admin(world, "admin")
        self.producers = [
            Producer(
                world,
                f"p{n}",
                TOPIC,
                partitions,
                pause_s=pause_s,
                records_max=records_max,
                record_bytes=record_bytes,
            )
            for n in range(1, producers + 1)
        ]
        self.others: list[UnreliableProducer | Consumer | TopicChanger | Watcher] = [Watcher(world)]
        for n in range(1, unreliable_producers + 1):
            self.others.append(UnreliableProducer(world, f"l{n}", TOPIC, partitions, pause_s=pause_s))
        for n in range(1, consumers + 1):
            self.others.append(consumer_class(world, f"c{n}", TOPIC, partitions))
        for n in range(1, any_replica_consumers + 1):
            self.others.append(AnyReplicaConsumer(world, f"r{n}", TOPIC, partitions))
        for n in range(1, changers + 1):
            own = range(n - 1, partitions, changers)
            config = CHANGED_CONFIGS[n - 1]
            self.others.append(
                TopicChanger(world, f"m{n}", TOPIC, own, config, replication_factor=replication_factor)
            )
        self._consumer_class = consumer_class
        self._replication_factor = replication_factor
        self._configs = dict(configs or {})
        self._writing: list[asyncio.Task[None]] = []
        self._running: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Create the topic and start all clients."""
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
        """After healing: stop the producers, check that the cluster works, and read everything."""
        world = self.world
        await self._check_cluster_works()
        for producer in self.producers:
            producer.stopping = True
        for each in self.others:
            each.stopping = isinstance(each, UnreliableProducer | TopicChanger)
        ending = [task for task, each in zip(self._running, self.others, strict=True) if each.stopping]
        if self._writing or ending:
            await asyncio.wait((*self._writing, *ending), timeout=FINISH_S)
        self._raise_errors()
        await in_sync(world, TOPIC)
        reader = self._consumer_class(world, "reader", TOPIC, self.partitions)
        await read_final_state(world, reader, self.admin, replica_records)
        for each in self.others:
            each.stopping = True
        end_open_operations(world)

    async def _check_cluster_works(self) -> None:
        """Create a topic and write to every partition with a new producer."""
        world = self.world
        create = self.admin.create_topic("afterwards", replication_factor=self._replication_factor)
        new_producer = Producer(world, "newcomer", TOPIC, self.partitions)
        writing = world.spawn(new_producer.process, new_producer.run())
        await in_time(world.spawn(self.admin.process, create))
        await asyncio.sleep(0.3)
        new_producer.stopping = True
        await in_time(writing)

    def _raise_errors(self) -> None:
        for task in (*self._writing, *self._running):
            if task.done() and not task.cancelled():
                task.result()
