"""What the client knows of the cluster: brokers, topics, partition leaders."""

from __future__ import annotations

import time
from typing import NamedTuple

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


class PartitionInfo(NamedTuple):
    """A partition and who holds it; `leader` is -1 while there is none."""

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
    """The last metadata seen, merged over requests that each named some topics."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.nodes: dict[int, Node] = {}
        self.topics: dict[str, TopicInfo] = {}
        self._names_by_id: dict[bytes, str] = {}
        self._learned_at_s: dict[str, float] = {}

    def learn(self, response: MetadataResponse) -> dict[str, int]:
        """Take in a response; the error code of each topic that has one."""
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        # A broker that has just started may not know its peers yet: an empty list must not strand us.
        if response.brokers:
            self.nodes = {
                row.node_id: Node(row.node_id, row.host, row.port, row.rack) for row in response.brokers
            }
        errors = {}
        for topic in response.topics:
            name = topic.name or ""
            if topic.error_code != ErrorCode.NONE:
                errors[name] = topic.error_code
                self.forget(name)
            else:
                self._learn_topic(name, topic)
        return errors

    def _learn_topic(self, name: str, topic: MetadataResponseTopic) -> None:
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
            # A broker behind the others may answer with an older leader: keep the newer epoch.
            if known is not None and known.id == topic.topic_id and row.partition_index in known.partitions:
                old = known.partitions[row.partition_index]
                if fresh.leader_epoch != -1 and old.leader_epoch > fresh.leader_epoch:
                    fresh = old
            partitions[row.partition_index] = fresh
        if known is not None and known.id != topic.topic_id:
            self._names_by_id.pop(known.id, None)
        self.topics[name] = TopicInfo(name, topic.topic_id, topic.is_internal, partitions)
        self._learned_at_s[name] = time.monotonic()
        if topic.topic_id != ZERO_UUID:
            self._names_by_id[topic.topic_id] = name

    def forget(self, name: str) -> None:
        known = self.topics.pop(name, None)
        self._learned_at_s.pop(name, None)
        if known is not None:
            self._names_by_id.pop(known.id, None)

    def expire(self, name: str) -> None:
        """Ask again before the next use, yet keep what is known: better an old picture than none."""
        if name in self._learned_at_s:
            self._learned_at_s[name] = float("-inf")

    def expire_led_by(self, node_id: int) -> None:
        """Ask again about everything that a broker leads, as far as we know."""
        for name, topic in self.topics.items():
            if any(row.leader == node_id for row in topic.partitions.values()):
                self.expire(name)

    def topic(self, name: str, max_age_ms: float) -> TopicInfo | None:
        """What is known of a topic, unless it is too old."""
        info = self.topics.get(name)
        if info is None or (time.monotonic() - self._learned_at_s[name]) * 1000 > max_age_ms:
            return None
        return info

    def name_of(self, topic_id: bytes) -> str | None:
        return self._names_by_id.get(topic_id)
