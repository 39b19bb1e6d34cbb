"""Samples the health of the cluster while a scenario runs, and takes stock of its tasks and waiters.

Everything here is read-only.
"""

from __future__ import annotations

import asyncio
import re
import types
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

from ottla.controller.image.cluster import ClusterImage
from ottla.controller.image.parts import NO_LEADER
from ottla.quorum.raft.machine import LEADER
from simulator.history.health import Fencing, Gap
from simulator.inspection import newest_image, raft_of
from simulator.world import Node, World

PERIOD_S = 0.02
SETTLED_NS = 2_000_000_000  # after its start a broker may be fenced: its old session can end late
DEPTH_MAX = 12
SAMPLES = 3
SAMPLE_S = 0.37  # not a divisor of usual intervals
CONTROLLER = "the controller"
ADDRESS = re.compile(r" (object )?at 0x[0-9a-f]+")


class HealthWatcher:
    """Records into `history.health` until `stopping`."""

    def __init__(self, world: World, *, topics: tuple[str, ...]) -> None:
        self.world = world
        self.stopping = False
        self._topics = topics
        self._missing_since_ns: dict[str, int] = {}
        self._fenced: dict[int, tuple[int, bool]] = {}  # epoch of a broker, and whether it is fenced
        self._epoch = -1
        self._serving_since_ns: dict[int, tuple[int, int]] = {}  # number of the start, and when it served

    async def run(self) -> None:
        while not self.stopping:
            self._note_serving()
            self._watch_controller()
            image = newest_image(self.world)
            if image is not None:
                self._watch_leaders(image)
                self._watch_fencings(image)
            self._watch_log_starts()
            await asyncio.sleep(PERIOD_S)
        for what in list(self._missing_since_ns):
            self._is_there(what, True)

    def _note_serving(self) -> None:
        for node in self.world.nodes.values():
            known = self._serving_since_ns.get(node.id)
            if not node.serving:
                self._serving_since_ns.pop(node.id, None)
            elif known is None or known[0] != node.starts:
                self._serving_since_ns[node.id] = (node.starts, self.world.loop.now_ns)

    def _is_there(self, what: str, there: bool) -> None:
        now_ns = self.world.loop.now_ns
        if not there:
            self._missing_since_ns.setdefault(what, now_ns)
        elif what in self._missing_since_ns:
            self.world.history.health.gaps.append(Gap(what, self._missing_since_ns.pop(what), now_ns))

    def _watch_controller(self) -> None:
        active = False
        for node in self.world.nodes_up:
            driver = raft_of(node)
            if driver is None or node.broker is None:
                continue
            active = active or (node.broker.controllers.active is not None and not _is_stopped(node))
            machine = driver.machine
            if machine.role == LEADER and machine.epoch > self._epoch:
                self._epoch = machine.epoch
                self.world.history.health.elections.append((self.world.loop.now_ns, machine.epoch, node.id))
        self._is_there(CONTROLLER, active)

    def _watch_leaders(self, image: ClusterImage) -> None:
        for name in self._topics:
            topic = image.topics_by_name.get(name)
            for index, partition in () if topic is None else topic.partitions.items():
                node = self.world.nodes.get(partition.leader)
                leads = False
                if partition.leader != NO_LEADER and node is not None and node.broker is not None:
                    replica = node.broker.partitions.by_name(name, index)
                    leads = replica is not None and replica.is_leader and not _is_stopped(node)
                self._is_there(f"the leader of {name}-{index}", leads)

    def _watch_fencings(self, image: ClusterImage) -> None:
        for broker_id, broker in image.brokers.items():
            before = self._fenced.get(broker_id)
            self._fenced[broker_id] = (broker.epoch, broker.fenced)
            if before == (broker.epoch, False) and broker.fenced:
                excuse = "it is leaving" if broker.in_controlled_shutdown else self._excuse(broker_id)
                fencing = Fencing(broker_id, self.world.loop.now_ns, excuse)
                self.world.history.health.fencings.append(fencing)
                self.world.trace("health", f"node{broker_id}", f"is fenced; {excuse or 'needlessly'}")

    def _excuse(self, broker_id: int) -> str:
        now_ns = self.world.loop.now_ns
        known = self._serving_since_ns.get(broker_id)
        if known is None:
            return "it is down"
        if now_ns - known[1] < SETTLED_NS:
            return "it has just started"
        if self.world.history.health.disturbed_until_ns.get(broker_id, 0) > now_ns:
            return "it is disturbed"
        return ""

    def _watch_log_starts(self) -> None:
        health = self.world.history.health
        for node in self.world.nodes_up:
            for partition in () if node.broker is None else node.broker.partitions:
                start, high = partition.log.log_start_offset, partition.high_watermark
                if partition.topic in self._topics and partition.is_leader and start > high:
                    text = (
                        f"{partition.topic}-{partition.index} on {node.name} starts at {start}, above {high}"
                    )
                    if text not in health.starts_beyond:
                        health.starts_beyond.append(text)


