"""Consumer groups of real clients on three brokers while the coordinator dies."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
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
from tests.support.interop.wire import Wire
from tests.support.waiting import wait_until

PARTITIONS = 6


@pytest.fixture(scope="module")
def groups_trio() -> Iterator[Cluster]:
    with Cluster(brokers=3, config=QUICK) as cluster:
        yield cluster


def coordinator(cluster: Cluster, group: str) -> int:
    for address in cluster.bootstrap_servers.split(","):
        with Wire(address) as wire:
            (found,) = wire.ask(FindCoordinatorRequest(coordinator_keys=[group])).coordinators
            if not found.error_code:
                return int(found.node_id)
    raise AssertionError("no broker knows the coordinator")


@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        ("confluent", "at rest"),
        ("confluent-848", "at rest"),
        ("aiokafka", "at rest"),
        ("kafka-python", "at rest"),
        ("java", "at rest"),
        ("confluent", "while joining"),
        ("java-848", "while joining"),
    ],
)
def test_the_coordinator_dies(
    groups_trio: Cluster, request: pytest.FixtureRequest, kind: str, moment: str
) -> None:
    cluster, servers = groups_trio, groups_trio.bootstrap_servers
    topic = topic_name_for(request.node.name)
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result()
    kinds: dict[str, Any] = {
        "confluent": group_members.ConfluentMember,
        "confluent-848": group_members.ConsumerProtocolMember,
        "aiokafka": group_members.AiokafkaMember,
        "kafka-python": group_members.KafkaPythonMember,
        "java": group_members.JavaMember,
        "java-848": group_members.JavaConsumerProtocolMember,
    }
    leading = (request.getfixturevalue("group_jvm"),) if kind.startswith("java") else ()

    def make() -> Member:
        member: Member = kinds[kind](*leading, servers, topic, topic)
        return member.start()

    load = Load(servers, topic, PARTITIONS)
    load.start()
    members = [make(), make()]
    until_shared(members, PARTITIONS)
    wait_until(lambda: coordinator(cluster, topic) >= 0)
    dying = coordinator(cluster, topic)
    if moment == "while joining":
        members.append(make())
        time.sleep(0.1)
    cluster.kill(dying)
    try:
        time.sleep(1)
        if moment == "at rest":
            members.append(make())
        until_shared(members, PARTITIONS, limit_s=30)
        written = load.stop()

        def all_read() -> bool:
            for member in members:
                member.refresh()
            return written <= {place for member in members for place in member.records}

        wait_until(all_read, members)
        for member in members:
            member.stop()
        assert_one_owner(members)
        assert_all_read(members, written, again_max=len(written))
    finally:
        cluster.start(dying)
