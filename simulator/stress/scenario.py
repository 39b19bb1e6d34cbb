"""The script of the stories under stress: a cluster, clients, faults, and a look at the cluster at rest."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence

from ottla.quorum.format import Formatter
from ottla.quorum.raft.voters import Endpoint, Voter, VoterSet
from simulator.clients.admins import ConfigChanger
from simulator.clients.consumers import Consumer
from simulator.scenarios.cluster import REPLICAS
from simulator.scenarios.final_state import FINISH_S
from simulator.scenarios.workload import FLUSHED, SHORT_SEGMENTS, TOPIC, Workload
from simulator.stress.checkers import HANDLES_MAX, WAITERS_MAX
from simulator.stress.clients import RecordDeleter, VoterChanger
from simulator.stress.faults import StressInjector
from simulator.stress.watch import HealthWatcher, TaskCensus, waiter_counts
from simulator.world import CLIENT_PORT, CONTROLLER_PORT, EPOCH_MS, Node, Script, World

Changer = ConfigChanger | RecordDeleter | VoterChanger
Properties = Callable[[random.Random], Mapping[str, str]]

QUIET_S = 1.0  # before the faults: for what begins late
REST_S = 4.0  # after them: for what times out
PAUSE_S = (0.0, 0.25)
INTERNAL_PORT = 9094


def health_properties(rng: random.Random) -> Mapping[str, str]:
    """Kafka's defaults for sessions and the quorum; a lagging follower is removed sooner."""
    return {"replica.lag.time.max.ms": str(rng.choice((1_500, 3_000)))}


def stressed(
    faults: Sequence[str],
    *,
    brokers: int = 3,
    controllers: int = 0,
    directories: int = 1,
    gates: bool = False,
    dynamic_voters: int = 0,
    duration_s: float = 10.0,
    partitions: int = 2,
    producers: int = 1,
    flushed: bool = False,
    min_isr: int = 1,
    configs: Mapping[str, str] | None = None,
    properties: Properties = health_properties,
    consumer_class: type[Consumer] = Consumer,
    changers: Callable[[World], Sequence[Changer]] = lambda world: (),
    record_bytes: int = 40,
    pause_s: tuple[float, float] = PAUSE_S,
) -> Script:
    """`gates`: clients use listeners that nodes cannot reach. `dynamic_voters`: how many nodes begin as
    voters of a dynamic quorum; the others may be added."""

    async def script(world: World) -> None:
        given = dict(properties(world.rng("properties")))
        nodes = world.add_cluster(brokers, given, controllers=controllers, directories=directories)
        if gates:
            add_gates(world)
        if dynamic_voters:
            format_dynamic(world, nodes, dynamic_voters)
        await world.start_all(nodes)
        await asyncio.sleep(QUIET_S)
        census = TaskCensus(world)
        await census.take()
        workload = Workload(
            world,
            partitions=partitions,
            producers=producers,
            replication_factor=min(brokers, REPLICAS),
            pause_s=pause_s,
            consumer_class=consumer_class,
            record_bytes=record_bytes,
            configs={
                "min.insync.replicas": str(min_isr),
                **SHORT_SEGMENTS,
                **(FLUSHED if flushed else {}),
                **(configs or {}),
            },
        )
        await workload.begin()
        watcher = HealthWatcher(world, topics=(TOPIC,))
        watching = world.spawn(world.process, watcher.run())
        changing = [(each, world.spawn(each.process, each.run())) for each in changers(world)]
        await asyncio.sleep(0.2)
        setter = ConfigChanger(world, "setter", TOPIC)
        injector = StressInjector(world, topic=TOPIC, flushed=flushed, set_config=_set_by(world, setter))
        await injector.run(duration_s, faults)
        await injector.heal_all()
        await _end_changes(changing)
        await workload.finish()
        watcher.stopping = True
        await watching
        await look_at_rest(world, census)

    return script


def _set_by(world: World, setter: ConfigChanger) -> Callable[[str, str], asyncio.Task[None]]:
    """Run the requests in the process of the client."""
    return lambda key, value: world.spawn(setter.process, setter.set(key, value))


async def _end_changes(changing: Sequence[tuple[Changer, asyncio.Task[None]]]) -> None:
    for changer, _ in changing:
        changer.stopping = True
    if changing:
        await asyncio.wait([task for _, task in changing], timeout=FINISH_S)
    for _, task in changing:
        if task.done():
            task.result()


async def look_at_rest(world: World, census: TaskCensus) -> None:
    """Record what is left of the requests when nothing is asked any more."""
    await asyncio.sleep(REST_S)
    health = world.history.health
    health.missing_tasks += await census.missing()
    for node in world.nodes_up:
        counts = waiter_counts(node.broker)
        health.waiting += [
            f"{node.name} has {count} in {name}" for name, count in counts.items() if count > WAITERS_MAX
        ]
        if (count := node.disk.files.open_handles()) > HANDLES_MAX:
            health.open_handles.append(f"{node.name} has {count}")


# -- clusters


def add_gates(world: World) -> None:
    """Advertise a first listener that only machines outside of the cluster reach."""
    names = [node.name for node in world.nodes.values()]
    for node in world.nodes.values():
        if not node.is_broker:
            continue
        gate = f"gate{node.id}"
        world.network.add_gate(gate, node.name, refuses=names)
        internal = f"INTERNAL://{node.name}:{INTERNAL_PORT}"
        controller = f",CONTROLLER://{node.name}:{CONTROLLER_PORT}" if node.is_controller else ""
        node.properties |= {
            "listeners": f"EXTERNAL://{node.name}:{CLIENT_PORT},{internal}{controller}",
            "advertised.listeners": f"EXTERNAL://{gate}:{CLIENT_PORT},{internal}",
            "inter.broker.listener.name": "INTERNAL",
            "listener.security.protocol.map": ("EXTERNAL:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"),
        }


def format_dynamic(world: World, nodes: Sequence[Node], count: int) -> None:
    """Format the first `count` nodes as the initial voters, the others as observers that may be added."""
    rng = world.rng("format")
    servers = ",".join(f"{node.name}:{CONTROLLER_PORT}" for node in nodes)
    voters = VoterSet(
        Voter(node.id, rng.randbytes(16), (Endpoint("CONTROLLER", node.name, CONTROLLER_PORT),))
        for node in nodes[:count]
    )
    for number, node in enumerate(nodes):
        del node.properties["controller.quorum.voters"]
        node.properties["controller.quorum.bootstrap.servers"] = servers
        directories = node.properties["log.dirs"].split(",")
        formatter = Formatter(
            node.disk.files,
            directories,
            directories[0],
            node_id=node.id,
            cluster_id=world.cluster_id,
            new_uuid=lambda: rng.randbytes(16),
        )
        if number < count:
            formatter.with_voters(voters, EPOCH_MS)
        else:
            formatter.without_voters()
        node.disk.files.sync_filesystem("/data")
