"""confluent-kafka, kafka-python and aiokafka: sizes, times, positions, many partitions, acknowledgements."""

from __future__ import annotations

import asyncio
import random
import threading
import time
import uuid
from typing import Any

import aiokafka
import aiokafka.errors
import confluent_kafka
import pytest

from tests.support.interop.clients import PYTHON_CLIENTS, Row, codecs_of, confluent_consumer
from tests.support.interop.kafka_python import kafka
from tests.support.interop.wire import batch_of
from tests.support.waiting import wait_until

START_MS = int(time.time()) * 1000 - 60_000
EVERY_CLIENT = pytest.mark.parametrize("client", PYTHON_CLIENTS)


# -- all three clients


@EVERY_CLIENT
def test_records_from_one_byte_to_the_largest(servers, topic, client):
    write, read = PYTHON_CLIENTS[client]
    make = random.Random(5).randbytes
    # kafka-python and librdkafka have a default limit of a million bytes.
    sizes = (0, 1, 2, 127, 128, 8191, 8192, 65_400, 65_536, 262_144, 990_000)
    rows = [Row(b"k", make(size), (), START_MS + n) for n, size in enumerate(sizes)]
    write(servers, topic, 0, rows, "none")
    assert read(servers, topic, 0) == list(enumerate(rows))


@EVERY_CLIENT
def test_many_small_records_in_every_codec_in_one_partition(servers, topic, client):
    write, read = PYTHON_CLIENTS[client]
    expected: list[Row] = []
    for codec in codecs_of(client):
        rows = [Row(b"%d" % n, codec.encode() * 20, (("n", b"%d" % n),), START_MS + n) for n in range(500)]
        write(servers, topic, 0, rows, codec)
        expected += rows
    assert read(servers, topic, 0) == list(enumerate(expected))


@EVERY_CLIENT
def test_many_topics_are_created_by_metadata_requests(servers, wire, client):
    write, read = PYTHON_CLIENTS[client]
    names = [f"auto-{uuid.uuid4().hex}" for _ in range(5)]
    for name in names:
        write(servers, name, 0, [Row(None, name.encode(), (), START_MS)], "none")
    for name in names:
        assert [row.value for _, row in read(servers, name, 0)] == [name.encode()]


# -- confluent-kafka


def confluent_deliveries(
    servers: str, settings: dict[str, Any], topic: str, values: list[bytes]
) -> list[Any]:
    """Return the error, or None, of each record."""
    errors: list[Any] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, **settings})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(20) == 0
    return errors


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_confluent_acknowledgements(servers, wire, topic, acks):
    values = [b"%d" % n for n in range(100)]
    assert set(confluent_deliveries(servers, {"acks": acks}, topic, values)) == {None}
    wait_until(lambda: wire.list_offsets(topic, -1).offset >= 100)
    assert [record.value for record in wire.records(topic)] == values


def test_confluent_a_record_above_the_limit_is_refused_by_the_broker(servers, topic):
    settings = {"message.max.bytes": 5_000_000}
    assert confluent_deliveries(servers, settings, topic, [b"x" * 1_048_500]) == [None]
    (error,) = confluent_deliveries(servers, settings, topic, [b"x" * 1_048_600])
    assert error.code() == confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE


def test_confluent_an_idempotent_producer_keeps_order_with_many_batches_in_flight(servers, wire, topic):
    values = [b"%d" % n for n in range(20_000)]
    settings = {
        "enable.idempotence": True,
        "batch.num.messages": 100,
        "linger.ms": 1,
        "queue.buffering.max.messages": 50_000,
    }
    assert set(confluent_deliveries(servers, settings, topic, values)) == {None}
    assert [record.value for record in wire.records(topic)] == values


def test_confluent_positions_and_times(servers, wire, new_topic):
    topic = new_topic(partitions=2)
    for n in range(10):
        wire.produce(topic, batch_of(b"%d" % n, timestamp_ms=START_MS + n * 100), partition=1)
    consumer = confluent_consumer(servers)
    try:
        here = confluent_kafka.TopicPartition
        assert consumer.get_watermark_offsets(here(topic, 1), timeout=10) == (0, 10)
        assert consumer.get_watermark_offsets(here(topic, 0), timeout=10) == (0, 0)
        query = [here(topic, 1, START_MS + 450), here(topic, 0, START_MS)]
        found = consumer.offsets_for_times(query, timeout=10)
        assert [each.offset for each in found] == [5, confluent_kafka.OFFSET_END]
        consumer.assign([found[0]])
        assert consumer.poll(10).value() == b"5"
        consumer.seek(here(topic, 1, 2))
        assert consumer.poll(10).value() == b"2"
        consumer.assign([here(topic, 1, confluent_kafka.OFFSET_END)])
        assert consumer.poll(0.3) is None
        consumer.assign([here(topic, 1, confluent_kafka.OFFSET_BEGINNING)])
        assert consumer.poll(10).value() == b"0"
    finally:
        consumer.close()


