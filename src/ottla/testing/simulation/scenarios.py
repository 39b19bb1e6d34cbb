"""Stories to be told with many seeds: what is set up, what goes wrong, and what must hold all the same.

    outcome = run_scenario("power", seed=7)
    outcome.complaints      empty if all is well

A story is a function of the world; new ones go into SCENARIOS with their checkers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ottla.testing.simulation.checkers import LOSSLESS, Checker, check, duplicate, order, unwritten_read
from ottla.testing.simulation.clients import Admin, Consumer, Producer, replica_records
from ottla.testing.simulation.history import OK, OPEN, PartitionName
from ottla.testing.simulation.loop import SimulationStuck, SimulationTooLong
from ottla.testing.simulation.nemesis import Nemesis, NodeDoesNotStart, quarrel
from ottla.testing.simulation.world import Story, World

TOPIC = "events"
LIMIT_S = 300.0
FINISH_S = 60.0  # after healing everything asked for must be done within this
FLUSHED = {"flush.messages": "1"}
SHORT_SEGMENTS = {"segment.ms": "700"}  # so that recovery meets several


class Scenario(NamedTuple):
    about: str
    story: Story
    checkers: Sequence[Checker]


class Outcome(NamedTuple):
    scenario: str
    seed: int
    complaints: list[str]
    fingerprint: str
    events: int
    acknowledged: int  # records
    read: int
    starts: int  # of nodes
    virtual_s: float
    real_s: float
    trace: list[str]

    @property
    def well(self) -> bool:
        return not self.complaints


class Cast:
    """The clients of a story: producers, consumers, and who reads everything at the end."""

    def __init__(
        self,
        world: World,
        *,
        partitions: int = 2,
        producers: int = 2,
        consumers: int = 1,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        self.world = world
        self.partitions = partitions
        self.admin = Admin(world, "admin")
        self.producers = [Producer(world, f"p{n}", TOPIC, partitions) for n in range(1, producers + 1)]
        self.consumers = [Consumer(world, f"c{n}", TOPIC, partitions) for n in range(1, consumers + 1)]
        self._replication_factor = replication_factor
        self._configs = dict(configs or {})
        self._running: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        world = self.world
        create = self.admin.create_topic(
            TOPIC,
            partitions=self.partitions,
            replication_factor=self._replication_factor,
            configs=self._configs,
        )
        await world.spawn(self.admin.process, create)
        self._running = [world.spawn(producer.process, producer.run()) for producer in self.producers]
        self._running += [world.spawn(consumer.process, consumer.run()) for consumer in self.consumers]

    async def finish(self) -> None:
        """Everything is healed: let the producers finish, read everything, look at the metadata."""
        world, history = self.world, self.world.history
        for producer in self.producers:
            producer.stopping = True
        writing = self._running[: len(self.producers)]
        await asyncio.wait(writing, timeout=FINISH_S)
        self._raise_errors()
        reader = Consumer(world, "reader", TOPIC, self.partitions)
        for index in range(self.partitions):
            name = PartitionName(TOPIC, index)
            operation = history.invoke("reader", "final-read", name)
            reading = world.spawn(reader.process, reader.read_all(index))
            done, _ = await asyncio.wait([reading], timeout=FINISH_S)
            if done:
                history.final[name] = reading.result()
                operation.ok(len(history.final[name]))
            else:
                operation.info("not within its time")
        topics = world.spawn(self.admin.process, self.admin.topics())
        done, _ = await asyncio.wait([topics], timeout=FINISH_S)
        history.final_topics = topics.result() if done else {}
        for index in range(self.partitions):
            name = PartitionName(TOPIC, index)
            held = {node.id: replica_records(node, name) for node in world.nodes_up}
            history.replicas[name] = {node_id: found for node_id, found in held.items() if found is not None}
        for operation in history.operations:
            if operation.outcome == OPEN:
                operation.info("never ended")
        for consumer in self.consumers:
            consumer.stopping = True

    def _raise_errors(self) -> None:
        for task in self._running:
            if task.done() and not task.cancelled():
                task.result()


# -- stories of one node


def one_node(faults: Sequence[str], *, duration_s: float = 6.0) -> Story:
    """A node that flushes before it acknowledges, and a nemesis."""

    async def story(world: World) -> None:
        node = world.add_node(1)
        await node.start()
        cast = Cast(world, configs={**FLUSHED, **SHORT_SEGMENTS})
        await cast.begin()
        await Nemesis(world).run(duration_s, faults)
        await cast.finish()

    return story


def cluster(
    count: int,
    faults: Sequence[str],
    *,
    duration_s: float = 15.0,
    properties: Mapping[str, str] | None = None,
    configs: Mapping[str, str] | None = None,
    nemeses: int = 1,
) -> Story:
    """Nodes that replicate among them, and one nemesis or several."""

    async def story(world: World) -> None:
        nodes = world.add_cluster(count, properties)
        await asyncio.gather(*(node.start() for node in nodes))
        cast = Cast(world, replication_factor=count, configs=configs)
        await cast.begin()
        await quarrel(world, nemeses, duration_s, faults)
        world.heal()
        await Nemesis(world, "the last").make_good()
        await cast.finish()

    return story


async def unflushed(world: World) -> None:
    """Without flushes a power cut may take records along, but only from the end, and never in part.

    Each round has a producer of its own, because the broker may forget the sequence of an old one.
    """
    node = world.add_node(1)
    await node.start()
    history = world.history
    rng = world.rng("unflushed")
    admin = Admin(world, "admin")
    await world.spawn(admin.process, admin.create_topic(TOPIC, configs=SHORT_SEGMENTS))
    await asyncio.sleep(0.1)
    name = PartitionName(TOPIC, 0)
    before: list[tuple[int, str]] = []
    for number in range(4):
        producer = Producer(world, f"p{number}", TOPIC, 1)
        writing = world.spawn(producer.process, producer.run())
        await asyncio.sleep(rng.uniform(0.1, 1.0))
        if rng.random() < 0.5:
            producer.stopping = True
            await writing
            before = _with_acknowledged(world, before, producer.name)
            node.power_cut()
            await asyncio.sleep(0.2)
            await Nemesis(world, f"nemesis{number}").revive(node)
        else:
            # Not cut short: the producer still writes, and what it was told would be gone.
            await node.stop()
            await asyncio.sleep(rng.uniform(0, 0.3))
            await node.start()
            producer.stopping = True
            await writing
            before = _with_acknowledged(world, before, producer.name)
        reader = Consumer(world, f"reader{number}", TOPIC, 1)
        found = await world.spawn(reader.process, reader.read_all(0))
        if found != before[: len(found)]:
            history.surprise(reader.name, f"{name} is no beginning of what was there: {found[-3:]}")
        before = found
    history.final[name] = before


def _with_acknowledged(world: World, before: list[tuple[int, str]], client: str) -> list[tuple[int, str]]:
    """The log as it was told: what a round found, and what its producer was acknowledged."""
    told = dict(before)
    for operation in world.history.of_kind("produce", OK):
        if operation.client == client and operation.result is not None:
            told.update(enumerate(operation.value, operation.result))
    return sorted(told.items())


async def bit_rot(world: World) -> None:
    """Stored bits change while the node is down. Records may be gone then; none may be wrong."""
    node = world.add_node(1)
    await node.start()
    cast = Cast(world, configs={**FLUSHED, **SHORT_SEGMENTS}, producers=1)
    await cast.begin()
    await asyncio.sleep(1.5)
    for producer in cast.producers:
        producer.stopping = True
    await asyncio.sleep(0.5)
    nemesis = Nemesis(world)
    if nemesis.rng.random() < 0.5:
        await node.stop()
    else:
        node.power_cut()
    suffix = nemesis.rng.choice((".log", ".index", ".timeindex", ".snapshot"))
    paths = f"{TOPIC}-{nemesis.rng.randrange(cast.partitions)}"
    flipped = node.disk.flip_bits(suffix, under=paths, count=nemesis.rng.randint(1, 3))
    world.trace("nemesis", node.name, f"flip {flipped}")
    await nemesis.revive(node, cut_short=False)
    reader = Consumer(world, "reader", TOPIC, cast.partitions)
    for index in range(cast.partitions):
        reading = world.spawn(reader.process, reader.read_all(index))
        done, _ = await asyncio.wait([reading], timeout=5.0)
        if done:
            world.history.final[PartitionName(TOPIC, index)] = reading.result()
    world.history.surprises.clear()  # a checksum that fails at the client has done its duty


SCENARIOS: dict[str, Scenario] = {
    "power": Scenario(
        "one node, flush.messages=1: killed, without power, slow disk, stopped",
        one_node(("kill", "power", "power", "stop", "slow-disk", "reset")),
        LOSSLESS,
    ),
    "disk-full": Scenario(
        "one node, flush.messages=1: no room left now and then",
        one_node(("full-disk", "power")),
        LOSSLESS,
    ),
    "network": Scenario(
        "one node: cut off both ways and one way, slow links, resets, pauses, clocks that jump",
        one_node(("cut", "cut", "reset", "slow-net", "pause", "skew")),
        LOSSLESS,
    ),
    "unflushed": Scenario(
        "one node without flushes: what a power cut leaves is a beginning of the log",
        unflushed,
        (unwritten_read, duplicate, order, lambda history: history.surprises),
    ),
    "bit-rot": Scenario(
        "one node: stored bits change while it is down",
        bit_rot,
        (unwritten_read, duplicate),
    ),
}


def run_scenario(
    name: str, seed: int, *, keep_trace: bool = False, show: Callable[[str], None] | None = None
) -> Outcome:
    """One seed of one story, judged."""
    scenario = SCENARIOS[name]
    began_s = time.monotonic()
    world = World(seed, keep_trace=keep_trace, show=show)
    complaints = []
    try:
        world.run(scenario.story, limit_s=LIMIT_S)
    except (SimulationStuck, SimulationTooLong, NodeDoesNotStart) as error:
        complaints.append(f"{type(error).__name__}: {error}")
    except Exception as error:
        complaints.append(f"story failed: {error!r}")
    else:
        complaints += check(world.history, scenario.checkers)
    complaints += [f"nobody caught: {error}" for error in world.loop.errors[:3]]
    history = world.history
    return Outcome(
        scenario=name,
        seed=seed,
        complaints=complaints,
        fingerprint=world.trace.fingerprint,
        events=world.trace.count,
        acknowledged=sum(len(operation.value) for operation in history.of_kind("produce", OK)),
        read=len(history.reads) + sum(map(len, history.final.values())),
        starts=sum(node.starts for node in world.nodes.values()),
        virtual_s=world.loop.now_ns / 1_000_000_000,
        real_s=time.monotonic() - began_s,
        trace=world.trace.lines,
    )
