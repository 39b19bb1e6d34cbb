"""Apache Kafka and Ottla serve the same data directory in turns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.interop.either_broker import SharedDirectory, why_no_broker
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.java, pytest.mark.skipif(bool(why_no_broker()), reason=str(why_no_broker()))]

TOPIC = "shared"
# Kafka enables these by default, and Ottla does not have them.
FEATURES = ("--feature", "share.version=0", "--feature", "streams.version=0")


@contextmanager
def member_of(group: str, address: str) -> Iterator[Consumer]:
    """A member of a KIP-848 group, which stays while brokers come and go."""
    member = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    member.subscribe([TOPIC])
    try:
        yield member
    finally:
        member.close()


def write(address: str, text: str) -> None:
    producer = Producer({"bootstrap.servers": address, "log_level": 0})
    producer.produce(TOPIC, text)
    assert producer.flush(30) == 0


def next_of(member: Consumer) -> bytes | None:
    """The value of the next record, whose offset is then committed."""

    def poll() -> Message[bytes, bytes] | None:
        found = member.poll(0.1)
        return None if found is None or found.error() else found

    message = wait_until(poll, "a record")
    assert message is not None
    member.commit(message=message, asynchronous=False)
    return message.value()


def described(address: str, group: str) -> Any:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    return admin.describe_consumer_groups([group])[group].result(30)


def committed(address: str, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(TOPIC, 0)])
    found = admin.list_consumer_group_offsets([asked])[group].result(30)
    return int(found.topic_partitions[0].offset)


@pytest.mark.parametrize("first", ["ottla", "kafka"])
def test_groups_and_records_stay(tmp_path: Path, first: str) -> None:
    directory = SharedDirectory(tmp_path)
    if first == "kafka":
        directory.format_by_kafka(*FEATURES)
    turns = [directory.ottla, directory.kafka, directory.ottla]
    with ExitStack() as members:
        joined: dict[str, tuple[Consumer, str]] = {}
        for turn, serving in enumerate(turns if first == "ottla" else [*turns[1:], directory.kafka]):
            with serving() as address:
                write(address, f"record {turn}")
                for group, (member, member_id) in joined.items():
                    assert next_of(member) == b"record %d" % turn
                    # Nobody had to join again: the broker has loaded the member that the other one wrote.
                    (row,) = described(address, group).members
                    assert row.member_id == member_id
                    assert committed(address, group) == turn + 1
                group = f"group-{turn}"
                member = members.enter_context(member_of(group, address))
                for expected in range(turn + 1):
                    assert next_of(member) == b"record %d" % expected
                (row,) = described(address, group).members
                joined[group] = (member, row.member_id)
