"""A snapshot that replaces an image is applied as the difference between the two."""

from __future__ import annotations

from ottla.broker.metadata.image_diff import difference
from ottla.controller.image.cluster import ClusterImage
from ottla.controller.image.records import image_records
from ottla.protocol.message import Message
from ottla.protocol.messages.config_record import ConfigRecord
from ottla.protocol.messages.feature_level_record import FeatureLevelRecord
from ottla.protocol.messages.partition_change_record import PartitionChangeRecord
from ottla.protocol.messages.partition_record import PartitionRecord
from ottla.protocol.messages.register_broker_record import RegisterBrokerRecord
from ottla.protocol.messages.remove_topic_record import RemoveTopicRecord
from ottla.protocol.messages.topic_record import TopicRecord
from ottla.protocol.messages.unfence_broker_record import UnfenceBrokerRecord

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16


def topic(topic_id: bytes, partitions: int = 2) -> list[Message]:
    return [
        TopicRecord(name=topic_id[:1].decode(), topic_id=topic_id),
        *(
            PartitionRecord(topic_id=topic_id, partition_id=index, replicas=[1, 2], isr=[1, 2], leader=1)
            for index in range(partitions)
        ),
    ]


def image(*records: Message) -> ClusterImage:
    made = ClusterImage()
    for record in records:
        made.apply(record)
    return made


BEFORE: list[Message] = [
    *(RegisterBrokerRecord(broker_id=node, broker_epoch=node) for node in (1, 2)),
    *topic(A),
    *topic(B),
    ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="1"),
    FeatureLevelRecord(name="metadata.version", feature_level=25),
]


def test_equal_images_have_no_difference() -> None:
    assert not difference(image(*BEFORE), image(*image_records(image(*BEFORE))))


def test_every_change_is_in_the_delta() -> None:
    after: list[Message] = [
        *BEFORE,
        RemoveTopicRecord(topic_id=B),
        *topic(C, 1),
        PartitionChangeRecord(topic_id=A, partition_id=1, leader=2),
        PartitionRecord(topic_id=A, partition_id=2, replicas=[1], isr=[1], leader=1),
        ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value=None),
        ConfigRecord(resource_type=4, resource_name="1", name="x", value="y"),
        UnfenceBrokerRecord(id=2, epoch=2),
        FeatureLevelRecord(name="metadata.version", feature_level=27),
    ]
    delta = difference(image(*BEFORE), image(*after))
    assert list(delta.topics_deleted) == [B] and list(delta.topics_created) == [C]
    assert delta.partitions == {A: {1, 2}, C: {0}}
    assert delta.partitions_created == {(A, 2), (C, 0)}
    assert delta.configs == {(2, "a"), (4, "1")}
    assert delta.brokers == {2}
    assert delta.features == {"metadata.version"}
