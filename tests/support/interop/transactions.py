"""Transactional producers of five libraries with a common interface."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import aiokafka
import confluent_kafka

import ottla.client
from tests.support.interop.java import jvm
from tests.support.interop.kafka_python import kafka

WAIT_S = 30
LOST_S = 5
Rows = Sequence[tuple[int, str]]  # partition, value
Offsets = dict[tuple[str, int], int]


class Fenced(Exception):
    """Another producer has taken over the transactional id."""


class Failed(Exception):
    """The transaction can only be aborted."""


class TxnProducer:
    """With `wait`, `send` waits until the rows are acknowledged."""

    def __init__(self, servers: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self.servers = servers
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms

    def begin(self) -> None:
        raise NotImplementedError

    def send(self, topic: str, rows: Rows, *, wait: bool = False) -> None:
        raise NotImplementedError

    def offsets(self, group: str, offsets: Offsets) -> None:
        raise NotImplementedError

    def commit(self) -> None:
        raise NotImplementedError

    def abort(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Confluent(TxnProducer):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._failures: list[Any] = []
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.servers,
                "transactional.id": self.transactional_id,
                "transaction.timeout.ms": self.timeout_ms,
                "error_cb": lambda _: None,  # fatal errors would be raised from other callbacks
                "log_level": 0,
            }
        )
        self._do(self._producer.init_transactions, WAIT_S)

    def _do(self, what: Any, *arguments: Any) -> None:
        for _ in range(20):
            try:
                what(*arguments)
                return
            except confluent_kafka.KafkaException as error:
                why = error.args[0]
                if why.fatal() or why.code() == confluent_kafka.KafkaError._FENCED:
                    raise Fenced(str(why)) from error
                if why.txn_requires_abort():
                    raise Failed(str(why)) from error
                if not why.retriable():
                    raise

    def begin(self) -> None:
        self._failures.clear()
        self._do(self._producer.begin_transaction)

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failures.append(error)

    def send(self, topic: str, rows: Rows, *, wait: bool = False) -> None:
        for partition, value in rows:
            self._do(
                lambda partition=partition, value=value: self._producer.produce(
                    topic, value.encode(), partition=partition, on_delivery=self._delivered
                )
            )
        if wait:
            try:
                self._producer.flush(WAIT_S)
            except SystemError as error:  # a fatal error between two callbacks
                raise Failed("flush") from error
            if self._failures:
                raise Failed(str(self._failures[0]))

    def offsets(self, group: str, offsets: Offsets) -> None:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self.servers, "group.id": group, "log_level": 0}
        )
        metadata = consumer.consumer_group_metadata()
        wanted = [confluent_kafka.TopicPartition(*place, offset) for place, offset in offsets.items()]
        try:
            self._do(self._producer.send_offsets_to_transaction, wanted, metadata, WAIT_S)
        finally:
            consumer.close()

    def commit(self) -> None:
        self._do(self._producer.commit_transaction, WAIT_S)

    def abort(self) -> None:
        self._do(self._producer.abort_transaction, WAIT_S)

    def close(self) -> None:
        self._producer.purge()
        with suppress(SystemError, confluent_kafka.KafkaException):
            self._producer.flush(1)
        del self._producer  # undelivered messages keep it alive through their callback


class KafkaPython(TxnProducer):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=self.servers,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
        )
        self._do(self._producer.init_transactions)

    def _do(self, what: Any, *arguments: Any) -> Any:
        try:
            return what(*arguments)
        except (kafka.errors.ProducerFencedError, kafka.errors.InvalidProducerEpochError) as error:
            raise Fenced(repr(error)) from error
        except kafka.errors.KafkaError as error:
            raise Failed(repr(error)) from error

    def begin(self) -> None:
        self._do(self._producer.begin_transaction)

    def send(self, topic: str, rows: Rows, *, wait: bool = False) -> None:
        sent = [
            self._do(lambda row=row: self._producer.send(topic, row[1].encode(), partition=row[0]))
            for row in rows
        ]
        if wait:
            # It loses a request to a coordinator that is down, and waits for the response forever.
            self._do(self._producer.flush, LOST_S)
            for each in sent:
                self._do(each.get, LOST_S)

    def offsets(self, group: str, offsets: Offsets) -> None:
        wanted = {
            kafka.TopicPartition(*place): kafka.OffsetAndMetadata(offset, "", -1)
            for place, offset in offsets.items()
        }
        self._do(self._producer.send_offsets_to_transaction, wanted, group)

    def commit(self) -> None:
        self._do(self._producer.commit_transaction)

    def abort(self) -> None:
        self._do(self._producer.abort_transaction)

    def close(self) -> None:
        self._producer.close(timeout=0)


class Aiokafka(TxnProducer):
    _loop: ClassVar[asyncio.AbstractEventLoop | None] = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if Aiokafka._loop is None:
            loop = Aiokafka._loop = asyncio.new_event_loop()
            # Ignore the futures of rows that are not waited for.
            loop.set_exception_handler(lambda *_: None)
            threading.Thread(target=loop.run_forever, daemon=True).start()
        self._await(self._start())

    async def _start(self) -> None:
        self._producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self.servers,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
        )
        await self._producer.start()

    def _await(self, work: Any) -> Any:
        assert self._loop is not None
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_S)
        except (aiokafka.errors.ProducerFenced, aiokafka.errors.InvalidProducerEpoch) as error:
            raise Fenced(repr(error)) from error
        except aiokafka.errors.KafkaError as error:
            raise Failed(repr(error)) from error

    def begin(self) -> None:
        self._await(self._producer.begin_transaction())

    def send(self, topic: str, rows: Rows, *, wait: bool = False) -> None:
        async def send() -> None:
            sent = [
                await self._producer.send(topic, value.encode(), partition=partition)
                for partition, value in rows
            ]
            if wait:
                await asyncio.gather(*sent)

        self._await(send())

    def offsets(self, group: str, offsets: Offsets) -> None:
        wanted = {aiokafka.TopicPartition(*place): offset for place, offset in offsets.items()}
        self._await(self._producer.send_offsets_to_transaction(wanted, group))

    def commit(self) -> None:
        self._await(self._producer.commit_transaction())

    def abort(self) -> None:
        self._await(self._producer.abort_transaction())

    def close(self) -> None:
        assert self._loop is not None
        stopping = asyncio.run_coroutine_threadsafe(self._producer.stop(), self._loop)
        try:
            stopping.result(5)
        except (aiokafka.errors.KafkaError, TimeoutError):
            stopping.cancel()


class Ottla(TxnProducer):
    """Ottla's producer, with the transaction version of the cluster."""

    _loop: ClassVar[asyncio.AbstractEventLoop | None] = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if Ottla._loop is None:
            loop = Ottla._loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, daemon=True).start()
        self._await(self._start())

    async def _start(self) -> None:
        self._producer = ottla.client.Producer(
            self.servers, transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms
        )
        await self._producer.init_transactions()

    def _await(self, work: Any) -> Any:
        assert self._loop is not None
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result(2 * WAIT_S)
        except TimeoutError as error:
            where = [str(task.get_stack()) for task in asyncio.all_tasks(self._loop)]
            raise AssertionError(f"{work} did not end within {2 * WAIT_S} s: {where}") from error
        except ottla.client.ProducerFencedError as error:
            raise Fenced(repr(error)) from error
        except ottla.client.ClientError as error:
            raise Failed(repr(error)) from error

    def begin(self) -> None:
        self._await(self._producer.begin_transaction())

    def send(self, topic: str, rows: Rows, *, wait: bool = False) -> None:
        async def send() -> None:
            sent = [
                await self._producer.send(topic, value.encode(), partition=partition)
                for partition, value in rows
            ]
            if wait:
                await self._producer.flush()
                await asyncio.gather(*sent)

        self._await(send())

    def offsets(self, group: str, offsets: Offsets) -> None:
        self._await(self._producer.send_offsets_to_transaction(offsets, group))

    def commit(self) -> None:
        self._await(self._producer.commit_transaction())

    def abort(self) -> None:
        self._await(self._producer.abort_transaction())

    def close(self) -> None:
        self._await(self._producer.close(flush=False))


