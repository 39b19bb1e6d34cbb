"""Queries and consumer groups: starting from committed offsets, and committing finished batches."""

from __future__ import annotations

import json
import logging
import uuid

import pytest

pytest.importorskip(
    "pyspark", reason="the tests of the Spark data source need pyspark: pip install ottla[spark]"
)

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql.streaming.datasource import ReadAllAvailable

from ottla.client import CommittedOffset, SyncCluster
from ottla.client.blocking.groups import SyncGroup
from ottla.client.errors import UnsupportedApiError
from pyspark_ottla.reader import group_commit
from pyspark_ottla.reader.batch import OttlaReader
from pyspark_ottla.reader.columns import schema_of
from pyspark_ottla.reader.data_loss import DataLoss
from pyspark_ottla.reader.stream import OttlaStreamReader


@pytest.fixture
def group_id() -> str:
    return f"g{uuid.uuid4().hex}"


@pytest.fixture
def group(ottla_cluster, group_id):
    cluster = SyncCluster(ottla_cluster.bootstrap_servers)
    yield SyncGroup(cluster, group_id)
    cluster.close()


def reader(options: dict[str, str], **more: str) -> OttlaStreamReader:
    given = options | {name.lower(): value for name, value in more.items()}
    return OttlaStreamReader(given, schema_of(given))


def in_group(options: dict[str, str], group_id: str) -> dict[str, str]:
    return options | {"kafka.group.id": group_id}


def seen_by_librdkafka(bootstrap_servers: str, group_id: str) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    futures = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group_id)])
    rows = futures[group_id].result(10).topic_partitions
    return {row.partition: row.offset for row in rows}


# The blocking client.


@pytest.mark.ottla_topic(partitions=3)
def test_commit_and_fetch_offsets(ottla_topic, group):
    assert group.committed() == {}
    group.commit({(ottla_topic, 0): 5, (ottla_topic, 2): CommittedOffset(7, 3, "why")})
    assert group.committed() == {
        (ottla_topic, 0): CommittedOffset(5, -1, ""),
        (ottla_topic, 2): CommittedOffset(7, 3, "why"),
    }
    assert group.committed([(ottla_topic, 1), (ottla_topic, 2)]) == {
        (ottla_topic, 2): CommittedOffset(7, 3, "why")
    }
    # A client with a stale coordinator looks it up again.
    group._coordinator = 4711
    group.commit({(ottla_topic, 1): 1})
    assert seen_by_librdkafka(group.cluster.options.bootstrap_servers, group.group_id) == {0: 5, 1: 1, 2: 7}


# Starting offsets.


@pytest.mark.ottla_topic(partitions=3)
def test_start_from_group_offsets(ottla_topic, options, write, group, group_id):
    for partition in range(3):
        write(0, 10, partition)
    group.commit({(ottla_topic, 0): 4, (ottla_topic, 1): 10})
    options = in_group(options, group_id)

    def start(**more: str) -> dict[str, int]:
        return reader(options, startingOffsets="group", **more).initialOffset()[ottla_topic]

    assert start() == {"0": 4, "1": 10, "2": 10}
    assert start(startingOffsetsByGroupStrategy="earliest") == {"0": 4, "1": 10, "2": 0}
    with pytest.raises(ValueError, match=f"group '{group_id}' has no committed offset for {ottla_topic}-2"):
        start(startingOffsetsByGroupStrategy="error")
    given = options | {"startingoffsets": "group"}
    spans = [task.span[1:] for task in OttlaReader(given, schema_of(given)).partitions()]
    assert spans == [(0, 4, 10), (2, 0, 10)]
    group.commit({(ottla_topic, 0): 99})
    with pytest.raises(
        DataLoss, match=f"group '{group_id}': offset 99 of {ottla_topic}-0 is out of range, .* 0 to 10"
    ):
        start()
    assert start(failOnDataLoss="false")["0"] == 10


