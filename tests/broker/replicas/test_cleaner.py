"""The cleaner in real brokers: internal topics stay small, compacted topics keep the last values."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from ottla.testing import Cluster
from tests.support.waiting import wait_until

EAGER = {"log.cleaner.backoff.ms": 50, "log.segment.delete.delay.ms": 0}


def log_bytes(data_dir: str, topic: str) -> int:
    total = 0
    for path in Path(data_dir).glob(f"**/{topic}-*/*.log"):
        with suppress(FileNotFoundError):  # the cleaner may just have replaced it
            total += path.stat().st_size
    return total


def read_all(
    cluster: Cluster, topic: str, **settings: object
) -> list[tuple[int, bytes | None, bytes | None]]:
    """Every record of partition 0 that a new consumer sees."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "reader",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            **settings,
        }
    )
    found = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            message = consumer.poll(10)
            assert message is not None, "the consumer does not reach the end"
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                return found
            found.append((message.offset(), message.key(), message.value()))
    finally:
        consumer.close()


def test_offsets_of_a_busy_group_are_compacted_and_survive_a_restart() -> None:
    config = {
        **EAGER,
        "offsets.topic.num.partitions": 1,
        "offsets.topic.segment.bytes": 1 << 20,
    }
    with Cluster(config=config) as cluster:
        cluster.create_topic("t", partitions=4)
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "g",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 200,
            }
        )
        partitions = [TopicPartition("t", index) for index in range(4)]
        consumer.assign(partitions)
        note = "x" * 200
        for turn in range(20_000):
            commit = TopicPartition("t", turn % 4, turn, note)
            consumer.commit(offsets=[commit], asynchronous=turn % 200 != 0)
        consumer.commit(offsets=[TopicPartition("t", 0, 77)], asynchronous=False)
        expected = [77, 19_997, 19_998, 19_999]
        assert [found.offset for found in consumer.committed(partitions, timeout=10)] == expected
        # More than five megabytes were written: the active segment and the last record of each key remain.
        wait_until(lambda: log_bytes(cluster.data_dir, "__consumer_offsets") < 1_100_000)
        cluster.restart()
        assert [found.offset for found in consumer.committed(partitions, timeout=20)] == expected
        cluster.kill()
        cluster.start()
        assert [found.offset for found in consumer.committed(partitions, timeout=20)] == expected
        consumer.close()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_client_reads_a_compacted_log(codec: str) -> None:
    with Cluster(config=EAGER) as cluster:
        configs = {"cleanup.policy": "compact", "segment.bytes": 1 << 20, "min.cleanable.dirty.ratio": 0.01}
        cluster.create_topic("t", partitions=1, config=configs)
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "compression.type": codec,
                "enable.idempotence": True,
                "linger.ms": 1,
            }
        )
        import random

        rng = random.Random(3)
        last: dict[bytes, tuple[int, bytes | None]] = {}

        def delivered(error: object, message: object) -> None:
            assert error is None
            last[message.key()] = (message.offset(), message.value())  # type: ignore[attr-defined]

        for turn in range(6000):
            key = b"key%d" % rng.randrange(100)
            value = None if turn % 50 == 0 else rng.randbytes(600)
            producer.produce("t", value, key, on_delivery=delivered)
            producer.poll(0)
        producer.flush()
        wait_until(lambda: log_bytes(cluster.data_dir, "t") < 1_300_000)
        found = read_all(cluster, "t")
        assert len(found) < 3000
        assert [offset for offset, _, _ in found] == sorted(offset for offset, _, _ in found)
        seen = {key: (offset, value) for offset, key, value in found}
        assert seen == last
        producer.produce("t", b"more", b"key0")  # its sequence continues
        assert producer.flush(10) == 0


def test_a_follower_that_was_down_catches_up_with_a_compacted_log() -> None:
    with Cluster(brokers=3, config=EAGER) as cluster:
        configs = {
            "cleanup.policy": "compact",
            "segment.bytes": str(1 << 20),
            "min.cleanable.dirty.ratio": "0.01",
        }
        cluster.create_topic("t", partitions=1, config=configs)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5})

        def produce(turns: range) -> None:
            for turn in turns:
                producer.produce("t", b"%d" % turn * 150, b"key%d" % (turn % 50))
                producer.poll(0)
            assert producer.flush(20) == 0

        produce(range(1000))
        away = 2
        cluster.stop(away)
        produce(range(1000, 12_000))
        directories = [Path(cluster._node(index).data_dir) for index in range(3)]
        for index in (0, 1):
            wait_until(lambda path=directories[index]: log_bytes(str(path), "t") < 1_500_000)
        cluster.start(away)
        produce(range(12_000, 12_050))
        expected = {b"key%d" % (turn % 50): b"%d" % turn * 150 for turn in range(12_000, 12_050)}
        for survivor in range(3):
            # Each broker leads once, so that its own log is read.
            found = read_all(cluster, "t")
            assert {key: value for _, key, value in found} == expected
            if survivor < 2:
                cluster.restart(survivor)
        wait_until(lambda: log_bytes(str(directories[away]), "t") < 1_500_000)