class TxnJvm:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, what: str, name: str = "", **command: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": what, "name": name, **command}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the JVM has ended"
        answer = json.loads(line)
        if "error" in answer:
            kind, text = answer["error"], f"{answer['error']}: {answer['message']}"
            if kind in ("ProducerFencedException", "InvalidProducerEpochException"):
                raise Fenced(text)
            raise Failed(text)
        return answer["result"]


@contextmanager
def txn_jvm() -> Iterator[TxnJvm]:
    with jvm("TransactionDriver") as process:
        yield TxnJvm(process)


class Java(TxnProducer):
    """The only one besides Ottla's that supports transaction version 2."""

    jvm: ClassVar[TxnJvm]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._name = uuid.uuid4().hex
        settings = {
            "bootstrap.servers": self.servers,
            "transactional.id": self.transactional_id,
            "transaction.timeout.ms": str(self.timeout_ms),
        }
        self.jvm.run("open", self._name, settings=settings)

    def begin(self) -> None:
        self.jvm.run("begin", self._name)

    def send(self, topic: str, rows: Rows, *, wait: bool = False) -> None:
        self.jvm.run("send", self._name, topic=topic, rows=[list(row) for row in rows], wait=wait)

    def offsets(self, group: str, offsets: Offsets) -> None:
        rows = [[*place, offset] for place, offset in offsets.items()]
        self.jvm.run("offsets", self._name, group=group, offsets=rows)

    def commit(self) -> None:
        self.jvm.run("commit", self._name)

    def abort(self) -> None:
        self.jvm.run("abort", self._name)

    def close(self) -> None:
        self.jvm.run("close", self._name)


KINDS: dict[str, type[TxnProducer]] = {
    "confluent": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
    "java": Java,
    "ottla": Ottla,
}


def read_committed(servers: str, topic: str, partitions: int) -> list[str]:
    """Return all values up to the last stable offset, by partition."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,  # the end of a partition is reported after an empty fetch
            "log_level": 0,
        }
    )
    found: list[str] = []
    consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in range(partitions)])
    ended = 0
    while ended < partitions:
        message: Any = consumer.poll(WAIT_S)
        assert message is not None, "nothing came"
        if message.error() is None:
            found.append(message.value().decode())
        elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
            ended += 1
    consumer.close()
    return found