def test_confluent_auto_offset_reset(servers, wire, topic):
    wire.produce(topic, batch_of(b"a", b"b"))
    for reset, expected in (("earliest", b"a"), ("error", None)):
        consumer = confluent_consumer(servers, **{"auto.offset.reset": reset})
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, 77)])
            message = consumer.poll(10)
            if expected is None:
                assert message.error().code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET
            else:
                assert message.value() == expected
        finally:
            consumer.close()


def test_confluent_read_committed(servers, wire, topic):
    wire.produce(topic, batch_of(b"a", b"b"))
    consumer = confluent_consumer(servers, **{"isolation.level": "read_committed"})
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        assert [message.value() for message in consumer.consume(2, timeout=10)] == [b"a", b"b"]
    finally:
        consumer.close()


def test_confluent_reads_many_topics_and_partitions_at_once(servers, wire, new_topic):
    topics = [new_topic(partitions=20) for _ in range(5)]
    for topic in topics:
        for partition in range(20):
            wire.produce(topic, batch_of(b"%s/%d" % (topic.encode(), partition)), partition=partition)
    consumer = confluent_consumer(servers)
    try:
        everywhere = [(topic, partition) for topic in topics for partition in range(20)]
        consumer.assign([confluent_kafka.TopicPartition(*each, 0) for each in everywhere])
        found = set()
        deadline = time.monotonic() + 20
        while len(found) < 100 and time.monotonic() < deadline:
            found |= {
                (message.topic(), message.partition()) for message in consumer.consume(100, timeout=0.2)
            }
        assert found == set(everywhere)
    finally:
        consumer.close()


def test_confluent_a_thousand_partitions(servers, new_topic):
    topic = new_topic(partitions=1000)
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "linger.ms": 50})
    for partition in range(1000):
        producer.produce(topic, b"%d" % partition, partition=partition)
    assert producer.flush(30) == 0
    consumer = confluent_consumer(servers)
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in range(1000)])
        found: dict[int, bytes] = {}
        deadline = time.monotonic() + 30
        while len(found) < 1000 and time.monotonic() < deadline:
            found |= {message.partition(): message.value() for message in consumer.consume(1000, timeout=0.2)}
        assert found == {partition: b"%d" % partition for partition in range(1000)}
    finally:
        consumer.close()


def test_confluent_a_waiting_consumer_gets_a_record_at_once(servers, wire, topic):
    consumer = confluent_consumer(servers, **{"fetch.wait.max.ms": 20_000})
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        assert consumer.poll(0.3) is None
        began = time.monotonic()
        wire.produce(topic, batch_of(b"now"))
        assert consumer.poll(15).value() == b"now"
        assert time.monotonic() - began < 5
    finally:
        consumer.close()


def test_confluent_log_append_time(servers, new_topic):
    topic = new_topic(**{"message.timestamp.type": "LogAppendTime"})
    reports: list[tuple[int, int]] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "compression.type": "lz4"})
    before = int(time.time() * 1000)
    for n in range(3):
        producer.produce(
            topic,
            b"%d" % n,
            timestamp=1000,
            on_delivery=lambda _, message: reports.append(message.timestamp()),
        )
    assert producer.flush(20) == 0
    after = int(time.time() * 1000)
    consumer = confluent_consumer(servers)
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        found = [message.timestamp() for message in consumer.consume(3, timeout=10)]
    finally:
        consumer.close()
    assert found == reports
    for kind, timestamp in found:
        assert kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME
        assert before <= timestamp <= after


# -- kafka-python


def test_kafka_python_positions_and_times(servers, wire, new_topic):
    topic = new_topic(partitions=2)
    for n in range(10):
        wire.produce(topic, batch_of(b"%d" % n, timestamp_ms=START_MS + n * 100), partition=1)
    consumer = kafka.KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="none")
    try:
        empty, full = kafka.TopicPartition(topic, 0), kafka.TopicPartition(topic, 1)
        assert consumer.partitions_for_topic(topic) == {0, 1}
        assert consumer.beginning_offsets([empty, full]) == {empty: 0, full: 0}
        assert consumer.end_offsets([empty, full]) == {empty: 0, full: 10}
        found = consumer.offsets_for_times({full: START_MS + 450, empty: START_MS})
        assert (found[full].offset, found[full].timestamp) == (5, START_MS + 500)
        assert found[empty] is None
        consumer.assign([full])
        consumer.seek(full, 8)
        values = [record.value for record in consumer.poll(10_000)[full]]
        assert values == [b"8", b"9"]
        consumer.seek_to_beginning(full)
        assert consumer.position(full) == 0
        consumer.seek_to_end(full)
        assert consumer.position(full) == 10
    finally:
        consumer.close()


