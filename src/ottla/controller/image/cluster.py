"""The state of the cluster as the records of `__cluster_metadata` give it; `apply` is all that changes it.

Records that nothing acts upon yet (access control, quotas, credentials, tokens) are kept by their
identity, so that a snapshot written by this node loses none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.controller.image.parts import LEADER_UNCHANGED, BrokerImage, ImageDelta, PartitionImage, TopicImage
from ottla.protocol.message import Message

RESOURCE_TOPIC = 2
RESOURCE_BROKER = 4
RESOURCE_GROUP = 32


class ImageError(ValueError):
    """A record that does not follow from those before it: the log is damaged, or newer than we know."""


class ClusterImage:
    """Brokers, topics, configs and features of the cluster."""

    __slots__ = (
        "_applied",
        "_shared",
        "_transaction",
        "brokers",
        "configs",
        "controllers",
        "features",
        "kept",
        "names_folded",
        "next_producer_id",
        "topics_by_id",
        "topics_by_name",
    )

    def __init__(self) -> None:
        self.brokers: dict[int, BrokerImage] = {}
        self.controllers: dict[int, Message] = {}
        self.topics_by_id: dict[bytes, TopicImage] = {}
        self.topics_by_name: dict[str, TopicImage] = {}
        # Names with '.' or '_' by what they have in common: such topics would share the names of metrics.
        self.names_folded: dict[str, str] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.kept: dict[tuple[Any, ...], Message] = {}
        self._shared: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._transaction: list[Message] | None = None
        self._applied: dict[int, Callable[[Any, ImageDelta | None], None]] = {
            0: self._register_broker,
            1: self._unregister_broker,
            2: self._topic,
            3: self._partition,
            4: self._config,
            5: self._partition_change,
            7: self._fence_broker,
            8: self._unfence_broker,
            9: self._remove_topic,
            12: self._feature_level,
            15: self._producer_ids,
            17: self._broker_registration_change,
            20: self._nothing,
            27: self._register_controller,
            28: self._clear_elr,
        }

    def apply(self, record: Message, delta: ImageDelta | None = None) -> None:
        """Takes over one record; `delta` collects what changed."""
        key = record.API_KEY
        if self._transaction is not None or 23 <= key <= 25:
            self._in_transaction(record, delta)
            return
        handler = self._applied.get(key)
        if handler is not None:
            handler(record, delta)
        else:
            self._keep(record)

    def broker_config(self, broker_id: int) -> dict[str, str]:
        return self.configs.get((RESOURCE_BROKER, str(broker_id)), {})

    def cluster_config(self) -> dict[str, str]:
        """The dynamic configuration of all brokers."""
        return self.configs.get((RESOURCE_BROKER, ""), {})

    def topic_config(self, name: str) -> dict[str, str]:
        return self.configs.get((RESOURCE_TOPIC, name), {})

    def active_brokers(self) -> list[int]:
        return [broker_id for broker_id, broker in self.brokers.items() if broker.active]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClusterImage):
            return NotImplemented
        hidden = ("_applied", "_shared", "_transaction")
        names = [name for name in self.__slots__ if name not in hidden]
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]

    # --- one method per kind of record

    def _register_broker(self, record: Any, delta: ImageDelta | None) -> None:
        self.brokers[record.broker_id] = BrokerImage(record)
        if delta is not None:
            delta.brokers.add(record.broker_id)

    def _unregister_broker(self, record: Any, delta: ImageDelta | None) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        del self.brokers[record.broker_id]
        if delta is not None:
            delta.brokers.add(record.broker_id)

    def _fence_broker(self, record: Any, delta: ImageDelta | None) -> None:
        self._broker(record.id, record.epoch).fenced = True
        if delta is not None:
            delta.brokers.add(record.id)

    def _unfence_broker(self, record: Any, delta: ImageDelta | None) -> None:
        self._broker(record.id, record.epoch).fenced = False
        if delta is not None:
            delta.brokers.add(record.id)

    def _broker_registration_change(self, record: Any, delta: ImageDelta | None) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        if record.fenced:
            broker.fenced = record.fenced > 0
        if record.in_controlled_shutdown:
            broker.in_controlled_shutdown = True
        if record.log_dirs:
            broker.log_dirs = tuple(record.log_dirs)
        if record.cordoned_log_dirs is not None:
            broker.cordoned_log_dirs = tuple(record.cordoned_log_dirs)
        if delta is not None:
            delta.brokers.add(record.broker_id)

    def _broker(self, broker_id: int, epoch: int) -> BrokerImage:
        broker = self.brokers.get(broker_id)
        if broker is None:
            raise ImageError(f"broker {broker_id} is not registered")
        if broker.epoch != epoch:
            raise ImageError(f"broker {broker_id} has the epoch {broker.epoch}, not {epoch}")
        return broker

    def _register_controller(self, record: Any, delta: ImageDelta | None) -> None:
        self.controllers[record.controller_id] = record

    def _topic(self, record: Any, delta: ImageDelta | None) -> None:
        name = record.name
        if name in self.topics_by_name or record.topic_id in self.topics_by_id:
            raise ImageError(f"the topic {name} exists already")
        topic = TopicImage(name, record.topic_id)
        self.topics_by_id[record.topic_id] = topic
        self.topics_by_name[name] = topic
        if "." in name or "_" in name:
            self.names_folded[name.replace(".", "_")] = name
        if delta is not None:
            delta.topics_created[record.topic_id] = topic

    def _remove_topic(self, record: Any, delta: ImageDelta | None) -> None:
        topic = self._topic_of(record.topic_id)
        del self.topics_by_id[topic.topic_id]
        del self.topics_by_name[topic.name]
        folded = topic.name.replace(".", "_")
        if self.names_folded.get(folded) == topic.name:
            del self.names_folded[folded]
        self.configs.pop((RESOURCE_TOPIC, topic.name), None)
        if delta is not None:
            delta.topic_deleted(topic)

    def _topic_of(self, topic_id: bytes) -> TopicImage:
        topic = self.topics_by_id.get(topic_id)
        if topic is None:
            raise ImageError(f"there is no topic with the id {topic_id.hex()}")
        return topic

    def _share(self, values: list[Any] | None) -> tuple[Any, ...]:
        """A tuple that partitions with the same replicas have in common."""
        key = tuple(values or ())
        return self._shared.setdefault(key, key)

    def _partition(self, record: Any, delta: ImageDelta | None) -> None:
        topic = self._topic_of(record.topic_id)
        share = self._share
        partition = PartitionImage()
        partition.replicas = share(record.replicas)
        partition.directories = share(record.directories)
        partition.isr = share(record.isr)
        partition.removing_replicas = share(record.removing_replicas)
        partition.adding_replicas = share(record.adding_replicas)
        partition.elr = share(record.eligible_leader_replicas)
        partition.last_known_elr = share(record.last_known_elr)
        partition.leader = record.leader
        partition.leader_recovery_state = record.leader_recovery_state
        partition.leader_epoch = record.leader_epoch
        partition.partition_epoch = record.partition_epoch
        if delta is not None:
            delta.partition_changed(record.topic_id, record.partition_id)
            if record.partition_id not in topic.partitions:
                delta.partitions_created.add((record.topic_id, record.partition_id))
        topic.partitions[record.partition_id] = partition

    def _partition_change(self, record: Any, delta: ImageDelta | None) -> None:
        topic = self._topic_of(record.topic_id)
        partition = topic.partitions.get(record.partition_id)
        if partition is None:
            raise ImageError(f"there is no partition {topic.name}-{record.partition_id}")
        share = self._share
        if record.isr is not None:
            partition.isr = share(record.isr)
        if record.replicas is not None:
            partition.replicas = share(record.replicas)
        if record.directories is not None:
            partition.directories = share(record.directories)
        if record.removing_replicas is not None:
            partition.removing_replicas = share(record.removing_replicas)
        if record.adding_replicas is not None:
            partition.adding_replicas = share(record.adding_replicas)
        if record.eligible_leader_replicas is not None:
            partition.elr = share(record.eligible_leader_replicas)
        if record.last_known_elr is not None:
            partition.last_known_elr = share(record.last_known_elr)
        if record.leader_recovery_state != -1:
            partition.leader_recovery_state = record.leader_recovery_state
        if record.leader != LEADER_UNCHANGED:
            # Even the same leader again is a new epoch: its log may not be what it was.
            partition.leader = record.leader
            partition.leader_epoch += 1
        partition.partition_epoch += 1
        if delta is not None:
            delta.partition_changed(record.topic_id, record.partition_id)

    def _clear_elr(self, record: Any, delta: ImageDelta | None) -> None:
        topics = [self.topics_by_name[record.topic_name]] if record.topic_name else self.topics_by_id.values()
        for topic in topics:
            for number, partition in topic.partitions.items():
                if partition.elr or partition.last_known_elr:
                    partition.elr = partition.last_known_elr = ()
                    partition.partition_epoch += 1
                    if delta is not None:
                        delta.partition_changed(topic.topic_id, number)

    def _config(self, record: Any, delta: ImageDelta | None) -> None:
        resource = (record.resource_type, record.resource_name)
        if record.value is None:
            values = self.configs.get(resource, {})
            values.pop(record.name, None)
            if not values:
                self.configs.pop(resource, None)
        else:
            self.configs.setdefault(resource, {})[record.name] = record.value
        if delta is not None:
            delta.configs.add(resource)

    def _feature_level(self, record: Any, delta: ImageDelta | None) -> None:
        if record.feature_level:
            self.features[record.name] = record.feature_level
        else:
            self.features.pop(record.name, None)
        if delta is not None:
            delta.features.add(record.name)

    def _producer_ids(self, record: Any, delta: ImageDelta | None) -> None:
        if record.next_producer_id < self.next_producer_id:
            raise ImageError(
                f"producer ids go back from {self.next_producer_id} to {record.next_producer_id}"
            )
        self.next_producer_id = record.next_producer_id

    def _nothing(self, record: Any, delta: ImageDelta | None) -> None:
        pass

    def _in_transaction(self, record: Message, delta: ImageDelta | None) -> None:
        """Kafka's controllers bracket long runs of records; they count when the closing bracket is there."""
        key = record.API_KEY
        if key == 23:
            self._transaction = []
        elif key in (24, 25):
            pending, self._transaction = self._transaction or [], None
            for each in pending if key == 24 else ():
                self.apply(each, delta)
        else:
            assert self._transaction is not None
            self._transaction.append(record)

    def _keep(self, record: Any) -> None:
        key = record.API_KEY
        kept = self.kept
        if key == 10:
            kept[10, record.token_id] = record
        elif key == 26:
            kept.pop((10, record.token_id), None)
        elif key == 11:
            kept[11, record.name, record.mechanism] = record
        elif key == 22:
            kept.pop((11, record.name, record.mechanism), None)
        elif key == 14:
            identity = (14, tuple([(e.entity_type, e.entity_name) for e in record.entity]), record.key)
            kept.pop(identity, None)
            if not record.remove:
                kept[identity] = record
        elif key == 18:
            kept[18, record.id] = record
        elif key == 19:
            kept.pop((18, record.id), None)
        elif key == 21:
            kept[21,] = record
        else:
            raise ImageError(f"metadata records of type {key} are unknown")
