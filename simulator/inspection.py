"""The state inside nodes: leaders, committed metadata, log contents. Clients see only part of it.

Everything here is read-only. No other module of the simulator reads the internals of a broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from ottla.controller.image.cluster import ClusterImage
from ottla.controller.image.parts import NO_LEADER
from ottla.protocol.messages.partition_change_record import PartitionChangeRecord
from ottla.quorum.framing import batch_messages
from ottla.quorum.raft.machine import LEADER
from ottla.records.batch import BatchHeader, iter_headers
from simulator.clients.base import values_in
from simulator.history.operations import PartitionName
from simulator.world import Node, World

if TYPE_CHECKING:
    from ottla.broker.metadata.raft_driver import RaftDriver
    from ottla.broker.node import Node as Broker
    from ottla.storage.log import PartitionLog

READ_BYTES = 64 * 1024
PERIOD_S = 0.01


class Watcher:
    """Records leaders and committed metadata of all nodes every few milliseconds."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.stopping = False
        self._seen: dict[tuple[Node, str], tuple[Any, ...]] = {}

    async def run(self) -> None:
        while not self.stopping:
            for node in self.world.nodes.values():
                if node.broker is not None:
                    self._observe_partitions(node, node.broker)
                    self._observe_quorum(node)
            await asyncio.sleep(PERIOD_S)

    def _is_new(self, node: Node, what: str, *state: Any) -> bool:
        """Return whether the state differs from that of the previous call."""
        before = self._seen.get((node, what))
        self._seen[node, what] = state
        return before != state

    def _observe_partitions(self, node: Node, broker: Broker) -> None:
        if self._is_new(node, "image", node.starts, broker.metadata.offset):
            for partition in broker.partitions:
                if partition.leader_id == node.id:
                    name = PartitionName(partition.topic, partition.index)
                    self.world.history.saw_leader(name, partition.leader_epoch, node.id)

    def _observe_quorum(self, node: Node) -> None:
        history = self.world.history
        driver = raft_of(node)
        if driver is None:
            return
        machine = driver.machine
        if not self._is_new(node, "quorum", machine.role, machine.epoch, machine.high_watermark):
            return
        if machine.role == LEADER:
            history.raft_leaders[machine.epoch, node.id] = None
        last = machine.high_watermark - 1
        log = driver.log.log
        if log.log_start_offset <= last < log.log_end_offset:
            history.committed_metadata[last, log.leader_epochs.epoch_for_offset(last)] = None


def raft_of(node: Node) -> RaftDriver | None:
    """The node's Raft driver, once it is started."""
    if node.broker is None or not node.broker.quorum_node.is_started:
        return None
    return node.broker.quorum_node.raft


def active_controllers(world: World) -> list[Node]:
    """The nodes in the role of quorum leader; a deposed leader may be among them for a while."""
    found = []
    for node in world.nodes_up:
        driver = raft_of(node)
        if driver is not None and driver.machine.role == LEADER:
            found.append(node)
    return found


def quorum_epoch_of(node: Node) -> int:
    """The quorum epoch that the node is in."""
    driver = raft_of(node)
    return -1 if driver is None else driver.machine.epoch


def has_voted_since(node: Node, epoch: int) -> bool:
    """Return whether the node has voted for another node in an epoch after `epoch`."""
    driver = raft_of(node)
    voted = None if driver is None else driver.machine.node.voted
    return voted is not None and voted[0] != node.id and quorum_epoch_of(node) > epoch


def newest_image(world: World) -> ClusterImage | None:
    """The newest metadata image of any node."""
    images = [
        (node.broker.metadata.offset, -node.id, node.broker.metadata.image)
        for node in world.nodes_up
        if node.broker
    ]
    return max(images, key=lambda each: each[:2])[2] if images else None


def leaders(world: World, topic: str) -> list[Node]:
    """The nodes that lead a partition of the topic."""
    image = newest_image(world)
    known = image.topics_by_name.get(topic) if image is not None else None
    if known is None:
        return []
    ids = dict.fromkeys(partition.leader for partition in known.partitions.values())
    return [world.nodes[node_id] for node_id in ids if node_id in world.nodes]


def leader_of(world: World, topic: str, index: int) -> Node | None:
    image = newest_image(world)
    known = image.topics_by_name.get(topic) if image is not None else None
    return None if known is None else world.nodes.get(known.partitions[index].leader)


