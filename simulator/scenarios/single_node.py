"""Stories of one node: what is set up and what goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from simulator.clients.admins import Admin
from simulator.clients.consumers import Consumer
from simulator.clients.producers import Producer
from simulator.faults import Nemesis
from simulator.history import OK, PRODUCE, PartitionName
from simulator.scenarios.workload import FLUSHED, SHORT_SEGMENTS, TOPIC, Cast
from simulator.world import Story, World


def one_node(faults: Sequence[str], *, duration_s: float = 6.0) -> Story:
    """A node that flushes before it acknowledges, and a nemesis."""

    async def story(world: World) -> None:
        node = world.add_node(1)
        await node.start()
        cast = Cast(world, configs={**FLUSHED, **SHORT_SEGMENTS})
        await cast.begin()
        nemesis = Nemesis(world, topic=TOPIC)
        await nemesis.run(duration_s, faults)
        await nemesis.make_good()
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
    for operation in world.history.of_kind(PRODUCE, OK):
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
    await nemesis.revive(node, cut_short=False, must=True)
    reader = Consumer(world, "reader", TOPIC, cast.partitions)
    for index in range(cast.partitions):
        reading = world.spawn(reader.process, reader.read_all(index))
        done, _ = await asyncio.wait([reading], timeout=5.0)
        if done:
            world.history.final[PartitionName(TOPIC, index)] = reading.result()
    world.history.surprises.clear()  # a checksum that fails at the client has done its duty
