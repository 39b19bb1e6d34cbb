"""The parts of a cluster image: brokers, topics and their partitions, in little memory."""

from __future__ import annotations

from typing import Any

from ottla.protocol.message import Value

NO_LEADER = -1
LEADER_UNCHANGED = -2


class PartitionImage(Value):
    """The replicas, ISR and leader of a partition."""

    __slots__ = (
        "adding_replicas",
        "directories",
        "elr",
        "isr",
        "last_known_elr",
        "leader",
        "leader_epoch",
        "leader_recovery_state",
        "partition_epoch",
        "removing_replicas",
        "replicas",
    )

    def __init__(self) -> None:
        self.replicas: tuple[int, ...] = ()
        self.directories: tuple[bytes, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.removing_replicas: tuple[int, ...] = ()
        self.adding_replicas: tuple[int, ...] = ()
        self.elr: tuple[int, ...] = ()
        self.last_known_elr: tuple[int, ...] = ()
        self.leader = NO_LEADER
        self.leader_recovery_state = 0
        self.leader_epoch = 0
        self.partition_epoch = 0


class TopicImage(Value):
    """A topic and its partitions by number."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: bytes) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: dict[int, PartitionImage] = {}


class BrokerImage(Value):
    """A registered broker."""

    __slots__ = (
        "broker_id",
        "cordoned_log_dirs",
        "endpoints",
        "epoch",
        "features",
        "fenced",
        "in_controlled_shutdown",
        "incarnation_id",
        "log_dirs",
        "rack",
    )

    def __init__(self, record: Any) -> None:
        self.broker_id: int = record.broker_id
        self.epoch: int = record.broker_epoch
        self.incarnation_id: bytes = record.incarnation_id
        # name, host, port and security protocol (0 is PLAINTEXT)
        self.endpoints: tuple[tuple[str, str, int, int], ...] = tuple(
            [(each.name, each.host, each.port, each.security_protocol) for each in record.end_points]
        )
        self.features: dict[str, tuple[int, int]] = {
            each.name: (each.min_supported_version, each.max_supported_version) for each in record.features
        }
        self.rack: str | None = record.rack
        self.fenced: bool = record.fenced
        self.in_controlled_shutdown: bool = record.in_controlled_shutdown
        self.log_dirs: tuple[bytes, ...] = tuple(record.log_dirs)
        cordoned = record.cordoned_log_dirs
        self.cordoned_log_dirs: tuple[bytes, ...] | None = None if cordoned is None else tuple(cordoned)

    @property
    def active(self) -> bool:
        """Whether the broker may lead partitions."""
        return not self.fenced and not self.in_controlled_shutdown


class ImageDelta:
    """What a run of records changed: partitions by topic id and index."""

    __slots__ = (
        "brokers",
        "configs",
        "features",
        "partitions",
        "partitions_created",
        "topics_created",
        "topics_deleted",
    )

    def __init__(self) -> None:
        self.topics_created: dict[bytes, TopicImage] = {}
        self.topics_deleted: dict[bytes, TopicImage] = {}
        self.partitions: dict[bytes, set[int]] = {}
        self.partitions_created: set[tuple[bytes, int]] = set()
        self.configs: set[tuple[int, str]] = set()
        self.brokers: set[int] = set()
        self.features: set[str] = set()

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)

    def partition_changed(self, topic_id: bytes, partition: int) -> None:
        self.partitions.setdefault(topic_id, set()).add(partition)

    def topic_deleted(self, topic: TopicImage) -> None:
        self.partitions.pop(topic.topic_id, None)
        # A topic created and deleted in the same run may have left files: report both.
        self.topics_deleted[topic.topic_id] = topic