def _is_stopped(node: Node) -> bool:
    process = node.process
    return process is None or process.paused or process.stalled_until_ns > node.world.loop.now_ns


# -- tasks


class TaskCensus:
    """The tasks that nodes have when nothing happens. Those that all of them have never end."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._of_all: dict[tuple[bool, bool], Counter[str]] = {}
        self._of_any: set[str] = set()

    async def take(self) -> None:
        """Count the tasks of all nodes, but not those that come and go."""
        counts = {node: _tasks(node) for node in self._world.nodes_up}
        for _ in range(SAMPLES - 1):
            await asyncio.sleep(SAMPLE_S)
            for node in counts:
                counts[node] &= _tasks(node)
        for node, found in counts.items():
            role = (node.is_broker, node.is_controller)
            self._of_all[role] = self._of_all[role] & found if role in self._of_all else found
        self._of_any = set().union(*counts.values())

    async def missing(self) -> list[str]:
        """What nodes lack of the tasks that they must have, each time that they are counted."""
        lacking = self._missing_now()
        for _ in range(SAMPLES - 1):
            await asyncio.sleep(SAMPLE_S)
            now = self._missing_now()
            lacking = [each for each in lacking if each in now]
        return lacking

    def _missing_now(self) -> list[str]:
        lacking: list[str] = []
        found_anywhere: set[str] = set()
        for node in self._world.nodes_up:
            found = _tasks(node)
            found_anywhere |= set(found)
            wanted = self._of_all.get((node.is_broker, node.is_controller), Counter())
            lacking += [f"{node.name} has no task {name}" for name in wanted - found]
        return lacking + [f"no node has a task {name}" for name in sorted(self._of_any - found_anywhere)]


def _tasks(node: Node) -> Counter[str]:
    names: Counter[str] = Counter()
    for task in () if node.process is None else node.process.tasks:
        coroutine = task.get_coro()
        name = ADDRESS.sub("", task.get_name())  # a name may contain the repr of an object
        label = "" if name.startswith("Task-") else f" ({name})"
        names[f"{getattr(coroutine, '__qualname__', '?')}{label}"] += 1
    return names


# -- waiters


def waiter_counts(root: object) -> Counter[str]:
    """The number of waiters (callbacks, futures, tasks) in the largest container of each class and name
    below an object."""
    counts: Counter[str] = Counter()
    seen: set[int] = set()
    pending: deque[tuple[object, int]] = deque([(root, 0)])
    while pending:
        owner, depth = pending.popleft()
        if id(owner) in seen or depth > DEPTH_MAX:
            continue
        seen.add(id(owner))
        for name, value in _fields(owner):
            if isinstance(value, dict | list | set | deque):
                elements = list(value)
                if isinstance(value, dict):
                    elements += list(value.values())
                label = f"{type(owner).__name__}.{name}"
                counts[label] = max(counts[label], sum(_is_waiter(each) for each in elements))
                pending += [(each, depth + 1) for each in elements if _is_ours(each)]
            elif _is_ours(value):
                pending.append((value, depth + 1))
    return counts


def _fields(owner: object) -> Iterator[tuple[str, Any]]:
    yield from getattr(owner, "__dict__", {}).items()
    for kind in type(owner).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            value = getattr(owner, name, None)
            if value is not None:
                yield name, value


def _is_ours(value: object) -> bool:
    return type(value).__module__.startswith("ottla.broker") and not isinstance(value, type)


def _is_waiter(value: object) -> bool:
    if isinstance(value, tuple):
        return any(_is_waiter(each) for each in value)
    return isinstance(value, asyncio.Future | asyncio.Handle | types.FunctionType | types.MethodType)
