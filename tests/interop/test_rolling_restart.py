"""A rolling restart causes no errors in clients with default settings."""

from __future__ import annotations

import asyncio
import importlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import aiokafka
import pytest

from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.testing import Cluster
from tests.support.interop.java import JavaClient, why_no_java
from tests.support.interop.kafka_python import kafka
from tests.support.interop.wire import Wire
from tests.support.waiting import wait_until

PAUSE_S = 0.001
PROGRESS = 20
WAIT_S = 30.0


@pytest.fixture(scope="module")
def trio() -> Iterator[Cluster]:
    with Cluster(brokers=3, proxied="none") as cluster:
        yield cluster


class Steady(Protocol):
    """Sends numbers to partition 0 of a topic, one after the other, until `end`."""

    def acknowledged(self) -> int: ...

    def end(self) -> tuple[dict[int, int], list[str]]:
        """Offsets by number, and errors."""


class KafkaPython:
    def __init__(self, servers: str, topic: str) -> None:
        self._offsets: dict[int, int] = {}
        self._errors: list[str] = []
        self._over = threading.Event()
        self._producer = kafka.KafkaProducer(bootstrap_servers=servers.split(","))
        self._topic = topic
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._over.is_set():
            sent = self._producer.send(self._topic, b"%d" % number, partition=0)
            sent.add_callback(lambda where, number=number: self._offsets.update({number: where.offset}))
            sent.add_errback(lambda error: self._errors.append(repr(error)))
            number += 1
            time.sleep(PAUSE_S)
        self._producer.flush(WAIT_S)
        self._producer.close()

    def acknowledged(self) -> int:
        return len(self._offsets)

    def end(self) -> tuple[dict[int, int], list[str]]:
        self._over.set()
        self._thread.join()
        return self._offsets, self._errors


class Aiokafka:
    def __init__(self, servers: str, topic: str) -> None:
        self._offsets: dict[int, int] = {}
        self._errors: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(servers, topic)), daemon=True)
        self._thread.start()

    async def _run(self, servers: str, topic: str) -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, acks="all")
        await producer.start()
        sent = []
        number = 0
        while not self._over.is_set():
            future = await producer.send(topic, b"%d" % number, partition=0)
            future.add_done_callback(lambda done, number=number: self._settled(number, done))
            sent.append(future)
            number += 1
            await asyncio.sleep(PAUSE_S)
        await asyncio.gather(*sent, return_exceptions=True)
        await producer.stop()

    def _settled(self, number: int, done: Any) -> None:
        if done.exception() is not None:
            self._errors.append(repr(done.exception()))
        else:
            self._offsets[number] = done.result().offset

    def acknowledged(self) -> int:
        return len(self._offsets)

    def end(self) -> tuple[dict[int, int], list[str]]:
        self._over.set()
        self._thread.join()
        return self._offsets, self._errors


class Java:
    def __init__(self, client: JavaClient, servers: str, topic: str) -> None:
        self._client = client
        client.run("steady", topic=topic, settings={"bootstrap.servers": servers})

    def acknowledged(self) -> int:
        return self._client.run("acknowledged")

    def end(self) -> tuple[dict[int, int], list[str]]:
        reply = self._client.run("steady-end")
        return {int(number): offset for number, offset in reply["offsets"].items()}, reply["errors"]


def all_in_sync(address: str, topics: list[str]) -> bool:
    with Wire(address) as wire:
        reply = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics])).topics
    return all(len(each.isr_nodes) == 3 for topic in reply for each in topic.partitions)


def values_of(cluster: Cluster, topic: str) -> list[int]:
    """Return the values in partition 0, read from its leader."""
    with Wire(cluster.address(0)) as wire:
        query = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        leader = wire.ask(query).topics[0].partitions[0].leader_id
    with Wire(cluster.address(leader)) as wire:
        return [int(record.value or b"") for record in wire.records(topic)]


@pytest.fixture
def closed_sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the sockets that kafka-python leaves open when a connection is refused."""
    made = []

    def new_socket(*how: int) -> socket.socket:
        made.append(socket.socket(*how))
        return made[-1]

    inet = importlib.import_module("kafka.net.inet")
    monkeypatch.setattr(inet.KafkaNetSocket, "socket", lambda _, *how: new_socket(*how))
    yield
    for each in made:
        each.close()


@pytest.mark.usefixtures("closed_sockets")
def test_no_error_reaches_any_client(trio: Cluster, request: pytest.FixtureRequest) -> None:
    names = ["kafka-python", "aiokafka"] + (["java"] if why_no_java() is None else [])
    for name in names:
        trio.create_topic(name)
    servers = trio.bootstrap_servers
    clients: dict[str, Steady] = {
        "kafka-python": KafkaPython(servers, "kafka-python"),
        "aiokafka": Aiokafka(servers, "aiokafka"),
    }
    found: dict[str, tuple[dict[int, int], list[str]]] = {}
    with ExitStack() as ends:
        for name, client in clients.items():
            ends.callback(lambda name=name, client=client: found.update({name: client.end()}))
        if "java" in names:
            clients["java"] = java = Java(request.getfixturevalue("java_client"), servers, "java")
            ends.callback(lambda: found.update({"java": java.end()}))

        def all_go_on() -> None:
            for name, client in clients.items():
                wanted = client.acknowledged() + PROGRESS
                wait_until(
                    lambda client=client, wanted=wanted: client.acknowledged() >= wanted,
                    f"{name} makes progress",
                )

        all_go_on()
        for broker in range(3):
            trio.restart(broker)
            wait_until(lambda broker=broker: all_in_sync(trio.address(broker), names), "all are in sync")
            all_go_on()
    for name in names:
        offsets, errors = found[name]
        assert not errors, (name, errors[:3])
        values = values_of(trio, name)
        lost = [number for number, offset in offsets.items() if values[offset] != number]
        assert not lost, (name, lost[:5])


@pytest.mark.java
@pytest.mark.skipif(bool(why_no_java()), reason=str(why_no_java()))
def test_the_java_admin_client_describes_and_moves(trio: Cluster, java_client: JavaClient) -> None:
    trio.create_topic("described", 3)
    settings = {"bootstrap.servers": trio.bootstrap_servers}
    reply = java_client.run("replicas", topic="described", settings=settings)
    assert reply["leader"] in (0, 1, 2)
    assert sorted(reply["lags"]) == ["0", "1", "2"]
    assert (reply["observers"], reply["brokers"]) == ([], 3)
    assert reply["metadata"] > 0
    assert len(reply["partitions"]) == 3
    for row in reply["partitions"]:
        assert sorted(row["replicas"]) == sorted(row["isr"]) == [0, 1, 2]
        assert (row["leader"], row["elr"]) == (row["replicas"][0], 0)
    target = reply["partitions"][0]["replicas"][:0:-1]  # without the leader, the last one first
    moved = java_client.run("move", topic="described", target=target, settings=settings)
    assert moved["elected"] in ("ok", "ElectionNotNeededException")
    assert moved["again"] == "ElectionNotNeededException"
    first = java_client.run("replicas", topic="described", settings=settings)["partitions"][0]
    assert (first["replicas"], sorted(first["isr"]), first["leader"]) == (target, sorted(target), target[0])
