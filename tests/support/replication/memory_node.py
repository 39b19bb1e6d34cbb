"""A broker of `MemoryCluster`: plays the shell around the shipped machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_response import EpochEndOffset, PartitionData
from ottla.replication import follower as steps
from ottla.replication.divergence import check_leader_epoch, find_divergence
from ottla.replication.follower import FollowerState
from ottla.replication.isr_change import IsrChange, alter_partition_request
from ottla.replication.leader import ISR_CHANGE_WANTED, REFUSED, RETRY_ISR_CHANGE, LeaderState
from tests.support.replication.memory_log import MemoryLog

if TYPE_CHECKING:
    from tests.support.replication.memory_cluster import MemoryCluster
    from tests.support.replication.memory_controller import PartitionMeta

LAG_TIME_MAX_MS = 40
FETCH_TIMEOUT_MS = 30


class Node:
    """A broker: one log and one machine on it."""

    def __init__(self, cluster: MemoryCluster, node_id: int) -> None:
        self.cluster = cluster
        self.id = node_id
        self.log = MemoryLog()
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
        self.current_request: tuple[int, int] = (-1, -1)

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

    def on_fetch(self, sender: Node, request: dict[str, int]) -> None:
        data = PartitionData()
        leader = self.leader
        records: list[tuple[int, Any]] = []
        log = self.log
        if leader is None:
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif code := check_leader_epoch(leader.leader_epoch, request["leader_epoch"]):
            data.error_code = code
        elif not log.log_start_offset <= request["offset"] <= log.log_end_offset:
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        elif parted := find_divergence(log, request["last_epoch"], request["offset"]):
            data.diverging_epoch = EpochEndOffset(epoch=parted[0], end_offset=parted[1])
            if parted[0] == -1:
                data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            flags = leader.follower_fetched(
                sender.id,
                request["offset"],
                request["log_start"],
                log.log_end_offset,
                request["broker_epoch"],
                self.cluster.now_ms,
            )
            self.react(flags)
            if flags & REFUSED:
                data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            data.high_watermark = leader.high_watermark
            data.log_start_offset = log.log_start_offset
            records = log.read(request["offset"], self.cluster.rng.randint(1, 4))
        self.cluster.send(self, sender, sender.on_fetched, request, data, records)

    def on_list_offsets(self, sender: Node, request: dict[str, int]) -> None:
        leader = self.leader
        code: int = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if leader is not None:
            code = check_leader_epoch(leader.leader_epoch, request["leader_epoch"])
        self.cluster.send(
            self, sender, sender.on_offsets, request, code, self.log.log_start_offset, self.log.log_end_offset
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
        request = {
            "serial": self.fetch_serial,
            "incarnation": self.incarnation,
            "leader_epoch": follower.leader_epoch,
            "offset": follower.fetch_offset,
            "last_epoch": follower.last_fetched_epoch,
            "log_start": self.log.log_start_offset,
            "broker_epoch": self.broker_epoch,
        }
        self.current_request = (self.fetch_serial, self.incarnation)
        leader = self.cluster.nodes[follower.leader_id]
        if isinstance(step, steps.Fetch):
            self.cluster.send(self, leader, leader.on_fetch, self, request)
        elif isinstance(step, steps.ListLeaderOffsets):
            self.cluster.send(self, leader, leader.on_list_offsets, self, request)
        self.cluster.after(FETCH_TIMEOUT_MS, self.cluster.at, self, self.fetch_again, self.current_request)

    def fetch_again(self, request: tuple[int, int]) -> None:
        if self.current_request == request:
            self.fetch()

    def is_current(self, request: dict[str, int]) -> bool:
        follower = self.follower
        return (
            follower is not None
            and self.current_request == (request["serial"], request["incarnation"])
            and follower.leader_epoch == request["leader_epoch"]
            and follower.fetch_offset == request["offset"]
        )

    def on_fetched(
        self, request: dict[str, int], data: PartitionData, records: list[tuple[int, Any]]
    ) -> None:
        follower = self.follower
        if follower is None or not self.is_current(request):
            return
        step = follower.answered(data, self.cluster.now_ms)
        if isinstance(step, steps.Append):
            self.log.append(records)
            self.carry_out(follower.appended(data.high_watermark, data.log_start_offset))
        else:
            self.carry_out(step)
        self.cluster.check_high_watermark(self)
        self.cluster.after(0 if records else 3, self.cluster.at, self, self.fetch_again, self.current_request)

    def on_offsets(self, request: dict[str, int], code: int, start_offset: int, end_offset: int) -> None:
        follower = self.follower
        if follower is not None and self.is_current(request):
            self.carry_out(follower.offsets_answered(code, start_offset, end_offset, self.cluster.now_ms))
            self.cluster.after(0, self.cluster.at, self, self.fetch_again, self.current_request)

    def carry_out(self, step: steps.Instruction | None) -> None:
        if isinstance(step, steps.TruncateTo):
            self.log.truncate_to(step.offset)
        elif isinstance(step, steps.TruncateFullyAndStartAt):
            self.log.truncate_fully_and_start_at(step.offset)
        elif isinstance(step, steps.AdvanceLogStart):
            self.log.advance_log_start(step.offset)
