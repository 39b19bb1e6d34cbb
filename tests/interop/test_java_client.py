"""The Java client: idempotent producer, codecs, sizes, sessions over many partitions, admin."""

from __future__ import annotations

import random
import time

import pytest

from ottla.testing.topics import topic_name_for
from tests.support.interop.clients import CODECS, Row
from tests.support.interop.java import JavaError, why_no_java
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.java, pytest.mark.skipif(bool(why_no_java()), reason=str(why_no_java()))]

START_MS = int(time.time()) * 1000 - 60_000


@pytest.mark.parametrize("codec", CODECS)
def test_an_idempotent_producer_with_many_batches_in_flight(java_client, wire, topic, codec):
    rows = [Row(b"%d" % n, b"v" * (n % 700), (), START_MS + n) for n in range(2000)]
    offsets = java_client.write(
        topic, 0, rows, codec, enable_idempotence="true", acks="all", batch_size="2000"
    )
    assert offsets == list(range(2000))
    found = wire.records(topic)
    assert [(record.key, record.value) for record in found] == [(row.key, row.value) for row in rows]
    assert java_client.read(topic, 0) == list(enumerate(rows))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement(java_client, wire, topic, acks):
    rows = [Row(None, b"%d" % n, (), START_MS) for n in range(50)]
    java_client.write(topic, 0, rows, acks=acks, enable_idempotence=str(acks == "all").lower())
    wait_until(lambda: wire.list_offsets(topic, -1).offset >= 50)  # acks=0 has no responses
    assert [record.value for record in wire.records(topic)] == [row.value for row in rows]


def test_records_up_to_the_largest(java_client, topic):
    make = random.Random(3).randbytes
    rows = [Row(b"k", make(size), (), START_MS) for size in (1, 1000, 65_000, 66_000, 1_000_000, 1_048_000)]
    java_client.write(topic, 0, rows, max_request_size="5000000")
    assert [row for _, row in java_client.read(topic, 0)] == rows
    too_large = [Row(b"k", make(1_048_600), (), START_MS)]
    assert java_client.refused(topic, 0, too_large, max_request_size="5000000") == "RecordTooLargeException"


def test_small_and_large_fetches(java_client, topic):
    rows = [Row(None, b"x" * 40_000, (), START_MS + n) for n in range(100)]
    java_client.write(topic, 0, rows, batch_size="100000")
    for settings in (
        {"max_partition_fetch_bytes": "1"},
        {"fetch_min_bytes": "1000000", "fetch_max_wait_ms": "200"},
        {"fetch_max_bytes": "50000000", "max_partition_fetch_bytes": "50000000", "max_poll_records": "7"},
        {"isolation_level": "read_committed"},
    ):
        assert len(java_client.read(topic, 0, **settings)) == 100, settings


def test_sessions_over_many_partitions(java_client, new_topic):
    topic = new_topic(partitions=60)
    seen = java_client.run("spread", topic=topic, partitions=60, rounds=6)
    expected = {
        str(index): [str(round_) for round_ in range(6) if round_ % 3 == index % 3] for index in range(60)
    }
    assert seen == expected


def test_offsets_for_times(java_client, topic):
    rows = [Row(None, b"x", (), START_MS + n * 10) for n in range(10)]
    java_client.write(topic, 0, rows)
    found = java_client.run(
        "times", topic=topic, timestamps=[0, START_MS, START_MS + 45, START_MS + 90, START_MS + 91]
    )
    assert found == [0, 0, 5, 9, -1]


def test_administration(java_client, ottla_cluster):
    reply = java_client.run("admin", topic=topic_name_for("java-admin"))
    assert reply.pop("id") == reply.pop("described id")
    assert reply.pop("cluster")
    assert reply.pop("features") >= 1
    assert reply == {
        "listed": True,
        "partitions": 5,
        "leader": 1,
        "configs": {
            "cleanup.policy": ["delete,compact", "DYNAMIC_TOPIC_CONFIG", "LIST", 2, True],
            "retention.ms": ["604800000", "DEFAULT_CONFIG", "LONG", 1, True],
            "segment.bytes": ["2000000", "DYNAMIC_TOPIC_CONFIG", "INT", 2, True],
        },
        "low watermark": 1,
        "offsets": {
            "earliest": 1,
            "latest": 4,
            "max timestamp": 2,
            "earliest local": 1,
            "latest tiered": -1,
            "time zero": 1,
        },
        "nodes": 1,
        "replicas": 5,
        "room": True,
        "resources": True,
        "deleted": True,
        "twice": "UnknownTopicOrPartitionException",
    }


def test_waiting_for_an_unknown_partition_affects_no_other_client(java_client, topic):
    with pytest.raises(JavaError) as error:
        java_client.run(
            "read", topic="no-such-topic", partition=5, settings={"default.api.timeout.ms": "1500"}
        )
    assert error.value.kind == "TimeoutException"
    java_client.write(topic, 0, [Row(None, b"still alive", (), START_MS)])
