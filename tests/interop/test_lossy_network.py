"""Connections that break before the response arrives: producers retry, and nothing is written twice."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
from collections.abc import Iterator

import aiokafka
import confluent_kafka
import pytest

from ottla.testing import Cluster
from ottla.testing.ports import free_port
from tests.support.interop.kafka_python import kafka
from tests.support.interop.wire import Wire

RECORDS = 8000
# Bytes of responses that pass before the break: the first exchange and a few produce responses.
ANSWER_BYTES = (900, 1800)


class LossyProxy:
    """Forwards requests to the broker, and at times closes the connection instead of sending a response."""

    def __init__(self, port: int, broker: tuple[str, int], seed: int) -> None:
        self.losing = False
        self.lost = 0
        self._broker = broker
        self._rng = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", port))
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            upstream = socket.create_connection(self._broker)
            for work in (self._requests, self._answers):
                thread = threading.Thread(target=work, args=(client, upstream))
                thread.start()
                self._threads.append(thread)

    def _requests(self, client: socket.socket, upstream: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65_536):
                upstream.sendall(data)
        with contextlib.suppress(OSError):
            upstream.shutdown(socket.SHUT_WR)

    def _answers(self, client: socket.socket, upstream: socket.socket) -> None:
        left = self._rng.randint(*ANSWER_BYTES)
        with contextlib.suppress(OSError), client, upstream:
            while data := upstream.recv(65_536):
                left -= len(data)
                if self.losing and left < 0:
                    self.lost += 1
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(data)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive()


@pytest.fixture
def lossy() -> Iterator[tuple[Cluster, LossyProxy, str]]:
    port = free_port()
    with Cluster(config={"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}) as cluster:
        host, _, broker_port = cluster.bootstrap_servers.rpartition(":")
        proxy = LossyProxy(port, (host, int(broker_port)), random.randrange(2**32))
        try:
            with Wire(cluster.bootstrap_servers) as wire:
                wire.create_topic("t")
            yield cluster, proxy, f"127.0.0.1:{port}"
        finally:
            cluster.stop()
            proxy.close()


VALUES = [b"%d" % n for n in range(RECORDS)]


def write_with_confluent(servers: str) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "batch.num.messages": 30,
            "linger.ms": 0,
            "reconnect.backoff.ms": 1,
            "reconnect.backoff.max.ms": 10,
            "retry.backoff.ms": 1,
            "retry.backoff.max.ms": 10,
            "log_level": 0,
        }
    )
    errors: list[object] = []
    for value in VALUES:
        producer.produce("t", value, on_delivery=lambda error, _: errors.append(error) if error else None)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert errors == []


def write_with_kafka_python(servers: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=servers,
        enable_idempotence=True,
        batch_size=300,
        reconnect_backoff_ms=1,
        reconnect_backoff_max_ms=10,
        retry_backoff_ms=1,
    )
    try:
        for each in [producer.send("t", value) for value in VALUES]:
            each.get(60)
    finally:
        producer.close()


def write_with_aiokafka(servers: str) -> None:
    async def write() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers, enable_idempotence=True, max_batch_size=300, retry_backoff_ms=5
        )
        await producer.start()
        try:
            await asyncio.gather(*[await producer.send("t", value) for value in VALUES])
        finally:
            await producer.stop()

    asyncio.run(write())


def write_with_ottla(servers: str) -> None:
    from ottla.client import Producer

    async def write() -> None:
        async with Producer(servers, batch_bytes=300) as producer:
            await asyncio.gather(*[await producer.send("t", value) for value in VALUES])

    asyncio.run(write())


@pytest.mark.parametrize(
    "write", [write_with_confluent, write_with_kafka_python, write_with_aiokafka, write_with_ottla]
)
def test_idempotent_producers_write_each_record_once_and_in_order(lossy, write):
    cluster, proxy, servers = lossy
    proxy.losing = True
    write(servers)
    assert proxy.lost >= 3, "too few responses were lost"
    with Wire(cluster.bootstrap_servers) as wire:
        assert [record.value for record in wire.records("t")] == VALUES
