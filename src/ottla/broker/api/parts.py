"""The parts of a node that request handlers use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.broker.coordinators.coordinators import Coordinators
    from ottla.broker.coordinators.groups import GroupCoordinator
    from ottla.broker.coordinators.transactions import TransactionCoordinator
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata.applier import MetadataApplier
    from ottla.broker.metadata.controller_channel import ControllerChannel
    from ottla.broker.metadata.controller_host import ControllerHost
    from ottla.broker.metadata.producer_ids import ProducerIds
    from ottla.broker.metadata.quorum_node import QuorumNode
    from ottla.broker.metadata.recent_brokers import RecentBrokers
    from ottla.broker.metadata.topic_creator import TopicCreator
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.randomness import Randomness
    from ottla.broker.replicas.manager import ReplicaManager
    from ottla.broker.replicas.partition_table import PartitionTable
    from ottla.broker.replicas.read_replica import ReadReplicaSelector
    from ottla.config.load import BrokerConfig
    from ottla.config.topic_config import ConfigLayers
    from ottla.storage.manager.log_manager import LogManager


class ApiParts(NamedTuple):
    """Built once by the node. Only the `create` functions of the API modules see it: each handler takes from
    it exactly what it uses."""

    # The node
    config: BrokerConfig
    layers: ConfigLayers
    clock: Callable[[], int]  # the wall clock
    monotonic_ms: Callable[[], int]
    identity: NodeIdentity
    randomness: Randomness
    # Metadata
    metadata: MetadataCache
    applier: MetadataApplier
    quorum: QuorumNode
    controllers: ControllerHost
    controller: ControllerChannel
    topic_creator: TopicCreator
    producer_ids: ProducerIds
    recent_brokers: RecentBrokers
    # Replicas
    logs: LogManager
    partitions: PartitionTable
    replicas: ReplicaManager
    read_replicas: ReadReplicaSelector
    # Coordinators
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    coordinators: Coordinators
