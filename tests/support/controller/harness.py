"""A controller with a log of its records and requests of brokers."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from ottla.config.load import broker_config
from ottla.controller.brokers.fencing import decide_fence_broker
from ottla.controller.brokers.heartbeat import decide_broker_heartbeat
from ottla.controller.brokers.registration import decide_register_broker
from ottla.controller.controller import Controller
from ottla.controller.effects import UncleanElection
from ottla.controller.features import SUPPORTED_FEATURES, bootstrap_records
from ottla.controller.image.cluster import ClusterImage
from ottla.controller.image.parts import ImageDelta, PartitionImage
from ottla.controller.partitions.alter_partition import decide_alter_partition
from ottla.controller.topics.create_topics import decide_create_topics
from ottla.protocol.message import Message
from ottla.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_registration_request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from ottla.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.metadata_frame import decode_metadata_record, encode_metadata_record

CLUSTER = "test-cluster"


class Harness:
    """A controller, and all its records in the order of the metadata log."""

    def __init__(self, config: dict[str, str] | None = None, seed: int = 1) -> None:
        rng = random.Random(seed)
        self.image = ClusterImage()
        self.log: list[Message] = []
        self.lost: list[UncleanElection] = []
        self.controller = Controller(
            self.image,
            broker_config(config or {}),
            cluster_id=CLUSTER,
            draw=rng.randrange,
            new_uuid=lambda: rng.randbytes(16),
        )
        self.context = self.controller.context
        self.now_ms = 1_000_000
        self.append(bootstrap_records())

    def append(self, records: Iterable[Message]) -> ImageDelta:
        """Apply records through their bytes, so that the image is built as from a log."""
        stored = []
        for record in records:
            framed = encode_metadata_record(record, record.MAX_STABLE_VERSION)
            stored.append(decode_metadata_record(framed))
        self.log += stored
        return self.controller.apply(stored)

    def register(
        self,
        broker_id: int,
        rack: str | None = None,
        incarnation: int = 1,
        dirs: int = 1,
        previous_epoch: int = -1,
        lost_contact: bool = False,
        first_dir: int | None = None,
    ) -> int:
        """Register a broker; return its epoch, or the negative error code."""
        base = 1_000_000 + broker_id * 100 if first_dir is None else first_dir
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER,
            incarnation_id=(broker_id * 1000 + incarnation).to_bytes(16),
            listeners=[Listener(name="PLAINTEXT", host="h", port=9092)],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
            rack=rack,
            log_dirs=[(base + i).to_bytes(16) for i in range(dirs)],
            previous_broker_epoch=previous_epoch,
        )
        decision = decide_register_broker(
            self.context, request, self.now_ms, len(self.log), lost_contact=lost_contact
        )
        self.take(decision)
        return -decision.reply.error_code if decision.reply.error_code else decision.reply.broker_epoch

    def heartbeat(self, broker_id: int, epoch: int, **fields: object) -> object:
        request = BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch)
        request.current_metadata_offset = len(self.log)
        for name, value in fields.items():
            setattr(request, name, value)
        return self.take(decide_broker_heartbeat(self.context, request, self.now_ms))

    def take(self, decision: Any) -> Any:
        """Apply a decision; return its reply, and keep its unclean elections."""
        self.append(decision.records)
        self.lost += decision.effects
        return decision.reply

    def fence(self, broker_id: int) -> None:
        broker = self.image.brokers[broker_id]
        assert self.take(decide_fence_broker(self.context, broker_id, broker.epoch))

    def restart(self, broker_id: int, *, clean: bool) -> None:
        """Register the broker again, as after a clean stop or a crash, and unfence it."""
        broker = self.image.brokers[broker_id]
        if not broker.fenced:
            self.fence(broker_id)
        self.back(broker_id, clean=clean)

    def back(self, broker_id: int, *, clean: bool, admit: bool = True) -> None:
        broker = self.image.brokers[broker_id]
        incarnation = int.from_bytes(broker.incarnation_id) - broker_id * 1000 + 1
        epoch = self.register(
            broker_id,
            rack=broker.rack,
            incarnation=incarnation,
            dirs=len(broker.log_dirs),
            previous_epoch=broker.epoch if clean else -1,
        )
        if admit:
            self.heartbeat(broker_id, epoch)

    def create(self, name: str, *replicas: list[int], **configs: str) -> None:
        """Create a topic with these replicas; config names have underscores for dots."""
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=i, broker_ids=ids)
                for i, ids in enumerate(replicas)
            ],
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=text) for key, text in configs.items()
            ],
        )
        reply = self.take(decide_create_topics(self.context, CreateTopicsRequest(topics=[topic])))
        assert reply.topics[0].error_code == 0, reply.topics[0].error_message

    def partition(self, name: str, number: int = 0) -> PartitionImage:
        return self.image.topics_by_name[name].partitions[number]

    def alter(self, name: str, isr: list[int], number: int = 0, **fields: Any) -> Any:
        """Propose an ISR as the leader; return the result of the partition."""
        partition = self.partition(name, number)
        proposal = PartitionData(
            partition_index=number,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=[
                BrokerState(broker_id=each, broker_epoch=self.image.brokers[each].epoch)
                for each in isr
                if each in self.image.brokers
            ],
        )
        for key, value in fields.items():
            setattr(proposal, key, value)
        broker_id = partition.leader
        topic_id = self.image.topics_by_name[name].topic_id
        request = AlterPartitionRequest(
            broker_id=broker_id,
            broker_epoch=self.image.brokers[broker_id].epoch,
            topics=[TopicData(topic_id=topic_id, partitions=[proposal])],
        )
        reply = self.take(decide_alter_partition(self.context, request))
        assert reply.error_code == 0
        return reply.topics[0].partitions[0]

    def start_broker(
        self, broker_id: int, rack: str | None = None, incarnation: int = 1, dirs: int = 1
    ) -> int:
        epoch = self.register(broker_id, rack, incarnation, dirs)
        self.heartbeat(broker_id, epoch)
        assert self.image.brokers[broker_id].active
        return epoch
