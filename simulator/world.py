"""The world of a seed: nodes, clients, network, disks and clocks.

    world = World(seed=7)
    node = world.add_node(1)                         runs the shipped broker, not started yet
    async def script(world): await node.start(); ...
    world.run(script, limit_s=120)

Each part of the world has its own random generator, derived from the seed and a name: a part that draws more
numbers does not change the draws of another. A changed name changes the schedules of all seeds.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import logging
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from simulator.history.history import History
from simulator.runtime.disk import SimulatedDisk
from simulator.runtime.loop import PROCESS, Process, SimulatedLoop
from simulator.runtime.network import Network
from simulator.runtime.trace import Trace

if TYPE_CHECKING:
    from ottla.broker.node import Node as Broker

EPOCH_MS = 1_767_225_600_000  # start of every world: 2026-01-01
CLIENT_PORT = 9092
CONTROLLER_PORT = 9093
FIRST_CONTROLLER = 101  # id of the first controller-only node

Script = Callable[["World"], Coroutine[Any, Any, Any]]


class NodeEnded(Exception):
    """The node went down while a caller waited for it."""


class Node:
    """One machine. `process` and `broker` are the current ones, None while it is down."""

    def __init__(self, world: World, node_id: int, properties: Mapping[str, str]) -> None:
        self.world = world
        self.id = node_id
        self.name = f"node{node_id}"
        self.properties = dict(properties)
        self.clock_skew_ms = 0
        self.disk = SimulatedDisk(world.rng(f"disk{node_id}"), self.clock_ms, lambda: world.loop.now_ns)
        self.process: Process | None = None
        self.broker: Broker | None = None
        self.starts = 0
        self.serving = False  # started, and not stopping
        roles = self.properties.get("process.roles", "broker,controller").split(",")
        self.is_broker = "broker" in roles
        self.is_controller = "controller" in roles
        self.starting: asyncio.Task[None] | None = None
        self._waiting: dict[asyncio.Future[None], None] = {}

    def __repr__(self) -> str:
        return f"Node({self.id}, {'up' if self.up else 'down'})"

    @property
    def up(self) -> bool:
        return self.process is not None

    @property
    def host_port(self) -> tuple[str, int]:
        return self.name, CLIENT_PORT

    def clock_ms(self) -> int:
        return self.world.now_ms + self.clock_skew_ms

    async def start(self) -> None:
        """Start the broker and wait until it serves. Raises its start error, or NodeEnded if it is killed."""
        assert not self.up, f"{self} is up"
        world = self.world
        self.starts += 1
        world.trace("node", self.name, f"start {self.starts}")
        process = self.process = world.loop.new_process(self.name)
        process.job_delay_ns = self.disk.job_delay_ns
        self.disk.process_started(process)
        world.network.host_up(self.name)
        main = world.loop.create_task(self._main(process), context=process.context.copy())
        try:
            await self._wait_for(main)
        except Exception:
            if self.process is process:
                self.kill()  # a failed start ends the process
            raise
        self.serving = True
        world.trace("node", self.name, "serves")

    def start_soon(self) -> asyncio.Task[None]:
        """Start the node in a task that ends when it serves, which may need other nodes, such as a quorum."""
        self.starting = self.world.spawn(self.world.process, self.start())
        # Retrieve the exception: the caller may not wait for the task any more.
        self.starting.add_done_callback(lambda task: None if task.cancelled() else task.exception() and None)
        return self.starting

    async def stop(self) -> None:
        """Stop cleanly, as after SIGTERM."""
        process, broker = self.process, self.broker
        assert process is not None and broker is not None, f"{self} does not run"
        self.serving = False
        self.world.trace("node", self.name, "stop")
        stopping = self.world.loop.create_task(broker.stop(), context=process.context.copy())
        await self._wait_for(stopping)
        if self.process is process:
            self._end(silent=False)
            self.disk.process_ended()

    def kill(self) -> None:
        """SIGKILL: the process ends; the machine and all written data stay."""
        if self.up:
            self.world.trace("node", self.name, "kill")
            self._end(silent=False)
            self.disk.process_ended()

    def power_cut(self, *, silent: bool = True, flip_chance: float = 0.0) -> None:
        """Cut the power: unsynced data is lost. `silent`: peers receive no reset."""
        self.world.trace("node", self.name, f"power cut{' silent' if silent else ''}")
        if self.up:
            self._end(silent=silent)
        self.disk.power_cut(flip_chance=flip_chance)

    def pause(self) -> None:
        """SIGSTOP: nothing runs, connections stay open, timers become due."""
        if self.process is not None:
            self.world.trace("node", self.name, "pause")
            self.process.paused = True

    def resume(self) -> None:
        if self.process is not None:
            self.world.trace("node", self.name, "resume")
            self.process.paused = False

    def recover(self) -> None:
        """End what slows the process down; a stall ends by itself."""
        if self.process is not None:
            self.process.callback_ns = 0
            self.process.out_of_descriptors = False

    @property
    def data_directories(self) -> list[str]:
        """The log directories without the metadata log, or the only one."""
        return self.properties["log.dirs"].split(",")[1:] or [self.properties["log.dirs"]]

    async def _main(self, process: Process) -> None:
        from ottla.broker.node import Node as Broker
        from ottla.config.load import load_broker_config

        broker = self.broker = Broker(
            load_broker_config(None, self.properties),
            files=self.disk.files,
            clock=self.clock_ms,
            rng=self.world.rng(f"{self.name}.{self.starts}"),
            on_fatal=lambda error: self._fatal(process, error),
        )
        await broker.start()

    async def _wait_for(self, task: asyncio.Task[None]) -> None:
        """Wait in our process for a task of the node's process, which may never end."""
        waiting: asyncio.Future[None] = self.world.loop.create_future()
        self._waiting[waiting] = None

        def done(task: asyncio.Task[None]) -> None:
            if waiting.done():
                return
            if task.cancelled():
                waiting.set_exception(NodeEnded(f"{self.name}: cancelled"))
            elif (error := task.exception()) is not None:
                waiting.set_exception(error)
            else:
                waiting.set_result(None)

        task.add_done_callback(done, context=copy_context())
        try:
            await waiting
        finally:
            self._waiting.pop(waiting, None)

    def _fatal(self, process: Process, error: BaseException) -> None:
        """End the process on behalf of the broker."""
        self.world.trace("node", self.name, f"fatal: {error}")
        self.world.history.health.deaths.append(f"{self.name}: {error}")
        process.paused = True

        def end() -> None:
            if self.process is process:
                self.kill()

        self.world.loop.call_soon(end, context=self.world.process.context.copy())

    def _end(self, *, silent: bool) -> None:
        process, self.process, self.broker = self.process, None, None
        self.serving = False
        assert process is not None
        self.world.network.process_ended(process, silent=silent)
        self.world.loop.end_process(process)
        for waiting in list(self._waiting):
            if not waiting.done():
                waiting.set_exception(NodeEnded(f"{self.name} went down"))


