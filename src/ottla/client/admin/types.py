"""Arguments and results of the admin client: plain values, no wire structures."""

from __future__ import annotations

from typing import NamedTuple

from ottla.client.core.metadata import Node

# DescribeConfigs: where a value comes from.
SOURCE_NAMES = {
    1: "topic",
    2: "broker",
    3: "cluster",
    4: "static",
    5: "default",
    6: "broker logger",
    7: "client metrics",
    8: "group",
}
# DescribeConfigs and IncrementalAlterConfigs: what a config belongs to.
RESOURCE_TOPIC = 2
RESOURCE_BROKER = 4


class NewTopic(NamedTuple):
    """A topic to create; -1 leaves partitions or replicas to the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: dict[str, str] = {}  # noqa: RUF012 (never changed: NamedTuple has no factories)
    assignments: dict[int, list[int]] = {}  # noqa: RUF012


class CreatedTopic(NamedTuple):
    """A topic as it was created; -1 and zeros where an older broker does not report it."""

    name: str
    id: bytes
    partitions: int
    replication_factor: int


class ConfigEntry(NamedTuple):
    """One config of a topic or broker and where its value comes from."""

    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source == 5

    @property
    def source_name(self) -> str:
        return SOURCE_NAMES.get(self.source, "unknown")


class ReplicaSize(NamedTuple):
    """The size of a replica in a log directory."""

    node_id: int
    log_dir: str
    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirInfo(NamedTuple):
    """A log directory of a broker; sizes are -1 where an older broker does not report them."""

    node_id: int
    path: str
    error_code: int
    total_bytes: int
    usable_bytes: int
    replicas: list[ReplicaSize]


class ClusterInfo(NamedTuple):
    """The brokers of a cluster."""

    cluster_id: str
    controller_id: int
    nodes: list[Node]


class QuorumReplica(NamedTuple):
    """A voter or observer of the metadata quorum; times are -1 where the leader does not report them."""

    node_id: int
    directory_id: bytes
    end_offset: int
    lag: int
    last_fetch_ms: int
    last_caught_up_ms: int


class QuorumInfo(NamedTuple):
    """The metadata quorum; its leader is the active controller, -1 if there is none."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: list[QuorumReplica]
    observers: list[QuorumReplica]


class PartitionState(NamedTuple):
    """A partition with the replicas that may lead it when none is in sync (KIP-966)."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error_code: int = 0


class TopicState(NamedTuple):
    """A topic and the states of its partitions."""

    name: str
    id: bytes
    is_internal: bool
    partitions: dict[int, PartitionState]


class Reassignment(NamedTuple):
    """A running reassignment: the current replicas, those being added and those being removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after it."""
        return tuple(node_id for node_id in self.replicas if node_id not in self.removing)
