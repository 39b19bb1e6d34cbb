"""A common interface to all clients: write rows to a partition, read a partition to its end.

A row is (key, value, headers, timestamp in ms). Readers return (offset, row) pairs.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import aiokafka
import confluent_kafka

from tests.support.interop.kafka_python import kafka

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
READ_TIMEOUT_S = 20.0
# kafka-python needs optional packages for most codecs.
KAFKA_PYTHON_CODECS = tuple(
    codec for codec in CODECS if codec == "none" or getattr(kafka.codec, f"has_{codec}")()
)


class Row(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 0


Found = list[tuple[int, Row]]


# -- librdkafka


def confluent_write(servers: str, topic: str, partition: int, rows: list[Row], codec: str) -> None:
    errors: list[Any] = []
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 5, "enable.idempotence": True}
    )
    for row in rows:
        producer.produce(
            topic,
            row.value,
            row.key,
            partition,
            on_delivery=lambda error, _: errors.append(error) if error else None,
            timestamp=row.timestamp_ms,
            headers=list(row.headers),
        )
    assert producer.flush(20) == 0
    assert not errors, errors


def confluent_consumer(servers: str, **settings: Any) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "interop",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
            "check.crcs": True,
            **settings,
        }
    )


def confluent_read(servers: str, topic: str, partition: int) -> Found:
    consumer = confluent_consumer(servers)
    try:
        here = confluent_kafka.TopicPartition(topic, partition, 0)
        start, end = consumer.get_watermark_offsets(here, timeout=10)
        here.offset = start
        consumer.assign([here])
        found: Found = []
        while end > start and (not found or found[-1][0] + 1 < end):
            message: Any = consumer.poll(READ_TIMEOUT_S)
            assert message is not None, f"{len(found)} records, then nothing"
            assert message.error() is None, message.error()
            headers = tuple((name, value) for name, value in message.headers() or ())
            row = Row(message.key(), message.value(), headers, message.timestamp()[1])
            found.append((message.offset(), row))
        return found
    finally:
        consumer.close()


# -- kafka-python


def kafka_python_write(servers: str, topic: str, partition: int, rows: list[Row], codec: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=servers, compression_type=None if codec == "none" else codec, linger_ms=5
    )
    try:
        sent = [
            producer.send(topic, row.value, row.key, list(row.headers), partition, row.timestamp_ms)
            for row in rows
        ]
        for each in sent:
            each.get(20)
    finally:
        producer.close()


def kafka_python_read(servers: str, topic: str, partition: int) -> Found:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=servers, auto_offset_reset="none", fetch_max_wait_ms=50, check_crcs=True
    )
    try:
        here = kafka.TopicPartition(topic, partition)
        consumer.assign([here])
        start = consumer.beginning_offsets([here])[here]
        end = consumer.end_offsets([here])[here]
        consumer.seek(here, start)
        found: Found = []
        deadline = time.monotonic() + READ_TIMEOUT_S
        while end > start and (not found or found[-1][0] + 1 < end):
            assert time.monotonic() < deadline, f"{len(found)} records, then nothing"
            for record in consumer.poll(timeout_ms=1000).get(here, ()):
                row = Row(record.key, record.value, tuple(map(tuple, record.headers)), record.timestamp)
                found.append((record.offset, row))
        return found
    finally:
        consumer.close()


# -- aiokafka


def aiokafka_write(servers: str, topic: str, partition: int, rows: list[Row], codec: str) -> None:
    async def write() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers, compression_type=None if codec == "none" else codec, linger_ms=5
        )
        await producer.start()
        try:
            sent = [
                await producer.send(topic, row.value, row.key, partition, row.timestamp_ms, list(row.headers))
                for row in rows
            ]
            await asyncio.gather(*sent)
        finally:
            await producer.stop()

    asyncio.run(write())


def aiokafka_read(servers: str, topic: str, partition: int) -> Found:
    async def read() -> Found:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=servers, auto_offset_reset="none", fetch_max_wait_ms=50, check_crcs=True
        )
        await consumer.start()
        try:
            here = aiokafka.TopicPartition(topic, partition)
            consumer.assign([here])
            start = (await consumer.beginning_offsets([here]))[here]
            end = (await consumer.end_offsets([here]))[here]
            consumer.seek(here, start)
            found: Found = []
            while end > start and (not found or found[-1][0] + 1 < end):
                record = await asyncio.wait_for(consumer.getone(), READ_TIMEOUT_S)
                row = Row(record.key, record.value, tuple(map(tuple, record.headers)), record.timestamp)
                found.append((record.offset, row))
            return found
        finally:
            await consumer.stop()

    return asyncio.run(read())


# -- Ottla


def ottla_write(servers: str, topic: str, partition: int, rows: list[Row], codec: str) -> None:
    from ottla.client import Producer

    async def write() -> None:
        async with Producer(servers, compression=codec) as producer:
            sent = [
                await producer.send(
                    topic,
                    row.value,
                    key=row.key,
                    partition=partition,
                    headers=row.headers,
                    timestamp_ms=row.timestamp_ms,
                )
                for row in rows
            ]
            await asyncio.gather(*sent)

    asyncio.run(write())


def ottla_read(servers: str, topic: str, partition: int) -> Found:
    from tests.support.interop.wire import Wire

    with Wire(servers) as wire:
        start = wire.list_offsets(topic, -2, partition=partition).offset
        return [
            (record.offset, Row(record.key, record.value, record.headers, record.timestamp))
            for record in wire.records(topic, start, partition=partition)
        ]


# -- kcat


KCAT = shutil.which("kcat") or shutil.which("kafkacat")


def kcat_write(servers: str, topic: str, partition: int, rows: list[Row], codec: str) -> None:
    """Write with kcat, which takes lines of text and the same headers for every record."""
    assert KCAT is not None
    command = [KCAT, "-P", "-b", servers, "-t", topic, "-p", str(partition), "-z", codec, "-K", "\t", "-Z"]
    for name, value in rows[0].headers:
        command += ["-H", f"{name}={(value or b'').decode()}"]
    lines = b"".join(b"%s\t%s\n" % (row.key or b"", row.value or b"") for row in rows)
    subprocess.run(command, input=lines, check=True, timeout=30)


def kcat_read(servers: str, topic: str, partition: int) -> Found:
    """Read with lengths before the bytes, so that any bytes are possible; %K and %S are -1 for null."""
    assert KCAT is not None
    command = [KCAT, "-C", "-b", servers, "-t", topic, "-p", str(partition), "-o", "beginning", "-e", "-q"]
    command += ["-X", "check.crcs=true", "-X", "fetch.wait.max.ms=50", "-f", "%o %T %K %S %h\n%k%s\n"]
    output = subprocess.run(command, check=True, timeout=30, stdout=subprocess.PIPE).stdout
    found: Found = []
    pos = 0
    while pos < len(output):
        line_end = output.index(b"\n", pos)
        offset, timestamp, key_size, value_size, headers = output[pos:line_end].split(b" ", 4)
        pos = line_end + 1
        key, pos = _kcat_field(output, pos, int(key_size))
        value, pos = _kcat_field(output, pos, int(value_size))
        assert output[pos : pos + 1] == b"\n"
        pos += 1
        pairs = [pair.split(b"=", 1) for pair in headers.split(b",") if pair]
        named = tuple((name.decode(), None if text == b"NULL" else text) for name, text in pairs)
        found.append((int(offset), Row(key, value, named, int(timestamp))))
    return found


def _kcat_field(output: bytes, pos: int, size: int) -> tuple[bytes | None, int]:
    return (None, pos) if size < 0 else (output[pos : pos + size], pos + size)


def codecs_of(client: str) -> tuple[str, ...]:
    return KAFKA_PYTHON_CODECS if client == "kafka-python" else CODECS


Write = Callable[[str, str, int, list[Row], str], None]
Read = Callable[[str, str, int], Found]

PYTHON_CLIENTS: dict[str, tuple[Write, Read]] = {
    "confluent": (confluent_write, confluent_read),
    "kafka-python": (kafka_python_write, kafka_python_read),
    "aiokafka": (aiokafka_write, aiokafka_read),
}
