"""A cluster in memory: three replicas of one partition, a controller that never fails, and a network that
does.

The machines under test are the shipped ones; `Node` and `MemoryCluster` play the shell, the disks and the
network, and cause faults. Everything is drawn from one seeded generator, so a schedule is replayed by its
seed. What it checks, all the time:

- a value that was acknowledged with acks=all, or seen by a consumer, keeps its offset for ever
- every member of the controller's ISR and ELR that has not lost its disk's tail has all of those values
- replicas agree below their high watermarks
- a leader's high watermark never goes back
and after healing: writes continue, the ISR is complete, the logs are equal.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.replication.follower import FollowerState
from ottla.replication.isr_change import IsrChange
from ottla.replication.leader import LeaderState
from tests.support.replication.memory_controller import MIN_ISR, NODES, MemoryController
from tests.support.replication.memory_node import Node

SESSION_TIMEOUT_MS = 50


class Violation(AssertionError):
    """The cluster broke a promise."""


class MemoryCluster:
    """Virtual time, messages that are late, lost and reordered, and a nemesis; one seed, one schedule."""

    def __init__(
        self,
        seed: int,
        leader_class: type[LeaderState] = LeaderState,
        follower_class: type[FollowerState] = FollowerState,
        min_isr_changes: bool = False,
    ) -> None:
        self.rng = random.Random(seed)
        self.leader_class = leader_class
        self.follower_class = follower_class
        self.now_ms = 0
        self.heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self.serial = 0
        self.loss = self.rng.choice((0.0, 0.02, 0.2))
        self.late = self.rng.choice((0.02, 0.2))
        self.controller_late = 0.2
        self.controller_loss = self.rng.choice((0.0, 0.1, 0.4))
        self.metadata_late = self.rng.choice((0.02, 0.4))
        self.cut: set[tuple[int, int]] = set()
        self.promised: dict[int, Any] = {}
        self.marks: dict[tuple[int, int], int] = {}
        self.acked = 0
        self.value = 0
        self.nodes = {node_id: Node(self, node_id) for node_id in NODES}
        self.controller = MemoryController(self)
        self.controller.changed()
        self.min_isr_changes = min_isr_changes

    # -- time and network

    def after(self, delay_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        self.serial += 1
        heapq.heappush(self.heap, (self.now_ms + delay_ms, self.serial, action, arguments))

    def at(self, node: Node, action: Callable[..., None], *arguments: Any) -> None:
        """Something happens at a node, if it is there to see it."""
        if node.paused:
            node.inbox.append((action, arguments))
        elif node.alive:
            action(*arguments)

    def send(self, source: Node, target: Node, action: Callable[..., None], *arguments: Any) -> None:
        if (source.id, target.id) in self.cut or self.rng.random() < self.loss:
            return
        delay_ms = self.rng.randint(1, 4) if self.rng.random() > self.late else self.rng.randint(5, 60)
        self.after(delay_ms, self.at, target, action, *arguments)

    def publish(self, node: Node) -> None:
        """Metadata come late, but they come."""
        meta = self.controller.meta.copy()
        late = self.rng.random() < self.metadata_late
        delay_ms = self.rng.randint(5, 120) if late else self.rng.randint(1, 4)
        self.after(delay_ms, self.at, node, node.apply, meta)

    def send_alter_partition(self, node: Node, leader: LeaderState, change: IsrChange, request: Any) -> None:
        lost: tuple[int, int, tuple[int, ...], int] = (ErrorCode.REQUEST_TIMED_OUT, -1, (), -1)
        fate = self.rng.random()

        def arrive() -> None:
            result = lost
            if fate > self.controller_loss / 2:
                result = self.controller.alter_partition(request)
                if fate < self.controller_loss:
                    result = lost  # applied, but the leader does not hear of it
            self.after(self.rng.randint(1, 6), self.at, node, node.altered, leader, change, result)

        late = self.rng.random() < self.controller_late
        self.after(self.rng.randint(5, 80) if late else self.rng.randint(1, 4), arrive)

    def run_until(self, end_ms: int) -> None:
        while self.heap and self.heap[0][0] <= end_ms:
            self.now_ms, _, action, arguments = heapq.heappop(self.heap)
            action(*arguments)
        self.now_ms = end_ms

    # -- promises

    def promise(self, offset: int, value: Any) -> None:
        if self.promised.setdefault(offset, value) != value:
            raise Violation(f"offset {offset} was {self.promised[offset]}, is {value}")

    def check_high_watermark(self, node: Node) -> None:
        """At a leader it never goes back, and everything below it is the same everywhere."""
        if node.leader is not None:
            key = (node.id, node.leader.leader_epoch)
            if node.leader.high_watermark < self.marks.get(key, 0):
                raise Violation(f"high watermark of {node.id} went back")
            self.marks[key] = node.leader.high_watermark
        if node.high_watermark > node.log.log_end_offset:
            raise Violation(f"high watermark of {node.id} is behind its log's end")

    def consume(self, node: Node) -> None:
        for offset in range(node.log.log_start_offset, node.high_watermark):
            self.promise(offset, node.log.value_at(offset))

    def check_isr(self) -> None:
        controller = self.controller
        for node_id in {*controller.meta.isr, *controller.meta.elr} - controller.unclean:
            log = self.nodes[node_id].log
            for offset, value in self.promised.items():
                if offset < log.log_start_offset:
                    continue
                if offset >= log.log_end_offset or log.value_at(offset) != value:
                    raise Violation(f"{node_id} is in the ISR or ELR without {value} at {offset}")

    # -- nemesis

    def sessions(self) -> None:
        for node in self.nodes.values():
            if node.alive and not node.paused:
                node.last_heard_ms = self.now_ms
                if not self.controller.meta.brokers[node.id][1]:
                    node.caught_up(node.incarnation)
            elif self.now_ms - node.last_heard_ms > SESSION_TIMEOUT_MS:
                self.controller.fence(node.id)
        self.after(10, self.sessions)

    def may_lose(self, node_id: int) -> bool:
        """One power cut at a time (min ISR is 2), while another replica of the ISR or ELR has everything. A
        smaller minimum promises nothing after a power cut."""
        if self.min_isr_changes:
            return False
        meta = self.controller.meta
        return not self.controller.unclean and bool({*meta.isr, *meta.elr} - {node_id})

    def mischief(self, until_ms: int) -> None:
        if self.now_ms >= until_ms:
            return
        rng = self.rng
        node = self.nodes[rng.choice(NODES)]
        what = rng.random()
        if what < 0.25 and node.alive:
            lossy = rng.random() < 0.6 and self.may_lose(node.id)
            node.crash(lossy)
            self.after(rng.randint(1, 150), self.revive, node)
        elif what < 0.45 and node.alive and not node.paused:
            node.paused = True
            self.after(rng.randint(5, 150), self.resume, node, node.incarnation)
        elif what < 0.65:
            other = rng.choice([each for each in NODES if each != node.id])
            links = {(node.id, other)} if rng.random() < 0.5 else {(node.id, other), (other, node.id)}
            self.cut |= links
            self.after(rng.randint(5, 120), self.cut.difference_update, links)
        elif what < 0.7 and node.alive and not node.paused:
            node.delete_records()
        elif node.alive:
            node.log.flushed_end = node.log.log_end_offset
        self.after(rng.randint(5, 60), self.mischief, until_ms)

    def change_min_isr(self, until_ms: int) -> None:
        if self.now_ms >= until_ms:
            self.controller.set_min_isr(MIN_ISR)
            return
        self.controller.set_min_isr(self.rng.choice((1, 1, 2, 3)))
        self.after(self.rng.randint(5, 60), self.change_min_isr, until_ms)

    def revive(self, node: Node) -> None:
        if not node.alive:
            node.restart()

    def resume(self, node: Node, incarnation: int) -> None:
        if node.paused and node.incarnation == incarnation:
            node.paused = False
            inbox, node.inbox = node.inbox, []
            for action, arguments in inbox:
                self.at(node, action, *arguments)

    def clients(self, until_ms: int) -> None:
        for node in self.nodes.values():
            if node.alive and not node.paused:
                if node.leader is not None and self.rng.random() < 0.7:
                    self.value += 1
                    node.produce(self.value, acks_all=self.rng.random() < 0.8)
                if self.rng.random() < 0.3:
                    self.consume(node)
        if self.now_ms < until_ms:
            self.after(self.rng.randint(1, 12), self.clients, until_ms)

    def run(self, troubled_ms: int = 500, healed_ms: int = 500) -> int:
        """A troubled time, then a quiet one after which all must be well; how much was acknowledged."""
        self.sessions()
        self.mischief(troubled_ms)
        if self.min_isr_changes:
            self.change_min_isr(troubled_ms)
        self.clients(troubled_ms + healed_ms // 2)
        self.run_until(troubled_ms)
        self.loss = self.late = self.metadata_late = 0.0
        self.controller_loss = self.controller_late = 0.0
        self.cut.clear()
        for node in self.nodes.values():
            self.revive(node)
            self.resume(node, node.incarnation)
        self.run_until(troubled_ms + healed_ms // 2)
        acked = self.acked
        self.run_until(troubled_ms + healed_ms)
        self.check_health(acked)
        return self.acked

    def check_health(self, acked: int) -> None:
        meta = self.controller.meta
        if sorted(meta.isr) != list(NODES) or meta.leader == -1:
            raise Violation(f"not whole after healing: {meta.__dict__}")
        if not acked:
            raise Violation("nothing was acknowledged")
        self.check_isr()
        leader = self.nodes[meta.leader]
        for node in self.nodes.values():
            first = max(leader.log.log_start_offset, node.log.log_start_offset)
            if node.log.read(first, 10**6) != leader.log.read(first, 10**6):
                raise Violation(f"the log of {node.id} is not the leader's")
            if node.high_watermark != leader.log.log_end_offset:
                raise Violation(f"{node.id} has not heard that all is committed")
            self.consume(node)


def run_schedule(seed: int, **machines: Any) -> int:
    """Run one schedule with `leader_class`, `follower_class` and `min_isr_changes` of MemoryCluster; raises
    Violation, or returns how many writes were acknowledged."""
    return MemoryCluster(seed, **machines).run()
