"""Which replica should serve a consumer: one in its rack, if there is one (KIP-392)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.replicas.partition import Partition
    from ottla.config.load import BrokerConfig

RACK_SELECTORS = ("RackAwareReplicaSelector", "rack")


class ReadReplicaSelector:
    def __init__(
        self,
        config: BrokerConfig,
        identity: NodeIdentity,
        metadata: MetadataCache,
        is_connected: Callable[[int], bool],
    ) -> None:
        """`is_connected`: whether a follower's fetch connection is open."""
        selector = config.get("replica.selector.class") or ""
        self._by_rack = selector.rpartition(".")[2] in RACK_SELECTORS
        self._identity = identity
        self._metadata = metadata
        self._is_connected = is_connected

    def nearest(self, partition: Partition, rack: str, fetch_offset: int) -> int:
        """The in-sync replica that should serve a consumer in that rack; this broker if none is nearer.

        A replica that has just died is never chosen: librdkafka may stay with it for 15 s and more.
        """
        node_id, brokers, leader = self._identity.node_id, self._metadata.image.brokers, partition.leader
        own = brokers.get(node_id)
        if not self._by_rack or leader is None or own is None or own.rack == rack:
            return node_id
        nearest, longest = node_id, -1
        for follower in leader.followers.values():
            broker = brokers.get(follower.node_id)
            if (
                broker is not None
                and broker.active
                and broker.rack == rack
                and leader.is_in_isr(follower.node_id)
                and self._is_connected(follower.node_id)
                and follower.log_start_offset <= fetch_offset <= follower.end_offset
                and follower.end_offset > longest
            ):
                nearest, longest = follower.node_id, follower.end_offset
        return nearest