def test_kafka_python_acknowledgements_and_idempotence(servers, wire, topic):
    expected = []
    settings: list[dict[str, Any]] = [
        {"acks": 0, "enable_idempotence": False},
        {"acks": 1, "enable_idempotence": False},
        {"acks": "all", "enable_idempotence": True},
    ]
    for number, options in enumerate(settings):
        producer = kafka.KafkaProducer(bootstrap_servers=servers, batch_size=200, **options)
        try:
            values = [b"%d/%d" % (number, n) for n in range(100)]
            for value in values:
                producer.send(topic, value)
            producer.flush(20)
        finally:
            producer.close()
        expected += values
        count = len(expected)
        wait_until(lambda count=count: wire.list_offsets(topic, -1).offset >= count)
    assert [record.value for record in wire.records(topic)] == expected


def test_kafka_python_a_record_above_the_limit_is_refused_by_the_broker(servers, topic):
    producer = kafka.KafkaProducer(bootstrap_servers=servers, max_request_size=5_000_000)
    try:
        assert producer.send(topic, b"x" * 1_048_500).get(20).offset == 0
        with pytest.raises(kafka.errors.MessageSizeTooLargeError):
            producer.send(topic, b"x" * 1_048_600).get(20)
    finally:
        producer.close()


# -- aiokafka


def test_aiokafka_positions_and_times(servers, wire, new_topic):
    topic = new_topic(partitions=2)
    for n in range(10):
        wire.produce(topic, batch_of(b"%d" % n, timestamp_ms=START_MS + n * 100), partition=1)

    async def look() -> None:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=servers, isolation_level="read_committed")
        await consumer.start()
        try:
            empty, full = aiokafka.TopicPartition(topic, 0), aiokafka.TopicPartition(topic, 1)
            assert await consumer.beginning_offsets([empty, full]) == {empty: 0, full: 0}
            assert await consumer.end_offsets([empty, full]) == {empty: 0, full: 10}
            found = await consumer.offsets_for_times({full: START_MS + 450, empty: START_MS})
            assert (found[full].offset, found[full].timestamp) == (5, START_MS + 500)
            assert found[empty] is None
            consumer.assign([full])
            consumer.seek(full, 8)
            assert (await asyncio.wait_for(consumer.getone(), 10)).value == b"8"
            assert consumer.highwater(full) == 10
            assert consumer.last_stable_offset(full) == 10
        finally:
            await consumer.stop()

    asyncio.run(look())


@pytest.mark.parametrize(
    "options",
    [{"acks": 0}, {"acks": 1}, {"acks": "all"}, {"enable_idempotence": True, "max_batch_size": 500}],
    ids=["0", "1", "all", "idempotent"],
)
def test_aiokafka_acknowledgements(servers, wire, topic, options):
    values = [b"%d" % n for n in range(300)]

    async def write() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, **options)
        await producer.start()
        try:
            await asyncio.gather(*[await producer.send(topic, value) for value in values])
        finally:
            await producer.stop()

    asyncio.run(write())
    wait_until(lambda: wire.list_offsets(topic, -1).offset >= 300)
    assert [record.value for record in wire.records(topic)] == values


def test_aiokafka_a_record_above_the_limit_is_refused_by_the_broker(servers, topic):
    async def write() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, max_request_size=5_000_000)
        await producer.start()
        try:
            with pytest.raises(aiokafka.errors.MessageSizeTooLargeError):
                await producer.send_and_wait(topic, b"x" * 1_048_600)
            assert (await producer.send_and_wait(topic, b"x" * 1_048_500)).offset == 0
        finally:
            await producer.stop()

    asyncio.run(write())


# -- all clients together


def test_producers_of_all_clients_share_a_partition(servers, wire, topic):
    """Nothing is lost or duplicated, and the order of each producer is kept."""
    per_writer = 200

    def work(client: str) -> None:
        rows = [Row(client.encode(), b"%d" % n, (), START_MS) for n in range(per_writer)]
        PYTHON_CLIENTS[client][0](servers, topic, 0, rows, "gzip")

    threads = [threading.Thread(target=work, args=(client,)) for client in PYTHON_CLIENTS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = wire.records(topic)
    assert [record.offset for record in found] == list(range(3 * per_writer))
    for client in PYTHON_CLIENTS:
        values = [record.value for record in found if record.key == client.encode()]
        assert values == [b"%d" % n for n in range(per_writer)], client
