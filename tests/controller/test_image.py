"""The image: replay and snapshots yield the same image; deltas name the changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.controller.brokers.fencing import decide_fence_silent_brokers
from ottla.controller.cluster.configs import decide_incremental_alter_configs
from ottla.controller.cluster.producer_ids import decide_allocate_producer_ids
from ottla.controller.image.cluster import ClusterImage, ImageError
from ottla.controller.image.parts import ImageDelta
from ottla.controller.image.records import image_records
from ottla.controller.topics.create_partitions import decide_create_partitions
from ottla.controller.topics.create_topics import decide_create_topics
from ottla.controller.topics.delete_topics import decide_delete_topics
from ottla.protocol.api import message_class
from ottla.protocol.messages.abort_transaction_record import AbortTransactionRecord
from ottla.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from ottla.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from ottla.protocol.messages.begin_transaction_record import BeginTransactionRecord
from ottla.protocol.messages.client_quota_record import ClientQuotaRecord, EntityData
from ottla.protocol.messages.config_record import ConfigRecord
from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ottla.protocol.messages.end_transaction_record import EndTransactionRecord
from ottla.protocol.messages.feature_level_record import FeatureLevelRecord
from ottla.protocol.messages.fence_broker_record import FenceBrokerRecord
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.no_op_record import NoOpRecord
from ottla.protocol.messages.partition_change_record import PartitionChangeRecord
from ottla.protocol.messages.partition_record import PartitionRecord
from ottla.protocol.messages.producer_ids_record import ProducerIdsRecord
from ottla.protocol.messages.register_broker_record import RegisterBrokerRecord
from ottla.protocol.messages.register_controller_record import RegisterControllerRecord
from ottla.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from ottla.protocol.messages.remove_topic_record import RemoveTopicRecord
from ottla.protocol.messages.table import METADATA_RECORDS
from ottla.protocol.messages.topic_record import TopicRecord
from ottla.protocol.messages.unfence_broker_record import UnfenceBrokerRecord

NAMES = st.sampled_from(["a", "b", "c.d", "c_d", "bad/name", ""])
ID = b"t" * 16


class Commands(RuleBasedStateMachine):
    """Any commands in any order: the log of their records, and a snapshot, give the same image."""

    Harness: Any

    def __init__(self) -> None:
        super().__init__()
        self.harness = Commands.Harness()
        self.harness.start_broker(1)

    @rule(
        name=NAMES,
        partitions=st.integers(-2, 5),
        factor=st.integers(-2, 4),
        retention=st.sampled_from(["5", "x"]),
    )
    def create(self, name: str, partitions: int, factor: int, retention: str) -> None:
        configs = [CreatableTopicConfig(name="retention.ms", value=retention)]
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=factor,
            configs=configs if partitions > 2 else [],
        )
        request = CreateTopicsRequest(topics=[topic])
        self.harness.append(decide_create_topics(self.harness.context, request).records)

    @rule(names=st.lists(NAMES, max_size=3))
    def delete(self, names: list[str]) -> None:
        request = DeleteTopicsRequest(topic_names=names)
        self.harness.append(decide_delete_topics(self.harness.context, request).records)

    @rule(name=NAMES, count=st.integers(-1, 9))
    def grow(self, name: str, count: int) -> None:
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=count, assignments=None)]
        )
        self.harness.append(decide_create_partitions(self.harness.context, request).records)

    @rule(
        on=st.sampled_from([(2, "a"), (2, "b"), (4, ""), (4, "1"), (4, "2")]),
        name=st.sampled_from(["retention.ms", "cleanup.policy", "num.io.threads", "log.cleanup.policy"]),
        operation=st.integers(0, 3),
        value=st.sampled_from(["5", "compact", "delete"]),
    )
    def alter(self, on: tuple[int, str], name: str, operation: int, value: str) -> None:
        config = AlterableConfig(name=name, config_operation=operation, value=value)
        resource = AlterConfigsResource(resource_type=on[0], resource_name=on[1], configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        self.harness.append(decide_incremental_alter_configs(self.harness.context, request).records)

    @rule(
        broker_id=st.integers(1, 3), incarnation=st.integers(1, 3), rack=st.sampled_from([None, "r1", "r2"])
    )
    def register(self, broker_id: int, incarnation: int, rack: str | None) -> None:
        self.harness.register(broker_id, rack, incarnation)

    @rule(broker_id=st.integers(1, 3), fence=st.booleans(), leave=st.booleans())
    def heartbeat(self, broker_id: int, fence: bool, leave: bool) -> None:
        broker = self.harness.image.brokers.get(broker_id)
        self.harness.heartbeat(
            broker_id, broker.epoch if broker else 0, want_fence=fence, want_shut_down=leave
        )

    @rule(ms=st.sampled_from([1_000, 5_000, 10_000]))
    def wait(self, ms: int) -> None:
        self.harness.now_ms += ms
        decision = decide_fence_silent_brokers(self.harness.context, self.harness.now_ms)
        self.harness.append(decision.records)

    @rule()
    def producer_ids(self) -> None:
        broker = self.harness.image.brokers[1]
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=broker.epoch)
        self.harness.append(decide_allocate_producer_ids(self.harness.context, request).records)

    @invariant()
    def replay_and_snapshot_give_the_same_image(self) -> None:
        image = self.harness.image
        replayed = ClusterImage()
        for record in self.harness.log:
            replayed.apply(record)
        assert replayed == image
        restored = ClusterImage()
        for record in image_records(image):
            restored.apply(record)
        assert restored == image

    @invariant()
    def leaders_are_active_replicas_in_sync(self) -> None:
        image = self.harness.image
        for topic in image.topics_by_id.values():
            assert image.topics_by_name[topic.name] is topic
            assert sorted(topic.partitions) == list(range(len(topic.partitions)))
            for partition in topic.partitions.values():
                assert set(partition.isr) <= set(partition.replicas)
                assert partition.isr or partition.elr or partition.last_known_elr
                if partition.leader != -1:
                    assert partition.leader in partition.isr
                    alone = partition.replicas == (partition.leader,)
                    assert alone or image.brokers[partition.leader].active
                else:
                    eligible = partition.isr or partition.elr
                    assert not any(image.brokers[each].active for each in eligible)


def test_any_commands(new_harness: Any) -> None:
    Commands.Harness = new_harness
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        Commands, settings=settings(max_examples=40, stateful_step_count=25, deadline=None)
    )


@pytest.mark.parametrize("name", METADATA_RECORDS.values())
def test_every_type_of_metadata_record_is_known(name: str) -> None:
    record = message_class(name)()
    try:
        ClusterImage().apply(record)
    except ImageError as error:
        assert "unknown" not in str(error)


def test_delta_names_the_changes() -> None:
    image = ClusterImage()
    delta = ImageDelta()
    assert not delta
    image.apply(FeatureLevelRecord(name="metadata.version", feature_level=30), delta)
    image.apply(RegisterBrokerRecord(broker_id=1, broker_epoch=5), delta)
    image.apply(TopicRecord(name="t", topic_id=ID), delta)
    image.apply(PartitionRecord(topic_id=ID, partition_id=0, replicas=[1], isr=[1], leader=1), delta)
    image.apply(PartitionRecord(topic_id=ID, partition_id=1, replicas=[1], isr=[1], leader=1), delta)
    image.apply(ConfigRecord(resource_type=2, resource_name="t", name="flush.ms", value="5"), delta)
    assert delta
    assert delta.features == {"metadata.version"}
    assert delta.brokers == {1}
    assert delta.configs == {(2, "t")}
    assert delta.partitions == {ID: {0, 1}}
    assert [topic.name for topic in delta.topics_created.values()] == ["t"]
    delta = ImageDelta()
    image.apply(PartitionChangeRecord(topic_id=ID, partition_id=1, leader=-1), delta)
    assert delta.partitions == {ID: {1}}
    assert image.topics_by_id[ID].partitions[1].leader_epoch == 0
    image.apply(RemoveTopicRecord(topic_id=ID), delta)
    assert delta.partitions == {}
    assert len(delta.topics_deleted[ID].partitions) == 2
    assert image.configs == {}


def test_old_records_for_fencing() -> None:
    image = ClusterImage()
    image.apply(RegisterBrokerRecord(broker_id=1, broker_epoch=5))
    image.apply(UnfenceBrokerRecord(id=1, epoch=5))
    assert image.brokers[1].active
    image.apply(FenceBrokerRecord(id=1, epoch=5))
    assert not image.brokers[1].active
    with pytest.raises(ImageError, match="epoch 5, not 6"):
        image.apply(FenceBrokerRecord(id=1, epoch=6))
    with pytest.raises(ImageError, match="not registered"):
        image.apply(FenceBrokerRecord(id=2, epoch=6))


def test_records_that_do_not_follow() -> None:
    image = ClusterImage()
    image.apply(TopicRecord(name="t", topic_id=ID))
    with pytest.raises(ImageError, match="exists"):
        image.apply(TopicRecord(name="t", topic_id=b"u" * 16))
    with pytest.raises(ImageError, match="no topic"):
        image.apply(RemoveTopicRecord(topic_id=b"u" * 16))
    with pytest.raises(ImageError, match="t-0"):
        image.apply(PartitionChangeRecord(topic_id=ID, partition_id=0))
    image.apply(ProducerIdsRecord(next_producer_id=1000))
    with pytest.raises(ImageError, match="go back"):
        image.apply(ProducerIdsRecord(next_producer_id=999))


def test_records_only_kept_are_in_the_snapshot() -> None:
    image = ClusterImage()
    entry = AccessControlEntryRecord(id=b"1" * 16)
    quota = ClientQuotaRecord(entity=[EntityData(entity_type="user", entity_name="u")], key="k", value=1.0)
    controller = RegisterControllerRecord(controller_id=1)
    for record in (entry, quota, controller, NoOpRecord()):
        image.apply(record)
    assert list(image_records(image)) == [controller, entry, quota]
    image.apply(RemoveAccessControlEntryRecord(id=b"1" * 16))
    quota_gone = ClientQuotaRecord(entity=quota.entity, key="k", remove=True)
    image.apply(quota_gone)
    assert list(image_records(image)) == [controller]


def test_metadata_transactions_count_when_they_end() -> None:
    image = ClusterImage()
    image.apply(BeginTransactionRecord())
    image.apply(TopicRecord(name="t", topic_id=ID))
    assert not image.topics_by_name
    image.apply(EndTransactionRecord())
    assert "t" in image.topics_by_name
    image.apply(BeginTransactionRecord())
    image.apply(RemoveTopicRecord(topic_id=ID))
    image.apply(AbortTransactionRecord())
    assert "t" in image.topics_by_name


def test_partitions_share_their_lists() -> None:
    image = ClusterImage()
    image.apply(TopicRecord(name="t", topic_id=ID))
    for number in range(2):
        image.apply(PartitionRecord(topic_id=ID, partition_id=number, replicas=[1, 2], isr=[1, 2], leader=1))
    first, second = image.topics_by_id[ID].partitions.values()
    assert first.replicas is second.replicas is first.isr
