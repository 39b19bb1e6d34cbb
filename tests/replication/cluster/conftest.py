"""A cluster in memory: three replicas of one partition, a controller that never fails, and a network that
does.

The machines under test are the shipped ones; this file plays the shell, the disks and the nemesis. Everything
is drawn from one seeded generator, so a schedule is replayed by its seed. What it checks, all the time:

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

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_response import EpochEndOffset, PartitionData
from ottla.replication import follower as steps
from ottla.replication.divergence import check_leader_epoch, find_divergence
from ottla.replication.follower import FollowerState
from ottla.replication.isr_change import IsrChange, alter_partition_request
from ottla.replication.leader import ISR_CHANGE_WANTED, REFUSED, RETRY_ISR_CHANGE, LeaderState

LAG_TIME_MAX_MS = 40
SESSION_TIMEOUT_MS = 50
FETCH_TIMEOUT_MS = 30
MIN_ISR = 2  # where it is not changed
NODES = (1, 2, 3)
PartitionMeta = Any  # of the controller in memory


class Violation(AssertionError):
    """The cluster broke a promise."""


class Node:
    """A broker: one log and one machine on it."""

    def __init__(self, cluster: MemoryCluster, node_id: int) -> None:
        self.cluster = cluster
        self.id = node_id
        self.log = cluster.new_log()
        self.high_watermark_on_disk = 0
        self.broker_epoch = 1
        self.alive = True
        self.paused = False
        self.incarnation = 0
        self.last_heard_ms = 0
        self.inbox: list[tuple[Callable[..., None], tuple[Any, ...]]] = []  # what came while paused
        self.meta: PartitionMeta | None = None
        self.leader: LeaderState | None = None
        self.follower: FollowerState | None = None
        self.waiting: list[tuple[int, int]] = []  # (required offset, value)
        self.fetch_serial = 0
        self.question: tuple[int, int] = (-1, -1)

    @property
    def high_watermark(self) -> int:
        machine = self.leader or self.follower
        return machine.high_watermark if machine is not None else 0

    # -- life

    def crash(self, lossy: bool) -> None:
        self.alive = self.paused = False
        self.incarnation += 1
        self.inbox.clear()
        self.waiting.clear()
        self.leader = self.follower = self.meta = None
        if lossy:
            self.log.lose_unflushed()
            self.cluster.controller.unclean.add(self.id)

    def restart(self) -> None:
        controller = self.cluster.controller
        self.alive = True
        self.last_heard_ms = self.cluster.now_ms
        self.broker_epoch = controller.register(self.id, unclean=self.id in controller.unclean)
        self.cluster.after(self.cluster.rng.randint(1, 10), self.caught_up, self.incarnation)

    def caught_up(self, incarnation: int) -> None:
        if incarnation == self.incarnation and self.alive:
            self.cluster.controller.unfence(self.id, self.broker_epoch)

    # -- metadata

    def apply(self, meta: PartitionMeta) -> None:
        now_ms = self.cluster.now_ms
        if self.meta is not None and meta.version <= self.meta.version:
            return
        self.meta = meta
        if meta.leader == self.id and meta.brokers[self.id][0] == self.broker_epoch:
            if self.leader is not None:
                began = meta.leader_epoch > self.leader.leader_epoch
                # As the shell: a larger minimum before the partition, a smaller one after it.
                self.min_isr_becomes(max(meta.min_isr, self.leader.min_isr))
                self.react(self.leader.metadata_changed(meta, now_ms))
                if began:
                    self.log.leader_epochs.assign(meta.leader_epoch, self.log.log_end_offset)
                self.min_isr_becomes(meta.min_isr)
            else:
                self.lead(meta)
        elif meta.leader in (self.id, -1):
            self.rest()
        elif self.follower is not None:
            self.follower.new_leader(meta.leader, meta.leader_epoch, self.id in meta.isr)
        else:
            self.follow(meta)

    def min_isr_becomes(self, min_isr: int) -> None:
        if self.leader is not None and self.leader.min_isr != min_isr:
            self.react(self.leader.min_isr_changed(min_isr, self.cluster.now_ms))

    def rest(self) -> None:
        self.high_watermark_on_disk = max(self.high_watermark_on_disk, self.high_watermark)
        self.leader = self.follower = None
        self.waiting.clear()

    def lead(self, meta: PartitionMeta) -> None:
        self.rest()
        self.log.leader_epochs.assign(meta.leader_epoch, self.log.log_end_offset)
        self.leader = self.cluster.leader_class(
            self.id,
            meta,
            log_start_offset=self.log.log_start_offset,
            log_end_offset=self.log.log_end_offset,
            high_watermark=self.high_watermark_on_disk,
            min_isr=meta.min_isr,
            lag_time_max_ms=LAG_TIME_MAX_MS,
            eligible=self.is_eligible,
            now_ms=self.cluster.now_ms,
        )
        self.tick(self.leader)

    def follow(self, meta: PartitionMeta) -> None:
        self.rest()
        self.follower = self.cluster.follower_class(
            self.log, meta.leader, meta.leader_epoch, self.high_watermark_on_disk, backoff_ms_max=20
        )
        self.fetch()

    def is_eligible(self, node_id: int, broker_epoch: int) -> bool:
        assert self.meta is not None
        epoch, unfenced = self.meta.brokers[node_id]
        return unfenced and broker_epoch in (-1, epoch)

    # -- leading

    def tick(self, leader: LeaderState) -> None:
        if self.leader is leader:
            self.react(leader.tick(self.cluster.now_ms))
            self.cluster.after(LAG_TIME_MAX_MS // 2, self.cluster.at, self, self.tick, leader)

    def react(self, flags: int) -> None:
        leader = self.leader
        assert leader is not None
        self.cluster.check_high_watermark(self)
        for waiting in list(self.waiting):
            required, value = waiting
            answer = leader.check_ack(required)
            if answer is not None:
                self.waiting.remove(waiting)
                if answer == ErrorCode.NONE:
                    self.cluster.acked += 1
                    self.cluster.promise(required - 1, value)
        if flags & ISR_CHANGE_WANTED:
            change = leader.isr_change_proposal(self.cluster.now_ms)
            if change is not None:
                self.propose(leader, change)

    def propose(self, leader: LeaderState, change: IsrChange) -> None:
        if self.leader is leader and leader.pending is change:
            request = alter_partition_request(self.id, self.broker_epoch, [(b"t" * 16, 0, change)])
            self.cluster.send_alter_partition(self, leader, change, request)

    def altered(self, leader: LeaderState, change: IsrChange, result: tuple[Any, ...]) -> None:
        if self.leader is not leader:
            return
        code, leader_epoch, isr, partition_epoch = result
        flags = leader.alter_partition_result(
            change,
            code,
            self.cluster.now_ms,
            leader_epoch=leader_epoch,
            isr=isr,
            partition_epoch=partition_epoch,
        )
        self.react(flags)
        if flags & RETRY_ISR_CHANGE:
            self.cluster.after(5, self.cluster.at, self, self.propose, leader, change)

    def produce(self, value: int, acks_all: bool) -> None:
        leader = self.leader
        if leader is None or leader.admit() != ErrorCode.NONE:
            return
        self.log.append([(leader.leader_epoch, value)])
        if acks_all:
            self.waiting.append((self.log.log_end_offset, value))
        self.react(leader.log_appended(self.log.log_end_offset, self.cluster.now_ms))

    def delete_records(self) -> None:
        leader = self.leader
        if leader is not None and leader.high_watermark - 2 > self.log.log_start_offset:
            self.log.advance_log_start(leader.high_watermark - 2)
            leader.log_start_moved(self.log.log_start_offset)

    def on_fetch(self, sender: Node, ask: dict[str, int]) -> None:
        data = PartitionData()
        leader = self.leader
        records: list[tuple[int, Any]] = []
        log = self.log
        if leader is None:
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif code := check_leader_epoch(leader.leader_epoch, ask["leader_epoch"]):
            data.error_code = code
        elif not log.log_start_offset <= ask["offset"] <= log.log_end_offset:
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        elif parted := find_divergence(log, ask["last_epoch"], ask["offset"]):
            data.diverging_epoch = EpochEndOffset(epoch=parted[0], end_offset=parted[1])
            if parted[0] == -1:
                data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            flags = leader.follower_fetched(
                sender.id,
                ask["offset"],
                ask["log_start"],
                log.log_end_offset,
                ask["broker_epoch"],
                self.cluster.now_ms,
            )
            self.react(flags)
            if flags & REFUSED:
                data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            data.high_watermark = leader.high_watermark
            data.log_start_offset = log.log_start_offset
            records = log.read(ask["offset"], self.cluster.rng.randint(1, 4))
        self.cluster.send(self, sender, sender.on_fetched, ask, data, records)

    def on_list_offsets(self, sender: Node, ask: dict[str, int]) -> None:
        leader = self.leader
        code: int = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if leader is not None:
            code = check_leader_epoch(leader.leader_epoch, ask["leader_epoch"])
        self.cluster.send(
            self, sender, sender.on_offsets, ask, code, self.log.log_start_offset, self.log.log_end_offset
        )

    # -- following

    def fetch(self) -> None:
        """Send what is due, now and after every response or time-out."""
        follower = self.follower
        if follower is None or not self.alive:
            return
        now_ms = self.cluster.now_ms
        step = follower.due(now_ms)
        self.fetch_serial += 1
        ask = {
            "serial": self.fetch_serial,
            "incarnation": self.incarnation,
            "leader_epoch": follower.leader_epoch,
            "offset": follower.fetch_offset,
            "last_epoch": follower.last_fetched_epoch,
            "log_start": self.log.log_start_offset,
            "broker_epoch": self.broker_epoch,
        }
        self.question = (self.fetch_serial, self.incarnation)
        leader = self.cluster.nodes[follower.leader_id]
        if isinstance(step, steps.Fetch):
            self.cluster.send(self, leader, leader.on_fetch, self, ask)
        elif isinstance(step, steps.ListLeaderOffsets):
            self.cluster.send(self, leader, leader.on_list_offsets, self, ask)
        self.cluster.after(FETCH_TIMEOUT_MS, self.cluster.at, self, self.fetch_again, self.question)

    def fetch_again(self, question: tuple[int, int]) -> None:
        if self.question == question:
            self.fetch()

    def stands(self, ask: dict[str, int]) -> bool:
        follower = self.follower
        return (
            follower is not None
            and self.question == (ask["serial"], ask["incarnation"])
            and follower.leader_epoch == ask["leader_epoch"]
            and follower.fetch_offset == ask["offset"]
        )

    def on_fetched(self, ask: dict[str, int], data: PartitionData, records: list[tuple[int, Any]]) -> None:
        follower = self.follower
        if follower is None or not self.stands(ask):
            return
        step = follower.answered(data, self.cluster.now_ms)
        if isinstance(step, steps.Append):
            self.log.append(records)
            self.carry_out(follower.appended(data.high_watermark, data.log_start_offset))
        else:
            self.carry_out(step)
        self.cluster.check_high_watermark(self)
        self.cluster.after(0 if records else 3, self.cluster.at, self, self.fetch_again, self.question)

    def on_offsets(self, ask: dict[str, int], code: int, start_offset: int, end_offset: int) -> None:
        follower = self.follower
        if follower is not None and self.stands(ask):
            self.carry_out(follower.offsets_answered(code, start_offset, end_offset, self.cluster.now_ms))
            self.cluster.after(0, self.cluster.at, self, self.fetch_again, self.question)

    def carry_out(self, step: steps.Instruction | None) -> None:
        if isinstance(step, steps.TruncateTo):
            self.log.truncate_to(step.offset)
        elif isinstance(step, steps.TruncateFullyAndStartAt):
            self.log.truncate_fully_and_start_at(step.offset)
        elif isinstance(step, steps.AdvanceLogStart):
            self.log.advance_log_start(step.offset)


class MemoryCluster:
    """Virtual time, messages that are late, lost and reordered, and a nemesis; one seed, one schedule."""

    def __init__(
        self,
        seed: int,
        new_log: Any,
        new_controller: Any,
        leader_class: type[LeaderState] = LeaderState,
        follower_class: type[FollowerState] = FollowerState,
        min_isr_changes: bool = False,
    ) -> None:
        self.new_log = new_log
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
        self.controller = new_controller(self)
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
        lost = (ErrorCode.REQUEST_TIMED_OUT, -1, (), -1)
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


@pytest.fixture
def run_schedule(new_log: Any, new_controller: Any) -> Callable[..., int]:
    """run_schedule(seed, leader_class=, follower_class=, min_isr_changes=): raises Violation, or returns the
    acks."""

    def run(seed: int, **machines: Any) -> int:
        return MemoryCluster(seed, new_log, new_controller, **machines).run()

    return run
