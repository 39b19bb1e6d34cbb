"""Three workers that read, write and commit their offsets in transactions, while brokers and workers
are killed: every input is in the output exactly once."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client import ClientError, ConsumedRecord, Consumer, Producer, TransactionFailedError
from ottla.testing import Cluster
from ottla.testing.topics import topic_name_for
from tests.support.interop.transactions import read_committed

PARTITIONS = 6
WORKERS = 3
BATCH_MAX = 20
PAUSE_S = 0.1  # in every transaction, so that the test takes a while
DONE_WITHIN_S = 120
LONG = pytest.mark.skipif(
    os.environ.get("OTTLA_LONG_TESTS") != "1", reason="takes half a minute: OTTLA_LONG_TESTS=1 runs it"
)


@pytest.fixture(scope="module")
def eos_cluster() -> Iterator[Cluster]:
    quick = {"group.initial.rebalance.delay.ms": 200, "group.min.session.timeout.ms": 1000}
    with Cluster(brokers=3, config=quick) as cluster:
        yield cluster


class Worker(threading.Thread):
    """Reads records, writes and commits them; after an error it returns to the committed offsets. With
    `leaves`, every `leaves`-th transaction is abandoned and another instance continues."""

    INPUTS = 1200

    def __init__(self, servers: str, source: str, target: str, number: int, leaves: int = 0) -> None:
        super().__init__(daemon=True)
        self._servers = servers
        self._source = source
        self._target = target
        self._name = f"{target}-{number}"
        self._leaves = leaves
        self._stopped = threading.Event()
        self.transactions = 0
        self.errors: list[str] = []
        self.crash: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._stopped.is_set():
                try:
                    self._work()
                except KafkaException as error:
                    self.errors.append(str(error))
        except BaseException as error:
            self.crash = error

    def stop(self) -> None:
        self._stopped.set()
        self.join(60)
        assert not self.is_alive(), self.errors[-3:]
        assert self.crash is None, (self.crash, self.errors[-3:])

    def _work(self) -> None:
        """Run one instance until a fatal error."""
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self._servers,
                "transactional.id": self._name,
                "transaction.timeout.ms": 10_000,
                "error_cb": lambda _: None,
                "log_level": 0,
            }
        )
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": self._target,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
                "log_level": 0,
            }
        )
        try:
            producer.init_transactions(30)
            consumer.subscribe([self._source])
            while not self._stopped.is_set():
                messages = [each for each in consumer.consume(BATCH_MAX, 0.2) if each.error() is None]
                if messages and not self._transaction(producer, consumer, messages):
                    return
        finally:
            consumer.close()

    def _transaction(
        self,
        producer: confluent_kafka.Producer,
        consumer: confluent_kafka.Consumer,
        messages: list[confluent_kafka.Message],
    ) -> bool:
        """Run a transaction; return False if the instance is no longer usable."""
        self.transactions += 1
        ends: dict[int, int] = {}
        try:
            producer.begin_transaction()
            for message in messages:
                producer.produce(self._target, message.value(), partition=message.partition())
                ends[message.partition()] = message.offset() + 1
            time.sleep(PAUSE_S)
            if self._leaves and self.transactions % self._leaves == 0:
                producer.flush(5)
                return False
            wanted = [TopicPartition(self._source, index, offset) for index, offset in ends.items()]
            producer.send_offsets_to_transaction(wanted, consumer.consumer_group_metadata(), 30)
            self._commit(producer)
            return True
        except KafkaException as error:
            why = error.args[0]
            self.errors.append(str(why))
            if why.fatal() or why.code() == KafkaError._FENCED:
                return False
            producer.abort_transaction(30)
            self._go_back(consumer)
            return True

    def _commit(self, producer: confluent_kafka.Producer) -> None:
        while True:
            try:
                producer.commit_transaction(30)
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def _go_back(self, consumer: confluent_kafka.Consumer) -> None:
        for place in consumer.committed(consumer.assignment(), 30):
            offset = place.offset if place.offset >= 0 else confluent_kafka.OFFSET_BEGINNING
            consumer.seek(TopicPartition(place.topic, place.partition, offset))


class OurWorker(Worker):
    """The same with Ottla's client: transaction version 2 and KIP-848 groups."""

    INPUTS = 1500

    def _work(self) -> None:
        try:
            asyncio.run(self._run_instance())
        except ClientError as error:
            raise KafkaException(KafkaError(KafkaError._FAIL, repr(error))) from error

    async def _run_instance(self) -> None:
        options = {"group_id": self._target, "auto_commit": False, "session_timeout_ms": 6000}
        producer = Producer(self._servers, transactional_id=self._name, transaction_timeout_ms=10_000)
        try:
            async with Consumer(self._servers, isolation_level="read_committed", **options) as consumer:
                consumer.subscribe(self._source)
                while not self._stopped.is_set():
                    records = await consumer.poll(BATCH_MAX, timeout_ms=200)
                    if records and not await self._our_transaction(producer, consumer, records):
                        return
        finally:
            await producer.close(flush=False)

    async def _our_transaction(
        self, producer: Producer, consumer: Consumer, records: list[ConsumedRecord]
    ) -> bool:
        self.transactions += 1
        try:
            await producer.begin_transaction()
            for record in records:
                await producer.send(self._target, record.value, partition=record.partition)
            await asyncio.sleep(PAUSE_S)
            if self._leaves and self.transactions % self._leaves == 0:
                await producer.flush()
                return False
            await producer.send_offsets_to_transaction(consumer.consumed_offsets(), consumer)
            await producer.commit_transaction()
        except TransactionFailedError as error:
            self.errors.append(repr(error))
            await producer.abort_transaction()
            await consumer.seek_to_committed()
        return True


def fill(servers: str, topic: str, count: int) -> list[str]:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    values = [f"input-{number}" for number in range(count)]
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    return values


@pytest.mark.parametrize(
    ("kind", "dying"),
    [
        (Worker, "workers"),
        (OurWorker, "brokers"),
        pytest.param(Worker, "brokers", marks=LONG),
        pytest.param(OurWorker, "workers", marks=LONG),
    ],
)
def test_every_input_is_in_the_output_exactly_once(
    eos_cluster: Cluster, request: pytest.FixtureRequest, dying: str, kind: type[Worker]
) -> None:
    servers = eos_cluster.bootstrap_servers
    source, target = (topic_name_for(f"{kind.__name__}-{dying}-{what}") for what in ("in", "out"))
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in (source, target)]).values():
        future.result()
    values = fill(servers, source, kind.INPUTS)
    leaves = 5 if dying == "workers" else 0
    workers = [kind(servers, source, target, number, leaves) for number in range(WORKERS)]
    for worker in workers:
        worker.start()
    limit = time.monotonic() + DONE_WITHIN_S
    victim = 0
    found: list[str] = []
    while len(found) < len(values):
        assert time.monotonic() < limit, (len(found), [worker.errors[-3:] for worker in workers])
        assert all(worker.crash is None for worker in workers), [worker.crash for worker in workers]
        if dying == "brokers":
            eos_cluster.kill(victim)
            time.sleep(2)
            eos_cluster.start(victim)
            victim = (victim + 1) % 3
        time.sleep(0.5)
        before = found
        found = read_committed(servers, target, PARTITIONS)
        assert len(found) == len(set(found)), "duplicates in the output"
        assert set(before) <= set(found), "records disappeared"
    for worker in workers:
        worker.stop()
    assert sorted(read_committed(servers, target, PARTITIONS)) == sorted(values)
