"""Record the frames of real clients for the fuzzer: `python -m fuzzing.record [FILE]`.

Runs admin, produce and consume sessions of confluent-kafka, kafka-python and aiokafka through a proxy in
front of a fresh broker. Requests that fail are reported; their frames are recorded as well.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

from fuzzing.recorder import Corpus, RecordingProxy
from ottla.testing import Cluster
from ottla.testing.ports import free_port

HOST = "127.0.0.1"
DEFAULT_PATH = "tests/hostile/corpus/frames.txt"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def _try(what: str, action: Callable[[], Any]) -> Any:
    """Run one step of a session; the request of a failed step is recorded as well."""
    try:
        return action()
    except Exception as error:
        print(f"  {what}: {type(error).__name__}: {str(error)[:100]}")
        return None


def _settled(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(10) for future in futures.values()]


def confluent_admin(servers: str) -> None:
    import confluent_kafka
    import confluent_kafka.admin

    kafka: Any = confluent_kafka  # its re-exports are not declared
    api: Any = confluent_kafka.admin
    admin = api.AdminClient({"bootstrap.servers": servers})
    topics = [
        api.NewTopic("rec-a", 2, 1),
        api.NewTopic("rec-b", 1, 1, config={"cleanup.policy": "compact"}),
        api.NewTopic("rec-c", 1, 1, config={"compression.type": "zstd"}),
    ]
    _try("create", lambda: _settled(admin.create_topics(topics)))
    _try("list", lambda: admin.list_topics(timeout=10))
    _try("partitions", lambda: _settled(admin.create_partitions([api.NewPartitions("rec-a", 3)])))
    resource = api.ConfigResource(api.ResourceType.TOPIC, "rec-a")
    _try("configs", lambda: _settled(admin.describe_configs([resource])))
    entry = api.ConfigEntry("retention.ms", "3600000", incremental_operation=api.AlterConfigOpType.SET)
    changed = api.ConfigResource(api.ResourceType.TOPIC, "rec-a", incremental_configs=[entry])
    _try("incremental", lambda: _settled(admin.incremental_alter_configs([changed])))
    replaced = api.ConfigResource(api.ResourceType.TOPIC, "rec-a", set_config={"retention.ms": "7200000"})
    _try("alter", lambda: _settled(admin.alter_configs([replaced])))
    _try("cluster", lambda: admin.describe_cluster(include_authorized_operations=True).result(10))
    described = kafka.TopicCollection(["rec-a", "rec-b"])
    _try("topics", lambda: _settled(admin.describe_topics(described)))
    for spec in (api.OffsetSpec.latest(), api.OffsetSpec.max_timestamp(), api.OffsetSpec.for_timestamp(1)):
        asked = {kafka.TopicPartition("rec-a", n): spec for n in (0, 1)}
        _try("offsets", partial(lambda asked: _settled(admin.list_offsets(asked)), asked))
    _try("records", lambda: _settled(admin.delete_records([kafka.TopicPartition("rec-a", 0, 0)])))
    _try("delete", lambda: _settled(admin.delete_topics(["rec-none"])))


def confluent_data(servers: str) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    for idempotent in (False, True):
        for codec in CODECS:
            producer = Producer(
                {
                    "bootstrap.servers": servers,
                    "compression.type": codec,
                    "enable.idempotence": idempotent,
                    "acks": "all" if idempotent else "1",
                    "linger.ms": 20,
                }
            )
            for n in range(4):
                producer.produce("rec-a", value=b"v" * 40, key=b"k%d" % n, headers=[("h", b"1")], partition=0)
                producer.produce("rec-b", value=b"w" * n, key=b"k", partition=0)
            producer.flush(10)
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "rec", "enable.auto.commit": False})
    consumer.assign([TopicPartition("rec-a", 0, 0), TopicPartition("rec-a", 1, 0)])
    for _ in range(4):
        consumer.poll(0.5)
    _try("times", lambda: consumer.offsets_for_times([TopicPartition("rec-a", 0, 1)], timeout=5))
    _try("watermarks", lambda: consumer.get_watermark_offsets(TopicPartition("rec-a", 0), timeout=5))
    consumer.close()


def kafka_python_session(servers: str) -> None:
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=servers)
    _try("create", lambda: admin.create_topics([NewTopic("rec-k", 2, 1)]))
    _try("list", admin.list_topics)
    _try("describe", lambda: admin.describe_topics(["rec-k"]))
    _try("cluster", admin.describe_cluster)
    _try("configs", lambda: admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "rec-k")]))
    changed = ConfigResource(ConfigResourceType.TOPIC, "rec-k", configs={"segment.ms": "600000"})
    _try("alter", lambda: admin.alter_configs([changed]))
    _try("partitions", lambda: admin.create_partitions({"rec-k": NewPartitions(3)}))
    _try("log dirs", admin.describe_log_dirs)
    for options in ({"acks": 1, "enable_idempotence": False}, {"acks": 0, "enable_idempotence": False}, {}):
        producer = KafkaProducer(bootstrap_servers=servers, compression_type="gzip", **options)
        for n in range(3):
            producer.send("rec-k", b"value %d" % n, b"key", partition=0)
        producer.flush(10)
        producer.close()
    consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    partition = TopicPartition("rec-k", 0)
    consumer.assign([partition])
    _try("poll", lambda: consumer.poll(1000))
    _try("times", lambda: consumer.offsets_for_times({partition: 1}))
    _try("ends", lambda: consumer.end_offsets([partition]))
    consumer.close()
    _try("records", lambda: admin.delete_records({partition: 1}))
    _try("delete", lambda: admin.delete_topics(["rec-k"]))
    admin.close()


async def aiokafka_session(servers: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    await admin.create_topics([NewTopic("rec-aio", 1, 1)])
    await admin.describe_topics(["rec-aio"])
    await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "rec-aio")])
    await admin.alter_configs(
        [ConfigResource(ConfigResourceType.TOPIC, "rec-aio", configs={"segment.ms": "600000"})]
    )
    for idempotent in (False, True):
        async with AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=idempotent) as producer:
            for n in range(3):
                await producer.send_and_wait("rec-aio", b"value %d" % n, b"key", partition=0)
    partition = TopicPartition("rec-aio", 0)
    async with AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        await consumer.getmany(timeout_ms=1000)
        await consumer.offsets_for_times({partition: 1})
    await admin.delete_topics(["rec-aio"])
    await admin.close()


def run_sessions(servers: str) -> None:
    sessions: list[Callable[[str], Any]] = [
        confluent_admin,
        confluent_data,
        kafka_python_session,
        lambda address: asyncio.run(asyncio.wait_for(aiokafka_session(address), 60)),
    ]
    for session in sessions:
        print(getattr(session, "__name__", "session"))
        try:
            session(servers)
        except Exception:
            traceback.print_exc()


async def record(path: str) -> None:
    corpus = Corpus()
    port = free_port(HOST)
    address = f"{HOST}:{port}"
    # Advertise the proxy, so that clients reconnect through it.
    with Cluster(config={"advertised.listeners": f"PLAINTEXT://{address}"}) as cluster:
        proxy = RecordingProxy(cluster.bootstrap_servers, corpus)
        await proxy.start(HOST, port)
        done = asyncio.Event()
        loop = asyncio.get_running_loop()

        def clients() -> None:
            run_sessions(address)
            loop.call_soon_threadsafe(done.set)

        threading.Thread(target=clients, daemon=True).start()
        await done.wait()
        await proxy.stop()
    corpus.save(path)
    frames = corpus.frames()
    apis = sorted({frame.api_key for frame in frames})
    print(f"{len(frames)} frames, {sum(len(frame.data) for frame in frames)} bytes, APIs {apis} -> {path}")


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1] if len(sys.argv) > 1 else DEFAULT_PATH))
