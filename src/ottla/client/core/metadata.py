"""Cached metadata of the cluster: brokers, topics, partition leaders."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from ottla.client.core.retry import Clock
from ottla.client.options import Address
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic


class Node(NamedTuple):
    """A broker and where it listens."""

    id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)


class PartitionInfo(NamedTuple):
    """A partition and its replicas; `leader` is -1 while there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error_code: int = 0


class TopicInfo(NamedTuple):
    """A topic as the brokers describe it; `id` is all zeros where brokers have no topic ids."""

    name: str
    id: bytes
    is_internal: bool
    partitions: dict[int, PartitionInfo]


class ClusterView:
    """The last metadata seen, merged over responses that each covered some topics.

    A shell with several threads supplies a lock as `guard`.
    """

    def __init__(self, clock: Clock, guard: AbstractContextManager[Any] | None = None) -> None:
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.nodes: dict[int, Node] = {}
        self.topics: dict[str, TopicInfo] = {}
        self._names_by_id: dict[bytes, str] = {}
        self._updated_at_s: dict[str, float] = {}
        self._clock = clock
        self._guard: AbstractContextManager[Any] = nullcontext() if guard is None else guard

    def replace_guard(self, guard: AbstractContextManager[Any]) -> None:
        """For a forked child, where another thread of the parent may have held the old one."""
        self._guard = guard

    def update(self, response: MetadataResponse, *, all_topics: bool = False) -> dict[str, int]:
        """Take over a response; the error code of each topic that has one.

        With `all_topics`, topics that are not in the response no longer exist.
        """
        with self._guard:
            self.cluster_id = response.cluster_id
            self.controller_id = response.controller_id
            # A broker that has just started may not know its peers yet: keep the known addresses.
            if response.brokers:
                self.nodes = {
                    row.node_id: Node(row.node_id, row.host, row.port, row.rack) for row in response.brokers
                }
            if all_topics:
                seen = {row.name for row in response.topics}
                for name in [name for name in self.topics if name not in seen]:
                    self._forget(name)
            errors = {}
            for topic in response.topics:
                name = topic.name or ""
                if topic.error_code != ErrorCode.NONE:
                    errors[name] = topic.error_code
                    self._forget(name)
                else:
                    self._update_topic(name, topic)
            return errors

    def _update_topic(self, name: str, topic: MetadataResponseTopic) -> None:
        known = self.topics.get(name)
        partitions = {}
        for row in topic.partitions:
            fresh = PartitionInfo(
                row.partition_index,
                row.leader_id,
                row.leader_epoch,
                tuple(row.replica_nodes),
                tuple(row.isr_nodes),
                tuple(row.offline_replicas),
                row.error_code,
            )
            # A broker whose metadata lags may name an older leader: keep the newer epoch.
            if known is not None and known.id == topic.topic_id and row.partition_index in known.partitions:
                old = known.partitions[row.partition_index]
                if fresh.leader_epoch != -1 and old.leader_epoch > fresh.leader_epoch:
                    fresh = old
            partitions[row.partition_index] = fresh
        if known is not None and known.id != topic.topic_id:
            self._names_by_id.pop(known.id, None)
        self.topics[name] = TopicInfo(name, topic.topic_id, topic.is_internal, partitions)
        self._updated_at_s[name] = self._clock.now_s()
        if topic.topic_id != ZERO_UUID:
            self._names_by_id[topic.topic_id] = name

    def forget(self, name: str) -> None:
        with self._guard:
            self._forget(name)

    def _forget(self, name: str) -> None:
        known = self.topics.pop(name, None)
        self._updated_at_s.pop(name, None)
        if known is not None:
            self._names_by_id.pop(known.id, None)

    def expire(self, name: str) -> None:
        """Refresh before the next use, but keep what is known until then."""
        with self._guard:
            self._expire(name)

    def _expire(self, name: str) -> None:
        if name in self._updated_at_s:
            self._updated_at_s[name] = float("-inf")

    def expire_led_by(self, node_id: int) -> None:
        """Expire every topic of which this broker leads a partition, according to the metadata."""
        with self._guard:
            for name, topic in self.topics.items():
                if any(row.leader == node_id for row in topic.partitions.values()):
                    self._expire(name)

    def hint(
        self,
        topic: str,
        partition: int,
        leader: int,
        leader_epoch: int,
        endpoints: Iterable[tuple[int, str, int]],
    ) -> None:
        """Take over a newer leader that a broker named when it refused a request (KIP-951)."""
        with self._guard:
            named = {node_id: Node(node_id, host, port) for node_id, host, port in endpoints}
            if named:
                self.nodes = named | self.nodes
            info = self.topics.get(topic)
            row = info.partitions.get(partition) if info is not None else None
            if row is None or info is None or leader not in self.nodes or leader_epoch <= row.leader_epoch:
                return
            newer = row._replace(leader=leader, leader_epoch=leader_epoch, error_code=0)
            self.topics[topic] = info._replace(partitions=info.partitions | {partition: newer})
            self._updated_at_s[topic] = self._clock.now_s()

    def topic(self, name: str, max_age_ms: float) -> TopicInfo | None:
        """The metadata of a topic, unless it is too old."""
        info = self.topics.get(name)
        updated_at_s = self._updated_at_s.get(name, float("-inf"))
        if info is None or (self._clock.now_s() - updated_at_s) * 1000 > max_age_ms:
            return None
        return info

    def topic_list(self) -> list[TopicInfo]:
        with self._guard:
            return list(self.topics.values())

    def name_of(self, topic_id: bytes) -> str | None:
        return self._names_by_id.get(topic_id)
