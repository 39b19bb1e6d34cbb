"""Scenarios of a single node."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from simulator.clients.admins import Admin
from simulator.clients.consumers import Consumer
from simulator.clients.producers import Producer, ResendingProducer
from simulator.faults import FaultInjector
from simulator.history.operations import OK, PRODUCE, PartitionName
from simulator.scenarios.workload import FLUSHED, SHORT_SEGMENTS, TOPIC, Workload
from simulator.world import Script, World

RESENT_ROUNDS = 12
RESENT_SYNC_MS = (300.0, 600.0)


def one_node(faults: Sequence[str], *, duration_s: float = 6.0) -> Script:
    """A node that flushes before it acknowledges, and a fault injector."""

    async def script(world: World) -> None:
        node = world.add_node(1)
        await node.start()
        workload = Workload(world, configs={**FLUSHED, **SHORT_SEGMENTS})
        await workload.begin()
        injector = FaultInjector(world, topic=TOPIC)
        await injector.run(duration_s, faults)
        await injector.heal_all()
        await workload.finish()

    return script


async def unflushed(world: World) -> None:
    """Without flushes a power cut may lose records, but only a suffix of the log, and no partial record.

    Each round has a new producer, because the broker may lose the sequence of an old one.
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
            await FaultInjector(world, f"nemesis{number}").bring_up(node)
        else:
            # Without interruption: the producer still writes, and its acknowledged records would be lost.
            await node.stop()
            await asyncio.sleep(rng.uniform(0, 0.3))
            await node.start()
            producer.stopping = True
            await writing
            before = _with_acknowledged(world, before, producer.name)
        reader = Consumer(world, f"reader{number}", TOPIC, 1)
        found = await world.spawn(reader.process, reader.read_all(0))
        if found != before[: len(found)]:
            history.surprise(reader.name, f"{name} is not a prefix of the previous log: {found[-3:]}")
        before = found
    history.final[name] = before


def _with_acknowledged(world: World, before: list[tuple[int, str]], client: str) -> list[tuple[int, str]]:
    """Return the log of a round plus the records acknowledged after it."""
    reported = dict(before)
    for operation in world.history.of_kind(PRODUCE, OK):
        if operation.client == client and operation.result is not None:
            reported.update(enumerate(operation.value, operation.result))
    return sorted(reported.items())


async def resent(world: World) -> None:
    """The power fails when new batches are acknowledged whose write ended with a resent old batch.

    The disk is so slow that they are lost if the broker acknowledges them before it has flushed them.
    """
    node = world.add_node(1)
    await node.start()
    injector = FaultInjector(world)
    workload = Workload(world, configs=FLUSHED, partitions=1, producers=0)
    await workload.begin()
    for number in range(RESENT_ROUNDS):
        producer = ResendingProducer(world, f"p{number}", TOPIC, 1)
        await world.spawn(producer.process, producer.write_round(0, lambda: node.disk.slow(RESENT_SYNC_MS)))
        node.power_cut()
        node.disk.heal()
        await injector.bring_up(node, may_interrupt=False, required=True)
    await workload.finish()


async def bit_rot(world: World) -> None:
    """Flip stored bits while the node is down. Records may be lost; none may be wrong."""
    node = world.add_node(1)
    await node.start()
    workload = Workload(world, configs={**FLUSHED, **SHORT_SEGMENTS}, producers=1)
    await workload.begin()
    await asyncio.sleep(1.5)
    for producer in workload.producers:
        producer.stopping = True
    await asyncio.sleep(0.5)
    injector = FaultInjector(world)
    if injector.rng.random() < 0.5:
        await node.stop()
    else:
        node.power_cut()
    suffix = injector.rng.choice((".log", ".index", ".timeindex", ".snapshot"))
    paths = f"{TOPIC}-{injector.rng.randrange(workload.partitions)}"
    flipped = node.disk.flip_bits(suffix, under=paths, count=injector.rng.randint(1, 3))
    world.trace("nemesis", node.name, f"flip {flipped}")
    await injector.bring_up(node, may_interrupt=False, required=True)
    reader = Consumer(world, "reader", TOPIC, workload.partitions)
    for index in range(workload.partitions):
        reading = world.spawn(reader.process, reader.read_all(index))
        done, _ = await asyncio.wait([reading], timeout=5.0)
        if done:
            world.history.final[PartitionName(TOPIC, index)] = reading.result()
    world.history.surprises.clear()  # expected: the client detects a wrong checksum
