"""Kafka's tools for groups: list, describe, reset and delete."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import confluent_kafka
import pytest

from ottla.testing import Cluster
from ottla.testing.topics import topic_name_for
from tests.support.interop.tools import CONSUMER_GROUPS, GROUPS, KafkaTools, kafka_tools, why_no_tools

pytestmark = [pytest.mark.java, pytest.mark.skipif(bool(why_no_tools()), reason=str(why_no_tools()))]

PARTITIONS = 2
RECORDS = 10
Ask = Callable[..., str]


@pytest.fixture(scope="module")
def tooled_cluster() -> Iterator[Cluster]:
    with Cluster(config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def group_tools() -> Iterator[KafkaTools]:
    with kafka_tools() as found:
        yield found


@pytest.fixture
def ask(group_tools: KafkaTools, tooled_cluster: Cluster) -> Ask:
    servers = tooled_cluster.bootstrap_servers
    return lambda tool, *words: group_tools.ask(tool, "--bootstrap-server", servers, *words)


def rows(output: str) -> list[dict[str, str]]:
    """Parse a table into a dictionary per line."""
    lines = [line.split() for line in output.splitlines() if line.split()]
    at = next(number for number, line in enumerate(lines) if line[0] == "GROUP")
    return [dict(zip(lines[at], line, strict=False)) for line in lines[at + 1 :]]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kafka_tools_describe_a_group(
    ask: Ask, tooled_cluster: Cluster, protocol: str, request: pytest.FixtureRequest
) -> None:
    name = topic_name_for(request.node.name)
    servers = tooled_cluster.bootstrap_servers
    tooled_cluster.create_topic(name, PARTITIONS)
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    for number in range(RECORDS):
        producer.produce(name, b"v", partition=number % PARTITIONS)
    producer.flush()
    settings = {"bootstrap.servers": servers, "group.id": name, "group.protocol": protocol}
    with closing(
        confluent_kafka.Consumer(
            {**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False, "client.id": "reader"}
        )
    ) as consumer:
        consumer.subscribe([name])
        read = 0
        while read < RECORDS:
            message = consumer.poll(5)
            assert message is not None and message.error() is None
            read += 1
        consumer.commit(offsets=[confluent_kafka.TopicPartition(name, 0, 3)], asynchronous=False)
        listed = ask(CONSUMER_GROUPS, "--list", "--state")
        assert [line.split()[-1] for line in listed.splitlines() if line.startswith(name)] == ["Stable"]
        (row,) = [row for row in rows(ask(GROUPS, "--list")) if row["GROUP"] == name]
        assert row["TYPE"] == protocol.capitalize()
        described = {
            row["PARTITION"]: row for row in rows(ask(CONSUMER_GROUPS, "--describe", "--group", name))
        }
        assert (described["0"]["CURRENT-OFFSET"], described["0"]["LAG"]) == ("3", "2")
        assert described["0"]["CLIENT-ID"] == "reader"
        (member,) = rows(ask(CONSUMER_GROUPS, "--describe", "--members", "--group", name))
        assert member["#PARTITIONS"] == str(PARTITIONS)
        refused = ask(CONSUMER_GROUPS, "--delete", "--group", name)
        assert "GroupNotEmptyException" in refused
    reset = ("--reset-offsets", "--group", name, "--topic", name, "--to-earliest")
    planned = rows(ask(CONSUMER_GROUPS, *reset, "--dry-run"))
    assert {row["NEW-OFFSET"] for row in planned} == {"0"}
    described = {row["PARTITION"]: row for row in rows(ask(CONSUMER_GROUPS, "--describe", "--group", name))}
    assert described["0"]["CURRENT-OFFSET"] == "3"
    ask(CONSUMER_GROUPS, *reset, "--execute")
    reply = rows(ask(CONSUMER_GROUPS, "--describe", "--offsets", "--group", name))
    assert [(row["CURRENT-OFFSET"], row["LAG"]) for row in reply] == [("0", "5")] * PARTITIONS
    ask(CONSUMER_GROUPS, "--delete-offsets", "--group", name, "--topic", f"{name}:1")
    reply = rows(ask(CONSUMER_GROUPS, "--describe", "--offsets", "--group", name))
    assert [row["PARTITION"] for row in reply] == ["0"]
    assert "was successful" in ask(CONSUMER_GROUPS, "--delete", "--group", name)
    assert name not in ask(CONSUMER_GROUPS, "--list")
