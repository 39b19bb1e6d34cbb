"""Writing single records, and reading all of them."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition


def write(servers: str, topic: str, values: list[bytes], **config: Any) -> list[KafkaError | None]:
    """Write without retries; return the error of each record or None."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    fates: dict[bytes | None, KafkaError | None] = {}
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "retries": 0,
            "linger.ms": 5,
            "log_level": 0,
            "acks": "all",
            **settings,
        }
    )
    for value in values:
        producer.produce(
            topic,
            value,
            partition=0,
            on_delivery=lambda error, message: fates.update({message.value(): error}),
        )
    assert producer.flush(30) == 0
    return [fates[value] for value in values]


def codes(fates: list[KafkaError | None]) -> list[int]:
    """Distinct error codes, 0 for none."""
    return sorted({0 if fate is None else fate.code() for fate in fates})


def read_all(servers: str, topic: str, *, timeout_s: float = 10.0) -> list[bytes]:
    """Values of partition 0 from its start to its high watermark."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    found: list[bytes] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while (message := consumer.poll(timeout_s)) is not None:
            error = message.error()
            if error is None:
                found.append(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise KafkaException(error)
        raise AssertionError(f"nothing for {timeout_s} s after {len(found)} records")
    finally:
        consumer.close()
