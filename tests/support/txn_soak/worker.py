"""A worker process: reads one topic, writes to another, commits both in transactions, until it is killed.

python -m tests.support.txn_soak.worker KIND SERVERS SOURCE TARGET NUMBER

KIND is `confluent` (first version of the protocol) or `ottla` (the second, where the cluster has it).
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from ottla.client import ClientError, Consumer, Producer, ProducerFencedError

BATCH_MAX = 50
TIMEOUT_MS = 10_000
SESSION_MS = 6_000


def is_done_for(error: KafkaException) -> bool:
    return bool(error.args[0].fatal()) or error.args[0].code() == KafkaError._FENCED


class ConfluentWorker:
    """One instance, which ends with its first fatal error."""

    def __init__(self, servers: str, source: str, target: str, number: str) -> None:
        common = {"bootstrap.servers": servers, "error_cb": lambda _: None, "log_level": 0}
        self._source = source
        self._target = target
        self._producer = confluent_kafka.Producer(
            {
                **common,
                "transactional.id": f"{target}-{number}",
                "transaction.timeout.ms": TIMEOUT_MS,
            }
        )
        self._consumer = confluent_kafka.Consumer(
            {
                **common,
                "group.id": target,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_MS,
            }
        )

    def run(self) -> None:
        try:
            self._producer.init_transactions(60)
            self._consumer.subscribe([self._source])
            while True:
                batch = [each for each in self._consumer.consume(BATCH_MAX, 0.2) if each.error() is None]
                if batch:
                    self._transaction(batch)
        finally:
            self._consumer.close()

    def _transaction(self, batch: list[Any]) -> None:
        ends: dict[int, int] = {}
        try:
            self._producer.begin_transaction()
            for message in batch:
                self._producer.produce(self._target, message.value(), partition=message.partition())
                ends[message.partition()] = message.offset() + 1
            wanted = [confluent_kafka.TopicPartition(self._source, *place) for place in ends.items()]
            metadata = self._consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction(wanted, metadata, 30)
            self._commit()
        except KafkaException as error:
            if is_done_for(error):
                raise
            self._producer.abort_transaction(30)
            for place in self._consumer.committed(self._consumer.assignment(), 30):
                offset = place.offset if place.offset >= 0 else confluent_kafka.OFFSET_BEGINNING
                self._consumer.seek(confluent_kafka.TopicPartition(place.topic, place.partition, offset))

    def _commit(self) -> None:
        while True:
            try:
                self._producer.commit_transaction(30)
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise


async def our_worker(servers: str, source: str, target: str, number: str) -> None:
    async with (
        Consumer(
            servers,
            group_id=target,
            auto_commit=False,
            isolation_level="read_committed",
            session_timeout_ms=SESSION_MS,
        ) as consumer,
        Producer(
            servers, transactional_id=f"{target}-{number}", transaction_timeout_ms=TIMEOUT_MS
        ) as producer,
    ):
        consumer.subscribe(source)
        while True:
            records = await consumer.poll(BATCH_MAX)
            if not records:
                continue
            try:
                async with producer.transaction():
                    for record in records:
                        await producer.send(target, record.value, partition=record.partition)
                    await producer.send_offsets_to_transaction(consumer.consumed_offsets(), consumer)
            except ProducerFencedError:
                raise
            except ClientError as error:
                print(f"{number}: aborted: {error!r}", file=sys.stderr, flush=True)
                await consumer.seek_to_committed()


def main(kind: str, *arguments: str) -> None:
    while True:
        try:
            if kind == "confluent":
                ConfluentWorker(*arguments).run()
            else:
                asyncio.run(our_worker(*arguments))
        except (KafkaException, ClientError) as error:
            print(f"{arguments[-1]}: restarts after {error!r}", file=sys.stderr, flush=True)
            time.sleep(0.2)


if __name__ == "__main__":
    main(*sys.argv[1:])
