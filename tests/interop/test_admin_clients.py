"""Administration with confluent-kafka, kafka-python and aiokafka: topics, partitions, configs, offsets."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator
from typing import Any

import aiokafka.admin
import aiokafka.errors
import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from ottla.testing import Cluster
from tests.support.interop.kafka_python import kafka
from tests.support.interop.wire import Wire, batch_of

START_MS = int(time.time()) * 1000 - 60_000


def fresh(prefix: str = "admin") -> str:
    return f"{prefix}-{uuid.uuid4().hex}"


def results(futures: dict[Any, Any]) -> dict[Any, Any]:
    return {key: future.result(15) for key, future in futures.items()}


def refusal(futures: dict[Any, Any]) -> int:
    """Return the error code of the only future."""
    (future,) = futures.values()
    with pytest.raises(KafkaException) as error:
        future.result(15)
    return error.value.args[0].code()


# -- confluent-kafka


@pytest.fixture
def confluent(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers})


@pytest.fixture
def python_admin(servers: str) -> Iterator[Any]:
    admin = kafka.admin.KafkaAdminClient(bootstrap_servers=servers)
    yield admin
    admin.close()


def test_confluent_topic_life_cycle(confluent):
    name = fresh()
    results(confluent.create_topics([NewTopic(name, 3, 1, config={"retention.ms": "7200000"})]))
    assert refusal(confluent.create_topics([NewTopic(name, 1, 1)])) == KafkaError.TOPIC_ALREADY_EXISTS
    (described,) = results(confluent.describe_topics(confluent_kafka.TopicCollection([name]))).values()
    assert len(described.partitions) == 3
    assert {partition.leader.id for partition in described.partitions} == {1}
    assert [node.id for node in described.partitions[0].replicas] == [1]
    assert not described.is_internal
    results(confluent.create_partitions([NewPartitions(name, 7)]))
    assert len(confluent.list_topics(name, timeout=10).topics[name].partitions) == 7
    fewer = confluent.create_partitions([NewPartitions(name, 2)])
    assert refusal(fewer) == KafkaError.INVALID_PARTITIONS
    results(confluent.delete_topics([name]))
    assert name not in confluent.list_topics(timeout=10).topics
    assert refusal(confluent.delete_topics([name])) == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic("no/slashes", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("x" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("three-replicas", 1, 3), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("bad-config", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
        (NewTopic("unknown-config", 1, 1, config={"no.such.thing": "1"}), KafkaError.INVALID_CONFIG),
        (NewTopic("placed", 1, replica_assignment=[[5]]), KafkaError.INVALID_REPLICA_ASSIGNMENT),
    ],
    ids=lambda value: getattr(value, "topic", None) and value.topic[:12],
)
def test_confluent_invalid_topics(confluent, topic, code):
    assert refusal(confluent.create_topics([topic])) == code
    assert topic.topic not in confluent.list_topics(timeout=10).topics


def test_confluent_validate_only_creates_nothing(confluent):
    name = fresh()
    results(confluent.create_topics([NewTopic(name, 2, 1)], validate_only=True))
    assert name not in confluent.list_topics(timeout=10).topics


def described_configs(confluent: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    (found,) = results(confluent.describe_configs([ConfigResource(kind, name)])).values()
    return found


def test_confluent_topic_configs_with_sources_and_synonyms(confluent, new_topic):
    topic = new_topic(**{"retention.ms": 7_200_000})
    found = described_configs(confluent, ResourceType.TOPIC, topic)
    assert len(found) > 25
    retention = found["retention.ms"]
    assert (retention.value, retention.source) == ("7200000", ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
    assert next(iter(retention.synonyms)) == "retention.ms"
    default = found["segment.bytes"]
    assert (default.value, default.source) == ("1073741824", ConfigSource.DEFAULT_CONFIG.value)
    assert default.is_default
    assert "log.segment.bytes" in default.synonyms

    def alter(*entries: ConfigEntry) -> dict[str, ConfigEntry]:
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=list(entries))
        results(confluent.incremental_alter_configs([resource]))
        return described_configs(confluent, ResourceType.TOPIC, topic)

    def entry(name: str, value: str | None, operation: AlterConfigOpType) -> ConfigEntry:
        return ConfigEntry(name, value, incremental_operation=operation)

    found = alter(
        entry("segment.bytes", "2000000", AlterConfigOpType.SET),
        entry("retention.ms", None, AlterConfigOpType.DELETE),
        entry("cleanup.policy", "compact", AlterConfigOpType.APPEND),
    )
    assert found["segment.bytes"].value == "2000000"
    assert found["retention.ms"].source == ConfigSource.DEFAULT_CONFIG.value
    assert set(found["cleanup.policy"].value.split(",")) == {"compact", "delete"}
    found = alter(entry("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT))
    assert found["cleanup.policy"].value == "compact"


def test_confluent_invalid_configs_change_nothing(confluent, topic):
    def alter(resource: ConfigResource) -> dict[Any, Any]:
        return confluent.incremental_alter_configs([resource])

    def topic_entry(name: str, value: str, topic: str = topic) -> ConfigResource:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        return ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])

    assert refusal(alter(topic_entry("retention.ms", "soon"))) == KafkaError.INVALID_CONFIG
    assert refusal(alter(topic_entry("no.such.config", "1"))) == KafkaError.INVALID_CONFIG
    assert (
        refusal(alter(topic_entry("retention.ms", "1", fresh("missing")))) == KafkaError.UNKNOWN_TOPIC_OR_PART
    )
    missing = confluent.describe_configs([ConfigResource(ResourceType.TOPIC, fresh("missing"))])
    assert refusal(missing) == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert described_configs(confluent, ResourceType.TOPIC, topic)["retention.ms"].is_default


def test_confluent_broker_configs(confluent, servers):
    found = described_configs(confluent, ResourceType.BROKER, "1")
    checked = found["log.retention.check.interval.ms"]
    assert (checked.value, checked.source) == ("200", ConfigSource.STATIC_BROKER_CONFIG.value)
    assert checked.is_read_only
    assert found["num.io.threads"].source == ConfigSource.DEFAULT_CONFIG.value


def test_confluent_offsets_and_deleting_records(confluent, wire, new_topic):
    topic = new_topic(partitions=2)
    for ms in (10, 90, 50):
        wire.produce(topic, batch_of(b"x", timestamp_ms=START_MS + ms), partition=1)

    def offset(spec: OffsetSpec) -> tuple[int, int]:
        (found,) = results(confluent.list_offsets({TopicPartition(topic, 1): spec})).values()
        return found.offset, found.timestamp

    assert offset(OffsetSpec.earliest()) == (0, -1)
    assert offset(OffsetSpec.latest()) == (3, -1)
    assert offset(OffsetSpec.max_timestamp()) == (1, START_MS + 90)
    assert offset(OffsetSpec.for_timestamp(START_MS + 20)) == (1, START_MS + 90)
    assert offset(OffsetSpec.for_timestamp(START_MS + 91)) == (-1, -1)
    (deleted,) = results(confluent.delete_records([TopicPartition(topic, 1, 2)])).values()
    assert deleted.low_watermark == 2
    assert offset(OffsetSpec.earliest()) == (2, -1)
    beyond = confluent.delete_records([TopicPartition(topic, 1, 9)])
    assert refusal(beyond) == KafkaError.OFFSET_OUT_OF_RANGE


def test_confluent_describe_cluster(confluent, servers):
    cluster = confluent.describe_cluster().result(10)
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [servers]
    assert cluster.controller.id == 1
    assert len(cluster.cluster_id) == 22


# -- kafka-python


def test_kafka_python_topic_life_cycle(python_admin):
    name = fresh()
    python_admin.create_topics({name: {"num_partitions": 2, "configs": {"max.message.bytes": "5000"}}})
    with pytest.raises(kafka.errors.TopicAlreadyExistsError):
        python_admin.create_topics([name])
    assert name in python_admin.list_topics()
    (described,) = python_admin.describe_topics([name])
    assert len(described["partitions"]) == 2
    python_admin.create_partitions({name: 4})
    (described,) = python_admin.describe_topics([name])
    assert sorted(partition["partition_index"] for partition in described["partitions"]) == [0, 1, 2, 3]
    python_admin.delete_topics([name])
    assert name not in python_admin.list_topics()
    with pytest.raises(kafka.errors.UnknownTopicOrPartitionError):
        python_admin.delete_topics([name])


def test_kafka_python_pages_of_partitions(python_admin, new_topic):
    topics = sorted([new_topic(partitions=7), new_topic(partitions=4)])
    seen: list[tuple[str, int]] = []
    cursor = None
    for _ in range(10):
        page = python_admin.describe_topic_partitions(topics, response_partition_limit=3, cursor=cursor)
        found = [
            (topic["name"], part["partition_index"])
            for topic in page["topics"]
            for part in topic["partitions"]
        ]
        assert len(found) <= 3
        seen += found
        cursor = page["next_cursor"]
        if cursor is None:
            break
    counts = {topic: len([name for name, _ in seen if name == topic]) for topic in topics}
    assert len(seen) == len(set(seen)) == 11
    assert sorted(counts.values()) == [4, 7]


@pytest.mark.parametrize("incremental", [True, False])
def test_kafka_python_configs(python_admin, new_topic, incremental):
    topic = new_topic(**{"retention.ms": 5000})

    def configs(config_filter: str = "modified") -> dict[str, Any]:
        resource = kafka.admin.ConfigResource("topic", topic)
        found = python_admin.describe_configs([resource], include_synonyms=True, config_filter=config_filter)
        return found["topic"][topic]

    wanted = kafka.admin.ConfigResource("topic", topic, {"segment.bytes": "3000000"})
    reply = python_admin.alter_configs([wanted], incremental=incremental)
    assert reply == {"topic": {topic: "OK"}}
    assert {name: entry["value"] for name, entry in configs().items()} == {
        "retention.ms": "5000",
        "segment.bytes": "3000000",
    }
    entry = configs()["segment.bytes"]
    assert (entry["config_type"], entry["config_source"]) == ("INT", "DYNAMIC_TOPIC_CONFIG")
    assert [synonym["source"] for synonym in entry["synonyms"]] == ["DYNAMIC_TOPIC_CONFIG", "DEFAULT_CONFIG"]
    types = {name: entry["config_type"] for name, entry in configs("all").items()}
    assert types["retention.ms"] == "LONG"
    assert types["cleanup.policy"] == "LIST"
    assert types["min.cleanable.dirty.ratio"] == "DOUBLE"
    assert types["preallocate"] == "BOOLEAN"
    assert types["compression.type"] == "STRING"
    only = kafka.admin.ConfigResource("topic", topic, ["retention.ms"])
    python_admin.reset_configs([only], incremental=incremental)
    assert set(configs()) == {"segment.bytes"}


def test_kafka_python_offsets_records_and_directories(python_admin, wire, topic, ottla_cluster):
    wire.produce(topic, batch_of(b"a", b"b", b"c"))
    here = kafka.TopicPartition(topic, 0)
    offsets = python_admin.list_partition_offsets({here: -1})
    assert offsets[here].offset == 3
    assert python_admin.delete_records({here: 2})[here]["low_watermark"] == 2
    assert python_admin.list_partition_offsets({here: -2})[here].offset == 2
    ((broker,),) = [python_admin.describe_log_dirs({topic: [0]})]
    (directory,) = broker["log_dirs"]
    assert directory["log_dir"] == ottla_cluster.data_dir
    assert directory["error_code"] == 0
    ((found,),) = [directory["topics"]]
    assert found["name"] == topic
    assert found["partitions"][0]["partition_size"] > 0
    assert 0 < directory["usable_bytes"] <= directory["total_bytes"]


def test_kafka_python_cluster_and_resources(python_admin, topic):
    cluster = python_admin.describe_cluster()
    assert cluster["controller_id"] == 1
    assert [broker["broker_id"] for broker in cluster["brokers"]] == [1]
    resources = python_admin.list_config_resources(["TOPIC", "BROKER"])
    assert topic in resources["topic"]
    assert resources["broker"] == ["1"]


# -- aiokafka


def test_aiokafka_administration(servers, wire):
    async def work() -> None:
        admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=servers)
        await admin.start()
        try:
            name = fresh()
            wanted = aiokafka.admin.NewTopic(name, 2, 1, topic_configs={"retention.ms": "4000"})
            await admin.create_topics([wanted])
            assert name in await admin.list_topics()
            await admin.create_partitions({name: aiokafka.admin.NewPartitions(5)})
            (described,) = await admin.describe_topics([name])
            assert len(described["partitions"]) == 5
            kind = aiokafka.admin.config_resource.ConfigResourceType.TOPIC
            resource = aiokafka.admin.config_resource.ConfigResource(kind, name, {"retention.ms": "9000"})
            await admin.alter_configs([resource])
            query = aiokafka.admin.config_resource.ConfigResource(kind, name, {"retention.ms": None})
            (answer,) = await admin.describe_configs([query])
            entries = answer.resources[0][4]
            assert [entry[:2] for entry in entries] == [("retention.ms", "9000")]
            wire.produce(name, batch_of(b"a", b"b"))
            here = aiokafka.TopicPartition(name, 0)
            deleted = await admin.delete_records({here: aiokafka.admin.RecordsToDelete(before_offset=1)})
            assert deleted[here] == 1
            cluster = await admin.describe_cluster()
            assert [broker["node_id"] for broker in cluster["brokers"]] == [1]
            await admin.delete_topics([name])
            assert name not in await admin.list_topics()
        finally:
            await admin.close()

    asyncio.run(work())


# -- recreated and auto-created topics


def test_a_recreated_topic_is_another_topic(confluent, servers, wire):
    name = fresh()
    ids = []
    for round_ in range(3):
        ids.append(wire.create_topic(name))
        assert wire.records(name) == []
        assert wire.produce(name, batch_of(b"%d" % round_)).base_offset == 0
        assert [record.value for record in wire.records(name)] == [b"%d" % round_]
        results(confluent.delete_topics([name]))
    assert len(set(ids)) == 3


def test_metadata_creates_topics_only_if_allowed(servers):
    name = fresh("auto")
    with Cluster(config={"auto.create.topics.enable": False}) as strict:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": strict.bootstrap_servers,
                "topic.metadata.propagation.max.ms": 500,
                "log_level": 0,
            }
        )
        errors: list[Any] = []
        producer.produce(name, b"x", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(20) == 0
        assert errors[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
        assert (
            AdminClient({"bootstrap.servers": strict.bootstrap_servers}).list_topics(timeout=10).topics == {}
        )
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    producer.produce(name, b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(20) == 0
    assert errors[-1] is None
    with Wire(servers) as wire:
        assert [record.value for record in wire.records(name)] == [b"x"]


def test_auto_created_topics_have_the_broker_defaults():
    with Cluster(config={"num.partitions": 4, "log.retention.ms": 3_600_000}) as cluster:
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        producer.produce("auto", b"x")
        assert producer.flush(20) == 0
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        assert len(admin.list_topics("auto", timeout=10).topics["auto"].partitions) == 4
        found = described_configs(admin, ResourceType.TOPIC, "auto")["retention.ms"]
        assert (found.value, found.source) == ("3600000", ConfigSource.STATIC_BROKER_CONFIG.value)
