"""Transactions of real clients while brokers die: each is visible completely or not at all."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.testing import Cluster
from ottla.testing.topics import topic_name_for
from tests.support.interop import transactions
from tests.support.interop.transaction_thread import ABORT, COMMIT, TransactionThread
from tests.support.interop.transactions import TxnProducer, read_committed
from tests.support.interop.wire import Wire
from tests.support.waiting import wait_until

PARTITIONS = 3
TRANSACTION = 1
SETTLED_WITHIN_S = 40


@pytest.fixture(scope="module")
def txn_trio() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


class Writer(TransactionThread[int]):
    """Runs transactions with a row in every partition; every fourth is aborted."""

    def __init__(self, kind: str, servers: str, topic: str) -> None:
        super().__init__(lambda: transactions.KINDS[kind](servers, topic, timeout_ms=15_000))
        self._topic = topic

    def transact(self, producer: TxnProducer) -> bool:
        number = self.begun
        self.begun += 1
        rows = [(index, f"{number}-{index}") for index in range(PARTITIONS)]
        return self.attempt(
            producer,
            number,
            lambda: producer.send(self._topic, rows, wait=number % 2 == 0),
            ABORT if number % 4 == 3 else COMMIT,
        )

    def moves_on(self, count: int = 5, within_s: float = 30) -> None:
        wanted = len(self.committed) + count

        def reached() -> bool:
            assert self.crash is None, self.crash
            return len(self.committed) >= wanted

        wait_until(reached, lambda: (len(self.committed), self.failures[-5:]), within_s)


def coordinator(cluster: Cluster, key: str) -> int:
    for address in cluster.bootstrap_servers.split(","):
        with Wire(address) as wire:
            request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[key])
            (found,) = wire.ask(request).coordinators
            if not found.error_code:
                return int(found.node_id)
    raise AssertionError("no broker knows the coordinator")


def leader(servers: str, topic: str) -> int:
    known = AdminClient({"bootstrap.servers": servers}).list_topics(topic, 10)
    return int(known.topics[topic].partitions[0].leader)


def numbers_of(found: list[str]) -> dict[int, int]:
    """Return the number of rows of each transaction."""
    counts: dict[int, int] = {}
    for value in found:
        number = int(value.partition("-")[0])
        counts[number] = counts.get(number, 0) + 1
    return counts


def check(writer: Writer, servers: str, topic: str) -> None:
    limit = time.monotonic() + SETTLED_WITHIN_S
    while True:
        found = read_committed(servers, topic, PARTITIONS)
        assert len(found) == len(set(found)), "seen twice"
        counts = numbers_of(found)
        seen_of_aborted = [each for each in writer.aborted if each in counts]
        assert not seen_of_aborted, seen_of_aborted
        missing = [each for each in writer.committed if counts.get(each) != PARTITIONS]
        torn = [each for each in writer.unsure if counts.get(each, PARTITIONS) != PARTITIONS]
        if not missing and not torn:
            return
        assert time.monotonic() < limit, (missing[:5], torn[:5], writer.failures[-5:])
        time.sleep(0.2)


@pytest.mark.parametrize("victim", ["coordinator", "leader"])
# Without kafka-python: it drops a transactional request if the coordinator refuses the connection, and then
# waits for the response forever.
@pytest.mark.parametrize("kind", ["confluent", "aiokafka", "java", "ottla"])
def test_a_broker_dies(txn_trio: Cluster, request: pytest.FixtureRequest, kind: str, victim: str) -> None:
    if kind == "java":
        request.getfixturevalue("txn_jvm")
    servers = txn_trio.bootstrap_servers
    topic = topic_name_for(request.node.name)
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result()
    writer = Writer(kind, servers, topic)
    writer.start()
    writer.moves_on()
    for _ in range(2):
        dying = coordinator(txn_trio, topic) if victim == "coordinator" else leader(servers, topic)
        txn_trio.kill(dying)
        try:
            writer.moves_on()
        finally:
            txn_trio.start(dying)
        writer.moves_on()
    writer.stop()
    check(writer, servers, topic)
    assert len(writer.committed) >= 20