@pytest.mark.parametrize(
    ("streaming", "more", "words"),
    [
        (True, {"startingoffsets": "group"}, ["startingOffsets", "kafka.group.id"]),
        (True, {"startingoffsetsbygroupstrategy": "first"}, ["earliest, latest or error"]),
        (True, {"commitoffsetstogroup": "true"}, ["commitOffsetsToGroup", "kafka.group.id"]),
        (True, {"commitoffsetstogroup": "yes"}, ["commitOffsetsToGroup", "true or false"]),
        (False, {"commitoffsetstogroup": "true", "kafka.group.id": "g"}, ["batch query"]),
        (False, {"endingoffsets": "group", "kafka.group.id": "g"}, ["endingOffsets"]),
    ],
)
def test_incomplete_group_options(streaming, more, words):
    given = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t"} | more
    make = OttlaStreamReader if streaming else OttlaReader
    with pytest.raises(ValueError) as caught:
        make(given, schema_of(given))
    for word in words:
        assert word in str(caught.value)


# Commits of finished batches.


@pytest.mark.ottla_topic(partitions=2)
def test_finished_batches_are_committed(ottla_topic, options, write, group, group_id):
    write(0, 3, partition=0)
    source = reader(
        in_group(options, group_id),
        startingOffsets="earliest",
        commitOffsetsToGroup="true",
        commitOffsetsMetadata="query 7",
    )
    start = source.initialOffset()
    end = source.latestOffset(start, ReadAllAvailable())
    # The first batch is planned, but not finished.
    assert {key: at.offset for key, at in group.committed().items()} == {
        (ottla_topic, 0): 0,
        (ottla_topic, 1): 0,
    }
    write(0, 2, partition=1)
    later = source.latestOffset(json.loads(json.dumps(end)), ReadAllAvailable())
    assert group.committed()[ottla_topic, 0] == CommittedOffset(3, -1, "query 7")
    source.commit(later)
    assert group.committed()[ottla_topic, 1].offset == 2


def test_no_commits_without_the_option(options, write, group, group_id):
    write(0, 3)
    source = reader(in_group(options, group_id), startingOffsets="earliest")
    source.commit(source.latestOffset(source.initialOffset(), ReadAllAvailable()))
    assert group.committed() == {}


def test_commit_to_a_group_with_members_warns(
    ottla_cluster, ottla_topic, options, write, group_id, caplog, monkeypatch
):
    monkeypatch.setattr(group_commit, "PAUSE_AFTER_FAILURE_S", 3600.0)
    consumer = Consumer({"bootstrap.servers": ottla_cluster.bootstrap_servers, "group.id": group_id})
    consumer.subscribe([ottla_topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    write(0, 3)
    source = reader(in_group(options, group_id), startingOffsets="earliest", commitOffsetsToGroup="true")
    with caplog.at_level(logging.WARNING, "pyspark_ottla"):
        end = source.latestOffset(source.initialOffset(), ReadAllAvailable())
        source.commit(end)
    consumer.close()
    assert end[ottla_topic] == {"0": 3}
    warnings = [row.getMessage() for row in caplog.records if row.name == "pyspark_ottla"]
    # Logged once, and not retried for a while.
    assert len(warnings) == 1
    assert f"group '{group_id}'" in warnings[0]
    assert "The query continues" in warnings[0]


def test_commit_to_a_cluster_without_groups_warns(ottla_topic, options, group_id, caplog, monkeypatch):
    def refuse(*_args, **_more):
        raise UnsupportedApiError("the broker does not offer OffsetCommit")

    monkeypatch.setattr(SyncGroup, "commit", refuse)
    monkeypatch.setattr(group_commit, "PAUSE_AFTER_FAILURE_S", 0.0)
    source = reader(in_group(options, group_id), commitOffsetsToGroup="true")
    with caplog.at_level(logging.WARNING, "pyspark_ottla"):
        source.commit({ottla_topic: {"0": 1}})
        source.commit({ottla_topic: {"0": 2}})
    assert len([row for row in caplog.records if "does not offer OffsetCommit" in row.getMessage()]) == 2


def test_lag_tools_show_the_query(ottla_cluster, ottla_topic, options, write, group_id):
    write(0, 5)
    source = reader(in_group(options, group_id), startingOffsets="earliest", commitOffsetsToGroup="true")
    source.commit(source.latestOffset(source.initialOffset(), ReadAllAvailable()))
    write(5, 4)
    consumer = Consumer({"bootstrap.servers": ottla_cluster.bootstrap_servers, "group.id": group_id})
    (committed,) = consumer.committed([TopicPartition(ottla_topic, 0)], 10)
    _, high = consumer.get_watermark_offsets(TopicPartition(ottla_topic, 0), 10)
    consumer.close()
    assert high - committed.offset == 4
