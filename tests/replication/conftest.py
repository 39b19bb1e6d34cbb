"""A partition log in memory and a controller that never fails, for machines under test."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.storage.log.leader_epochs import LeaderEpochs

MIN_ISR = 2
NODES = (1, 2, 3)


class MemoryLog:
    """Records as (epoch, value); unflushed ones are lost in a power failure."""

    def __init__(self, records: list[tuple[int, Any]] | None = None, start: int = 0) -> None:
        self.log_start_offset = start
        self.records: list[tuple[int, Any]] = []
        self.flushed_end = start
        self.leader_epochs = LeaderEpochs()
        self.append(records or [])

    @property
    def log_end_offset(self) -> int:
        return self.log_start_offset + len(self.records)

    def append(self, records: list[tuple[int, Any]]) -> None:
        for epoch, value in records:
            self.leader_epochs.assign(epoch, self.log_end_offset)
            self.records.append((epoch, value))

    def read(self, offset: int, count: int) -> list[tuple[int, Any]]:
        first = offset - self.log_start_offset
        return self.records[first : first + count]

    def value_at(self, offset: int) -> Any:
        return self.records[offset - self.log_start_offset][1]

    def truncate_to(self, offset: int) -> None:
        assert offset >= self.log_start_offset
        del self.records[offset - self.log_start_offset :]
        self.flushed_end = min(self.flushed_end, self.log_end_offset)
        if offset <= self.log_end_offset:
            self.leader_epochs.truncate_from_end(offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self.records.clear()
        self.log_start_offset = self.flushed_end = offset
        self.leader_epochs.clear()

    def advance_log_start(self, offset: int) -> None:
        assert self.log_start_offset <= offset <= self.log_end_offset
        del self.records[: offset - self.log_start_offset]
        self.log_start_offset = offset
        self.flushed_end = max(self.flushed_end, offset)
        self.leader_epochs.truncate_from_start(offset)

    def lose_unflushed(self) -> None:
        self.truncate_to(max(self.log_start_offset, self.flushed_end))


class PartitionMeta:
    """The partition in one version of the metadata, and the brokers as of then."""

    def __init__(self) -> None:
        self.version = 0
        self.replicas = NODES
        self.isr: tuple[int, ...] = NODES
        self.elr: tuple[int, ...] = ()
        self.leader = NODES[0]
        self.leader_epoch = 0
        self.partition_epoch = 0
        self.min_isr = MIN_ISR
        self.brokers: dict[int, tuple[int, bool]] = dict.fromkeys(NODES, (1, True))  # epoch, unfenced

    def copy(self) -> PartitionMeta:
        other = PartitionMeta()
        other.__dict__.update(self.__dict__)
        other.brokers = dict(self.brokers)
        return other


class MemoryController:
    """Applies each change at once and never loses one."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.meta = PartitionMeta()
        self.unclean: set[int] = set()  # lost records, not reported yet

    def changed(self) -> None:
        self.meta.version += 1
        self.cluster.check_isr()
        for node in self.cluster.nodes.values():
            self.cluster.publish(node)

    def fence(self, node_id: int) -> None:
        epoch, unfenced = self.meta.brokers[node_id]
        if unfenced:
            self.meta.brokers[node_id] = (epoch, False)
            self._set_isr(tuple(each for each in self.meta.isr if each != node_id))

    def register(self, node_id: int, unclean: bool) -> int:
        epoch = self.meta.brokers[node_id][0] + 1
        self.meta.brokers[node_id] = (epoch, False)
        self.unclean.discard(node_id)
        if unclean:
            self.meta.elr = tuple(each for each in self.meta.elr if each != node_id)
        self._set_isr(tuple(each for each in self.meta.isr if each != node_id), node_id if unclean else -1)
        return epoch

    def unfence(self, node_id: int, epoch: int) -> None:
        if self.meta.brokers[node_id] == (epoch, False):
            self.meta.brokers[node_id] = (epoch, True)
            self._set_isr(self.meta.isr)

    def set_min_isr(self, min_isr: int) -> None:
        meta = self.meta
        meta.min_isr = min_isr
        if meta.elr and len(meta.isr) >= min_isr:
            meta.elr = ()
            meta.partition_epoch += 1
        self.changed()

    def _set_isr(self, isr: tuple[int, ...], lost: int = -1) -> None:
        meta = self.meta
        if isr != meta.isr:
            if len(isr) >= meta.min_isr:
                meta.elr = ()
            else:
                meta.elr = tuple(each for each in {*meta.elr, *meta.isr} if each not in isr and each != lost)
            meta.isr = isr
            meta.partition_epoch += 1
        self._elect()
        self.changed()

    def _elect(self) -> None:
        meta = self.meta
        if meta.leader != -1 and meta.leader in meta.isr and meta.brokers[meta.leader][1]:
            return
        candidates = meta.isr or meta.elr
        chosen = next((each for each in meta.replicas if each in candidates and meta.brokers[each][1]), -1)
        if chosen == meta.leader == -1:
            return
        if chosen != -1 and not meta.isr:
            meta.isr = (chosen,)
            alone = meta.min_isr > 1  # else records are committed from now on that the others lack
            meta.elr = tuple(each for each in meta.elr if alone and each != chosen)
        meta.leader = chosen
        meta.leader_epoch += 1
        meta.partition_epoch += 1

    def alter_partition(self, request: Any) -> tuple[int, int, tuple[int, ...], int]:
        meta = self.meta
        wanted = request.topics[0].partitions[0]
        if meta.brokers[request.broker_id][0] != request.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH, -1, (), -1
        if request.broker_id != meta.leader or wanted.leader_epoch != meta.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH, -1, (), -1
        if wanted.partition_epoch != meta.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION, -1, (), -1
        for member in wanted.new_isr_with_epochs:
            epoch, unfenced = meta.brokers[member.broker_id]
            if not unfenced or member.broker_epoch not in (-1, epoch):
                return ErrorCode.INELIGIBLE_REPLICA, -1, (), -1
        self._set_isr(tuple(member.broker_id for member in wanted.new_isr_with_epochs))
        return ErrorCode.NONE, meta.leader_epoch, meta.isr, meta.partition_epoch


@pytest.fixture(scope="session")
def new_log() -> type[MemoryLog]:
    """new_log([(epoch, value), ...], start=0)"""
    return MemoryLog


@pytest.fixture(scope="session")
def new_controller() -> type[MemoryController]:
    return MemoryController
