"""A seed's world: nodes, clients, and the network, disks and clocks between and below them.

    world = World(seed=7)
    node = world.add_node(1)                         the shipped Broker, not started yet
    async def story(world): await node.start(); ...
    world.run(story, limit_s=120)

Everything that is drawn comes from generators made of the seed and a name, so that one part of the world that
draws more does not change what another part draws.
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

from simulator.history import History
from simulator.runtime.disk import SimulatedDisk
from simulator.runtime.loop import PROCESS, Process, SimulatedLoop
from simulator.runtime.network import Network
from simulator.runtime.trace import Trace

if TYPE_CHECKING:
    from ottla.broker.node import Node as Broker

EPOCH_MS = 1_767_225_600_000  # when every world begins: 2026-01-01
CLIENT_PORT = 9092
CONTROLLER_PORT = 9093
FIRST_CONTROLLER = 101  # the id of the first node that is a controller only

Story = Callable[["World"], Coroutine[Any, Any, Any]]


class NodeEnded(Exception):
    """The node went down while somebody waited for it."""


class Node:
    """One machine. `process` and `broker` are those of today, or None while it is down."""

    def __init__(self, world: World, node_id: int, properties: Mapping[str, str]) -> None:
        self.world = world
        self.id = node_id
        self.name = f"node{node_id}"
        self.properties = dict(properties)
        self.clock_skew_ms = 0
        self.disk = SimulatedDisk(world.rng(f"disk{node_id}"), self.clock_ms)
        self.process: Process | None = None
        self.broker: Broker | None = None
        self.starts = 0
        self.serving = False  # its start is over and it has not been asked to stop
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
        """Power on, and serve. Raises what the broker's start raises, or NodeEnded if it is cut short."""
        assert not self.up, f"{self} is up"
        world = self.world
        self.starts += 1
        world.trace("node", self.name, f"start {self.starts}")
        process = self.process = world.loop.new_process(self.name)
        process.job_delay_ns = self.disk.job_delay_ns
        world.network.host_up(self.name)
        main = world.loop.create_task(self._main(process), context=process.context.copy())
        try:
            await self._wait_for(main)
        except Exception:
            if self.process is process:
                self.kill()  # a start that failed ends the process
            raise
        self.serving = True
        world.trace("node", self.name, "serves")

    def start_soon(self) -> asyncio.Task[None]:
        """Power on. The task ends when the node serves, which may need others: a quorum, say."""
        self.starting = self.world.spawn(self.world.process, self.start())
        # Whoever waits for it may have given up: then nobody has to hear how it ended.
        self.starting.add_done_callback(lambda task: None if task.cancelled() else task.exception() and None)
        return self.starting

    async def stop(self) -> None:
        """A clean stop, as after SIGTERM."""
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
        """SIGKILL: the process is gone, the machine and what was written to its files are not."""
        if self.up:
            self.world.trace("node", self.name, "kill")
            self._end(silent=False)
            self.disk.process_ended()

    def power_cut(self, *, silent: bool = True, flip_chance: float = 0.0) -> None:
        """The machine goes down with what was not synced. Silent: nobody hears of it."""
        self.world.trace("node", self.name, f"power cut{' silent' if silent else ''}")
        if self.up:
            self._end(silent=silent)
        self.disk.power_cut(flip_chance=flip_chance)

    def pause(self) -> None:
        """SIGSTOP: nothing runs, but connections stay and timers become due."""
        if self.process is not None:
            self.world.trace("node", self.name, "pause")
            self.process.paused = True

    def resume(self) -> None:
        if self.process is not None:
            self.world.trace("node", self.name, "resume")
            self.process.paused = False

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
        """The end of something in the node's process, seen from ours: it may never come."""
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
        """The broker wants its process to end at once."""
        self.world.trace("node", self.name, f"fatal: {error}")
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
    """`length`: how long the trouble lasts, as a share of what the story says."""

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
        self.fragile: Node | None = None  # has lost records that the others still have, see Nemesis
        self.process = self.loop.new_process("world")
        self.network.add_host("world")

    def rng(self, name: str) -> random.Random:
        """The generator of one part of the world."""
        return random.Random(f"{self.seed}/{name}")

    @property
    def now_ms(self) -> int:
        """The true time."""
        return EPOCH_MS + self.loop.now_ns // 1_000_000

    # -- who is there

    def add_node(self, node_id: int, properties: Mapping[str, str] | None = None) -> Node:
        """A machine that serves clients on port 9092 of the host `node<id>`."""
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
        self, brokers: int, properties: Mapping[str, str] | None = None, *, controllers: int = 0
    ) -> list[Node]:
        """Nodes 1 to `brokers`, all of them broker and controller, the voters of one quorum.

        With `controllers` the roles are apart: the voters are so many nodes from 101 on.
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
            nodes.append(self.add_node(node_id, {**common, **own}))
        return nodes

    @property
    def cluster_id(self) -> str:
        """Of this seed's cluster: a new directory takes it over."""
        return base64.urlsafe_b64encode(self.rng("cluster id").randbytes(16)).decode()[:22]

    async def start_all(self, nodes: Iterable[Node]) -> None:
        """Start nodes that need each other, and wait until all of them serve."""
        await asyncio.gather(*(node.start_soon() for node in nodes))

    def add_client(self, name: str) -> Process:
        """A host for a client's program."""
        self.network.add_host(name)
        return self.loop.new_process(name)

    def spawn(self, process: Process, main: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something in a process."""
        return self.loop.create_task(main, context=process.context.copy())

    @property
    def nodes_up(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.up]

    @property
    def brokers(self) -> list[Node]:
        """The nodes that clients may ask, up or down."""
        return [node for node in self.nodes.values() if node.is_broker]

    def heal(self) -> None:
        """Network, disks and paused processes are well again; who is down stays down."""
        self.network.heal()
        for node in self.nodes.values():
            node.disk.heal()
            node.resume()

    # -- running

    def run(self, story: Story, *, limit_s: float = 600.0) -> Any:
        """Play the story to its end. The world is over then: nothing in it runs any more."""
        collecting = gc.isenabled()
        gc.disable()  # when it runs depends on everything else in this interpreter
        with _LogLines(self.trace):
            try:
                return self.loop.run_in(self.process, story(self), limit_s=limit_s)
            finally:
                self.loop.close()
                if collecting:
                    gc.enable()
                gc.collect()


class _LogLines(logging.Handler):
    """While a world runs, what the brokers log goes to its trace and nowhere else."""

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
