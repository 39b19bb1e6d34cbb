"""Consumer groups of real clients on one broker: members join, leave, die, restart and mix."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing import Cluster
from ottla.testing.topics import topic_name_for
from tests.support.interop import group_members
from tests.support.interop.group_members import (
    QUICK,
    Load,
    Member,
    assert_all_read,
    assert_one_owner,
    until_shared,
)
from tests.support.waiting import wait_until

PARTITIONS = 6
Make = Callable[..., Member]


@pytest.fixture(scope="module")
def groups_cluster() -> Iterator[Cluster]:
    with Cluster(config=QUICK) as cluster:
        yield cluster


@pytest.fixture
def make(groups_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Callable[..., Member]]:
    """Creates members of one group on one topic, stopped at the end: `make("java", "static name")`."""
    servers = groups_cluster.bootstrap_servers
    topic = topic_name_for(request.node.name)
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    kinds: dict[str, Any] = {
        "confluent": group_members.ConfluentMember,
        "cooperative": group_members.CooperativeMember,
        "confluent-848": group_members.ConsumerProtocolMember,
        "kafka-python": group_members.KafkaPythonMember,
        "aiokafka": group_members.AiokafkaMember,
        "java": group_members.JavaMember,
        "java-848": group_members.JavaConsumerProtocolMember,
    }
    made: list[Member] = []

    def start(kind: str, instance: str | None = None) -> Member:
        leading = (request.getfixturevalue("group_jvm"),) if kind.startswith("java") else ()
        member: Member = kinds[kind](*leading, servers, topic, topic, instance=instance)
        made.append(member.start())
        return member

    start.topic = topic  # type: ignore[attr-defined]
    start.servers = servers  # type: ignore[attr-defined]
    yield start
    for member in made:
        member.stop()


def load_of(make: Any) -> Load:
    load = Load(make.servers, make.topic, PARTITIONS)
    load.start()
    return load


def read_up(members: list[Member], written: set[Any]) -> None:
    def all_read() -> bool:
        for member in members:
            member.refresh()
        return written <= {place for member in members for place in member.records}

    wait_until(all_read, members)


KINDS = ["confluent", "cooperative", "confluent-848", "kafka-python", "aiokafka", "java", "java-848"]


@pytest.mark.parametrize("kind", KINDS)
def test_members_come_and_go_under_load(make: Any, kind: str) -> None:
    load = load_of(make)
    members = [make(kind)]
    until_shared(members, PARTITIONS)
    members += [make(kind), make(kind)]
    until_shared(members, PARTITIONS)
    members[0].stop()
    until_shared(members[1:], PARTITIONS)
    members[1].stop()
    until_shared(members[2:], PARTITIONS)
    written = load.stop()
    read_up(members, written)
    members[2].stop()
    # The next member continues at the committed offsets.
    another = make(kind)
    members.append(another)
    until_shared([another], PARTITIONS)
    producer = confluent_kafka.Producer({"bootstrap.servers": make.servers})
    producer.produce(make.topic, b"last", partition=0)
    producer.flush()
    wait_until(lambda: another.refresh() or len(another.records) > 0, another)
    assert_one_owner(members)
    assert_all_read(members, written, again_max=len(written) // 4)
    assert len(another.records) <= 5, "offsets were committed before the last member left"


@pytest.mark.parametrize(
    "kinds", [["confluent", "kafka-python", "aiokafka", "java"], ["confluent", "java-848"]]
)
def test_different_clients_share_a_group(make: Any, kinds: list[str]) -> None:
    """In the second case the group converts to the consumer protocol and back."""
    load = load_of(make)
    members: list[Member] = []
    for kind in kinds:
        members.append(make(kind))
        until_shared(members, PARTITIONS)
    for number in range(1, len(members)):
        members[number].stop()
        staying = [members[0], *members[number + 1 :]]
        until_shared(staying, PARTITIONS)
    written = load.stop()
    read_up(members, written)
    assert_one_owner(members)
    assert all(member.failure is None for member in members), members


@pytest.mark.parametrize("kind", ["confluent", "confluent-848", "java"])
def test_a_static_member_restarts_unnoticed(make: Any, kind: str) -> None:
    members = [make(kind, "first"), make(kind, "second")]
    until_shared(members, PARTITIONS)
    kept, given = len(members[0].events), members[1].owned()
    members[1].stop()
    back = make(kind, "second")
    wait_until(lambda: back.owned() == given, (given, back))
    time.sleep(1)
    members[0].refresh()
    assert len(members[0].events) == kept, "the other member was not affected"


DYING = """
import sys, confluent_kafka
servers, topic, protocol = sys.argv[1:]
more = {"group.protocol": "consumer"}
if protocol != "consumer":
    more = {"session.timeout.ms": 2000, "heartbeat.interval.ms": 300}
consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": topic, **more})
consumer.subscribe([topic], on_assign=lambda c, given: print(len(given), flush=True))
while True:
    consumer.poll(0.1)
"""


@pytest.mark.parametrize("kind", ["confluent", "confluent-848"])
def test_partitions_of_a_killed_member_are_taken_over(make: Any, kind: str) -> None:
    protocol = "consumer" if kind == "confluent-848" else "classic"
    staying = make(kind)
    until_shared([staying], PARTITIONS)
    dying = subprocess.Popen(
        [sys.executable, "-c", DYING, make.servers, make.topic, protocol], stdout=subprocess.PIPE, text=True
    )
    with dying:
        wait_until(lambda: len(staying.owned()) == PARTITIONS // 2, staying)
        dying.kill()
    until_shared([staying], PARTITIONS, limit_s=15)


def test_a_group_is_described_reset_and_deleted(make: Any, groups_cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": make.servers})
    group = make.topic
    member = make("confluent")
    until_shared([member], PARTITIONS)
    described = admin.describe_consumer_groups([group])[group].result()
    assert described.state == confluent_kafka.ConsumerGroupState.STABLE
    assert len(described.members[0].assignment.topic_partitions) == PARTITIONS
    assert described.members[0].host == "/127.0.0.1"
    places = [confluent_kafka.TopicPartition(group, 0, 7)]
    wanted = confluent_kafka.ConsumerGroupTopicPartitions(group, places)
    altered = admin.alter_consumer_group_offsets([wanted])[group].result()
    assert altered.topic_partitions[0].error.code() == confluent_kafka.KafkaError.UNKNOWN_MEMBER_ID
    member.stop()
    altered = admin.alter_consumer_group_offsets([wanted])[group].result()
    assert altered.topic_partitions[0].error is None
    query = [confluent_kafka.ConsumerGroupTopicPartitions(group)]
    reply = admin.list_consumer_group_offsets(query)[group].result()
    assert (reply.topic_partitions[0].partition, reply.topic_partitions[0].offset) == (0, 7)
    admin.delete_consumer_groups([group])[group].result()
    listed = admin.list_consumer_groups().result().valid
    assert group not in [each.group_id for each in listed]


def test_a_consumer_without_membership_commits(make: Any) -> None:
    settings = {"bootstrap.servers": make.servers, "group.id": make.topic, "enable.auto.commit": False}
    with closing(confluent_kafka.Consumer(settings)) as consumer:
        place = confluent_kafka.TopicPartition(make.topic, 1, 12)
        consumer.commit(offsets=[place], asynchronous=False)
    with closing(confluent_kafka.Consumer(settings)) as consumer:
        (found,) = consumer.committed([confluent_kafka.TopicPartition(make.topic, 1)], timeout=10)
        assert found.offset == 12


def test_committed_offsets_survive_a_restart(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"group.id": "g", "enable.auto.commit": False}
    with Cluster(config=QUICK, data_dir=tmp_path) as cluster:
        settings["bootstrap.servers"] = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("t", 2, 1)])["t"].result()
        with closing(confluent_kafka.Consumer(settings)) as consumer:
            consumer.commit(offsets=[confluent_kafka.TopicPartition("t", 1, 3)], asynchronous=False)
        for again in (cluster.restart, cluster.kill):
            again()
            cluster.start()
            with closing(confluent_kafka.Consumer(settings)) as consumer:
                (found,) = consumer.committed([confluent_kafka.TopicPartition("t", 1)], timeout=10)
                assert found.offset == 3


def test_clients_cannot_write_to_consumer_offsets(make: Any) -> None:
    settings = {"bootstrap.servers": make.servers, "group.id": make.topic, "enable.auto.commit": False}
    with closing(confluent_kafka.Consumer(settings)) as consumer:
        consumer.commit(offsets=[confluent_kafka.TopicPartition(make.topic, 1, 12)], asynchronous=False)
    for client_id, expected in (
        ("stranger", confluent_kafka.KafkaError.TOPIC_EXCEPTION),
        ("__admin_client", None),
    ):
        producer = confluent_kafka.Producer({"bootstrap.servers": make.servers, "client.id": client_id})
        reply: list[Any] = []
        note = reply.append
        for _ in range(2):
            producer.produce(
                "__consumer_offsets", b"v", b"\0\7k", 0, on_delivery=lambda error, _, note=note: note(error)
            )
            producer.flush()
        assert [error and error.code() for error in reply] == [expected, expected]