class World:
    """`length`: factor for the duration of fault injection."""

    def __init__(
        self,
        seed: int,
        *,
        length: float = 1.0,
        keep_trace: bool = False,
        show: Callable[[str], None] | None = None,
    ) -> None:
        self.seed = seed
        self.length = length
        self.trace = Trace(keep=keep_trace, show=show)
        self.loop = SimulatedLoop(self.rng("schedule"), self.trace)  # type: ignore[abstract]
        self.network = Network(self.loop, self.rng("network"), self.trace)
        self.history = History(self.trace)
        self.nodes: dict[int, Node] = {}
        self.recovering: Node | None = None  # lost records that only other nodes have, see FaultInjector
        self.process = self.loop.new_process("world")
        self.network.add_host("world")

    def rng(self, name: str) -> random.Random:
        """Return the random generator of one part of the world."""
        return random.Random(f"{self.seed}/{name}")

    @property
    def now_ms(self) -> int:
        """The true time, without clock skew."""
        return EPOCH_MS + self.loop.now_ns // 1_000_000

    # -- nodes and clients

    def add_node(self, node_id: int, properties: Mapping[str, str] | None = None) -> Node:
        """Add a machine that serves clients on port 9092 of the host `node<id>`."""
        name = f"node{node_id}"
        given = {
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://{name}:{CLIENT_PORT}",
            "log.dirs": f"/data/{name}",
            **(properties or {}),
        }
        node = self.nodes[node_id] = Node(self, node_id, given)
        self.network.add_host(name)
        return node

    def add_cluster(
        self,
        brokers: int,
        properties: Mapping[str, str] | None = None,
        *,
        controllers: int = 0,
        directories: int = 1,
    ) -> list[Node]:
        """Add nodes 1 to `brokers`, all with both roles and voters of one quorum.

        With `controllers`, roles are separate: the voters are that number of nodes, with ids from 101 on.
        With several `directories`, the first of each node has the metadata log.
        """
        voter_ids = range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers) if controllers else None
        broker_ids = range(1, brokers + 1)
        voters = ",".join(f"{i}@node{i}:{CONTROLLER_PORT}" for i in voter_ids or broker_ids)
        common = {
            "cluster.id": self.cluster_id,
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            **(properties or {}),
        }
        nodes = []
        for node_id in (*(voter_ids or ()), *broker_ids):
            client = f"PLAINTEXT://node{node_id}:{CLIENT_PORT}"
            controller = f"CONTROLLER://node{node_id}:{CONTROLLER_PORT}"
            if voter_ids is None:
                own = {"process.roles": "broker,controller", "listeners": f"{client},{controller}"}
            elif node_id in voter_ids:
                own = {"process.roles": "controller", "listeners": controller}
            else:
                own = {"process.roles": "broker", "listeners": client}
            if directories > 1:
                paths = [f"/data/node{node_id}/{number}" for number in range(directories)]
                own |= {"log.dirs": ",".join(paths), "metadata.log.dir": paths[0]}
            nodes.append(self.add_node(node_id, {**common, **own}))
        return nodes

    @property
    def cluster_id(self) -> str:
        """Cluster id of this seed, which new directories adopt."""
        return base64.urlsafe_b64encode(self.rng("cluster id").randbytes(16)).decode()[:22]

    async def start_all(self, nodes: Iterable[Node]) -> None:
        """Start nodes that need each other, and wait until all of them serve."""
        await asyncio.gather(*(node.start_soon() for node in nodes))

    def add_client(self, name: str) -> Process:
        """Add a host with one process for a client."""
        self.network.add_host(name)
        return self.loop.new_process(name)

    def spawn(self, process: Process, main: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine in a process."""
        return self.loop.create_task(main, context=process.context.copy())

    @property
    def nodes_up(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.up]

    @property
    def brokers(self) -> list[Node]:
        """The nodes with the broker role, up or down."""
        return [node for node in self.nodes.values() if node.is_broker]

    def heal(self) -> None:
        """Heal network and disks, and resume paused processes; nodes that are down stay down."""
        self.network.heal()
        for node in self.nodes.values():
            node.disk.heal()
            node.resume()
            node.recover()

    # -- running

    def run(self, script: Script, *, limit_s: float = 600.0) -> Any:
        """Run the script to its end; afterwards the world cannot be used."""
        collecting = gc.isenabled()
        gc.disable()  # its timing depends on the rest of the interpreter
        with _LogLines(self.trace):
            try:
                return self.loop.run_in(self.process, script(self), limit_s=limit_s)
            finally:
                self.loop.close()
                if collecting:
                    gc.enable()
                gc.collect()


class _LogLines(logging.Handler):
    """Redirects the log of brokers to the trace while a world runs."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(logging.INFO)
        self._trace = trace
        self._logger = logging.getLogger("ottla")

    def emit(self, record: logging.LogRecord) -> None:
        process = PROCESS.get()
        text = f"{record.levelname} {record.name} {record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            text += f" {record.exc_info[1]!r}"
        self._trace("log", process.name if process else "-", text)

    def __enter__(self) -> None:
        logger = self._logger
        self._before = (list(logger.handlers), logger.level, logger.propagate)
        logger.handlers[:] = [self]
        logger.setLevel(logging.INFO)
        logger.propagate = False

    def __exit__(self, *exc_info: object) -> None:
        logger = self._logger
        logger.handlers[:], level, logger.propagate = self._before
        logger.setLevel(level)
