"""A controller in memory that never fails, for one partition on three brokers."""

from __future__ import annotations

from typing import Any

from ottla.protocol.errors import ErrorCode

MIN_ISR = 2  # where it is not changed
NODES = (1, 2, 3)


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