def all_in_sync(world: World) -> bool:
    """Return whether every partition has a leader and a full ISR in the newest metadata image."""
    image = newest_image(world)
    return image is not None and all(
        len(partition.isr) == len(partition.replicas) and partition.leader != NO_LEADER
        for topic in image.topics_by_id.values()
        for partition in topic.partitions.values()
    )


def all_have_same_metadata(world: World) -> bool:
    """Return whether all nodes are up and have applied the same metadata offset."""
    known = [node.broker.metadata.offset for node in world.nodes.values() if node.broker is not None]
    return len(known) == len(world.nodes) and min(known) == max(known)


# -- logs


def replica_records(node: Node, name: PartitionName) -> list[tuple[int, str]] | None:
    """A node's records of a partition below its high watermark, or None if it has no replica."""
    partition = node.broker.partitions.by_name(*name) if node.broker is not None else None
    if partition is None:
        return None
    found: list[tuple[int, str]] = []
    for data, _, _ in _batches(partition.log, partition.high_watermark):
        found += values_in(data)
    return [(offset, value) for offset, value in found if offset < partition.high_watermark]


def replica_batches(node: Node, name: PartitionName) -> bytes | None:
    """A node's batches of a partition below its high watermark, as bytes."""
    partition = node.broker.partitions.by_name(*name) if node.broker is not None else None
    if partition is None:
        return None
    return b"".join(data for data, _, _ in _batches(partition.log, partition.high_watermark))


def committed_batches(node: Node) -> dict[int, tuple[int, int]]:
    """Leader epoch and CRC of the batches below the high watermark of the node's metadata log."""
    driver = raft_of(node)
    if driver is None:
        return {}
    return {
        header.base_offset: (header.leader_epoch, header.crc)
        for _, _, header in _batches(driver.log.log, driver.machine.high_watermark)
    }


def unclean_elections(node: Node) -> list[str]:
    """Elections of nodes that were neither in the ISR nor in the ELR, from the node's metadata log."""
    driver = raft_of(node)
    if driver is None or driver.log.log.log_start_offset > 0:
        return []
    image = ClusterImage()
    found = []
    for data, position, header in _batches(driver.log.log, driver.machine.high_watermark):
        if header.is_control:
            continue
        for offset, message in batch_messages(data, position, header):
            if isinstance(message, PartitionChangeRecord):
                before = image.topics_by_id[message.topic_id].partitions[message.partition_id]
                # If the ISR is empty the last leader is elected; one record contains both if the last
                # in-sync replica returned without the end of its log.
                trusted = (*before.isr, *before.elr, *before.last_known_elr)
                image.apply(message)
                after = image.topics_by_id[message.topic_id].partitions[message.partition_id]
                # A replica that completes a reassignment may join the ISR and lead in one record.
                alone = after.leader_recovery_state or len(after.isr) == 1
                if after.leader not in (NO_LEADER, *trusted) and alone:
                    topic = image.topics_by_id[message.topic_id].name
                    text = f"{after.leader} leads {topic}-{message.partition_id}, {trusted} were in sync"
                    found.append(f"{text} (metadata offset {offset})")
            else:
                image.apply(message)
    return found


def _batches(log: PartitionLog, upper: int) -> Iterator[tuple[bytes, int, BatchHeader]]:
    """Yield single batches: bytes, position of the batch in them (0), header."""
    offset = log.log_start_offset
    while offset < upper:
        data = bytes(log.read(offset, READ_BYTES, upper).read())
        before = offset
        for position, header in iter_headers(data):
            offset = header.next_offset
            yield data[position : position + header.size_bytes], 0, header
        if offset == before:
            return


def undecided_partitions(world: World, topics: Collection[str]) -> list[str]:
    """Partitions whose last stable offset is below the high watermark at their leader."""
    found = []
    for node in world.nodes_up:
        for partition in () if node.broker is None else node.broker.partitions:
            if partition.topic in topics and partition.leader_id == node.id:
                stable, high = partition.last_stable_offset, partition.high_watermark
                if stable < high:
                    found.append(
                        f"{partition.topic}-{partition.index} has LSO {stable}, high watermark {high}"
                    )
    return found
