"""Replicas live in directories; a broker that loses one keeps the rest."""

from __future__ import annotations

from typing import Any

from ottla.controller.partitions.assign_directories import decide_assign_replicas_to_dirs
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)


def assign(harness: Any, broker_id: int, directory: bytes, name: str, *numbers: int, **fields: Any) -> Any:
    topic = harness.image.topics_by_name.get(name)
    topic_id = b"?" * 16 if topic is None else topic.topic_id
    partitions = [PartitionData(partition_index=number) for number in numbers]
    data = DirectoryData(id=directory, topics=[TopicData(topic_id=topic_id, partitions=partitions)])
    request = AssignReplicasToDirsRequest(broker_id=broker_id, directories=[data])
    broker = harness.image.brokers.get(broker_id)
    request.broker_epoch = broker.epoch if broker is not None else 0
    for key, value in fields.items():
        setattr(request, key, value)
    reply = harness.take(decide_assign_replicas_to_dirs(harness.context, request))
    if reply.error_code:
        return reply.error_code
    return [each.error_code for each in reply.directories[0].topics[0].partitions]


def two_dirs(harness: Any) -> tuple[bytes, bytes]:
    for broker_id in (1, 2):
        harness.start_broker(broker_id, dirs=2)
    harness.create("t", [1, 2], [2, 1])
    first, second = harness.image.brokers[1].log_dirs
    return first, second


def test_brokers_report_the_directories_of_replicas(new_harness: Any) -> None:
    harness = new_harness()
    first, second = two_dirs(harness)
    assert harness.partition("t").directories == (bytes(16), bytes(16))
    assert assign(harness, 1, first, "t", 0) == [0]
    assert assign(harness, 1, second, "t", 1) == [0]
    assert harness.partition("t", 0).directories == (first, bytes(16))
    assert harness.partition("t", 1).directories == (bytes(16), second)
    before = len(harness.log)
    assert assign(harness, 1, first, "t", 0) == [0]
    assert len(harness.log) == before
    harness.create("u", [2, 1])
    harness.create("v", [2])
    assert assign(harness, 1, first, "v", 0) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert assign(harness, 1, first, "u", 0, 0, 5) == [
        0,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert assign(harness, 1, first, "?", 0) == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert assign(harness, 1, first, "t", 0, broker_epoch=0) == ErrorCode.STALE_BROKER_EPOCH
    assert assign(harness, 9, first, "t", 0) == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_lost_directory_takes_its_replicas_alone(new_harness: Any) -> None:
    harness = new_harness()
    first, second = two_dirs(harness)
    harness.create("u", [1, 2])
    assign(harness, 1, first, "t", 0, 1)
    assign(harness, 1, second, "u", 0)
    epoch = harness.image.brokers[1].epoch
    harness.heartbeat(1, epoch, offline_log_dirs=[first])
    assert harness.image.brokers[1].log_dirs == (second,)
    assert (harness.partition("t").leader, harness.partition("t").isr) == (2, (2,))
    assert harness.partition("t", 1).isr == (2,)
    assert harness.partition("u").leader == 1
    before = len(harness.log)
    harness.heartbeat(1, epoch, offline_log_dirs=[first])
    assert len(harness.log) == before, "told once"
    harness.fence(2)
    assert harness.partition("t").leader == -1, "a replica in a lost directory does not lead"


def test_without_directories_a_broker_is_fenced(new_harness: Any) -> None:
    harness = new_harness()
    first, second = two_dirs(harness)
    epoch = harness.image.brokers[1].epoch
    assert harness.heartbeat(1, epoch, offline_log_dirs=[first, second]).is_fenced
    assert harness.image.brokers[1].fenced
    assert harness.partition("t").leader == 2


def test_a_new_directory_in_the_place_of_a_lost_one_is_no_copy(new_harness: Any) -> None:
    harness = new_harness()
    first, second = two_dirs(harness)
    harness.create("alone", [1])
    assign(harness, 1, first, "alone", 0)
    assign(harness, 1, first, "t", 0)
    harness.fence(2)
    harness.heartbeat(1, harness.image.brokers[1].epoch, offline_log_dirs=[first])
    assert (harness.partition("t").leader, harness.partition("t").elr) == (-1, (1,))
    assign(harness, 1, second, "t", 0)
    assert harness.partition("t").leader == 1
    assert harness.partition("t").leader_recovery_state == 1
    assign(harness, 1, second, "alone", 0)
    assert harness.partition("alone").leader == 1
    assert [each.topic for each in harness.lost] == ["t", "alone"], "it leads, but the loss is told"


def test_assigned_to_a_directory_that_is_lost(new_harness: Any) -> None:
    harness = new_harness()
    first, _ = two_dirs(harness)
    harness.heartbeat(1, harness.image.brokers[1].epoch, offline_log_dirs=[first])
    assert assign(harness, 1, first, "t", 0) == [0]
    assert (harness.partition("t").leader, harness.partition("t").isr) == (2, (2,))


def test_cordoned_directories_pass_through(new_harness: Any) -> None:
    harness = new_harness()
    first, second = two_dirs(harness)
    epoch = harness.image.brokers[1].epoch
    harness.heartbeat(1, epoch, cordoned_log_dirs=[first])
    assert harness.image.brokers[1].cordoned_log_dirs == (first,)
    before = len(harness.log)
    harness.heartbeat(1, epoch, cordoned_log_dirs=[first])
    assert len(harness.log) == before
    harness.heartbeat(1, epoch, cordoned_log_dirs=[])
    assert harness.image.brokers[1].cordoned_log_dirs == ()
    assert harness.image.brokers[1].log_dirs == (first, second)
