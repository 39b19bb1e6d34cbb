"""Replication throttles: which replicas count against a quota, and how much of each quota is left.

The topic properties `leader.replication.throttled.replicas` and `follower.replication.throttled.replicas` say
which; the broker properties `*.replication.throttled.rate` say how much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.replication.throttle import ReplicationQuota, ThrottledReplicas

if TYPE_CHECKING:
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.replicas.topic_settings import TopicSettings
    from ottla.config.topic_config import ConfigLayers


class ReplicationThrottles:
    def __init__(self, identity: NodeIdentity, layers: ConfigLayers) -> None:
        self._identity = identity
        self._layers = layers
        self._by_topic: dict[str, tuple[ThrottledReplicas, ThrottledReplicas]] = {}  # leaders, followers
        self.leader_quota = ReplicationQuota()
        self.follower_quota = ReplicationQuota()

    def rates_changed(self) -> None:
        """Read the rates again."""
        value = self._layers.broker_value
        self.leader_quota.bytes_per_second = value("leader.replication.throttled.rate")
        self.follower_quota.bytes_per_second = value("follower.replication.throttled.rate")

    def topic_changed(self, topic: str, settings: TopicSettings) -> None:
        if settings.throttled_leaders or settings.throttled_followers:
            self._by_topic[topic] = (settings.throttled_leaders, settings.throttled_followers)
        else:
            self._by_topic.pop(topic, None)

    def topic_deleted(self, topic: str) -> None:
        self._by_topic.pop(topic, None)

    def limits_leader(self, partition: Partition, follower_id: int) -> bool:
        """Whether records for this follower count against the leader quota. Never for a member of the ISR."""
        throttled = self._by_topic.get(partition.topic)
        if throttled is None or not throttled[0].has(partition.index, self._identity.node_id):
            return False
        return partition.leader is not None and not partition.leader.is_in_isr(follower_id)

    def limits_follower(self, partition: Partition) -> bool:
        """Whether what this broker fetches of the partition counts against the follower quota."""
        throttled = self._by_topic.get(partition.topic)
        return throttled is not None and throttled[1].has(partition.index, self._identity.node_id)
