"""Transactions of real clients on one broker and on three: commits are seen, aborts never."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing import Cluster
from ottla.testing.topics import topic_name_for
from tests.support.interop import transactions
from tests.support.interop.transactions import Failed, Fenced, Java, TxnProducer, read_committed
from tests.support.waiting import wait_until

PARTITIONS = 3
QUICK = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}


@pytest.fixture(scope="module", params=[1, 3])
def txn_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(brokers=request.param, config=QUICK) as cluster:
        yield cluster


class Bench:
    """A topic, and producers that are closed at the end."""

    def __init__(self, cluster: Cluster, kind: str, name: str) -> None:
        self.cluster = cluster
        self.servers = cluster.bootstrap_servers
        self.kind = kind
        self.name = topic_name_for(name)
        self.topics: dict[str, int] = {}
        self._made: list[TxnProducer] = []

    def topic(self, partitions: int = PARTITIONS) -> str:
        admin = AdminClient({"bootstrap.servers": self.servers})
        name = f"{self.name}-{len(self.topics)}"
        admin.create_topics([NewTopic(name, partitions, self.cluster.brokers)])[name].result()
        self.topics[name] = partitions
        return name

    def producer(self, **options: Any) -> TxnProducer:
        made = transactions.KINDS[self.kind](self.servers, self.name, **options)
        self._made.append(made)
        return made

    def read(self, topic: str) -> list[str]:
        return read_committed(self.servers, topic, self.topics[topic])

    def assert_reads(self, topic: str, wanted: list[str], within_s: float = 15) -> None:
        """Read until all values are visible: markers are written after the response to the commit."""
        found: list[str] = []

        def complete() -> bool:
            found[:] = self.read(topic)
            assert len(found) == len(set(found)), found
            assert set(found) <= set(wanted), set(found) - set(wanted)
            return len(found) == len(wanted)

        wait_until(complete, lambda: set(wanted) - set(found), within_s)

    def wait_for_stable_offsets(self, topic: str, wanted: int, within_s: float = 15) -> None:
        """Until the last stable offset of every partition is there."""
        settings = {"bootstrap.servers": self.servers, "group.id": "watcher", "log_level": 0}
        consumer = confluent_kafka.Consumer({**settings, "isolation.level": "read_committed"})
        for index in range(self.topics[topic]):
            place = confluent_kafka.TopicPartition(topic, index)
            wait_until(
                lambda place=place: consumer.get_watermark_offsets(place, 10)[1] == wanted, place, within_s
            )
        consumer.close()

    def committed(self, group: str, topic: str, partition: int = 0) -> int:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": group,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        (found,) = consumer.committed([confluent_kafka.TopicPartition(topic, partition)], 20)
        consumer.close()
        return int(found.offset)

    def close(self) -> None:
        for producer in self._made:
            producer.close()


@pytest.fixture(params=list(transactions.KINDS))
def bench(txn_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Bench]:
    if request.param == "java":
        request.getfixturevalue("txn_jvm")
    bench = Bench(txn_cluster, request.param, request.node.name)
    yield bench
    bench.close()


def rows(word: str, count: int, partitions: int = PARTITIONS) -> list[tuple[int, str]]:
    return [(number % partitions, f"{word}{number}") for number in range(count)]


def values(*parts: list[tuple[int, str]]) -> list[str]:
    return [value for part in parts for _, value in part]


def expect(kind: type[BaseException] | tuple[type[BaseException], ...], *steps: Callable[[], Any]) -> None:
    """Check that one of the steps raises an error of this kind."""
    with pytest.raises(kind):
        for step in steps:
            step()


def test_commits_are_seen_and_aborts_never(bench: Bench) -> None:
    topic = bench.topic()
    producer = bench.producer()
    committed: list[str] = []
    for number in range(6):
        part = rows(f"{number}-", 30)
        producer.begin()
        producer.send(topic, part)
        if number % 3 == 1:
            producer.send(topic, rows(f"{number}-more-", 3), wait=True)
            producer.abort()
        else:
            producer.commit()
            committed += values(part)
    bench.assert_reads(topic, committed)
    # Open transactions are not visible, and do not delay commits.
    producer.begin()
    producer.send(topic, rows("open-", 3), wait=True)
    bench.assert_reads(topic, committed)
    producer.commit()
    bench.assert_reads(topic, committed + values(rows("open-", 3)))


def test_an_empty_transaction_ends(bench: Bench) -> None:
    topic = bench.topic()
    producer = bench.producer()
    for end in (producer.commit, producer.abort):
        producer.begin()
        end()
    producer.begin()
    producer.send(topic, rows("x", 3))
    producer.commit()
    bench.assert_reads(topic, values(rows("x", 3)))


def test_a_second_producer_fences_the_first(bench: Bench) -> None:
    topic = bench.topic()
    first = bench.producer()
    first.begin()
    first.send(topic, rows("first", 6), wait=True)
    second = bench.producer()
    expect(
        (Fenced, Failed), lambda: first.send(topic, rows("zombie", 3), wait=True), first.commit, lambda: None
    )
    second.begin()
    second.send(topic, rows("second", 6))
    second.commit()
    bench.assert_reads(topic, values(rows("second", 6)))


def test_a_transaction_that_takes_too_long_is_aborted(bench: Bench) -> None:
    topic = bench.topic()
    slow = bench.producer(timeout_ms=1000)
    slow.begin()
    slow.send(topic, rows("slow", 3), wait=True)
    bench.wait_for_stable_offsets(topic, 2)  # a record and a marker
    expect((Fenced, Failed), lambda: slow.send(topic, rows("late", 3), wait=True), slow.commit)
    another = bench.producer()
    another.begin()
    another.send(topic, rows("ok", 3))
    another.commit()
    bench.assert_reads(topic, values(rows("ok", 3)))


def test_offsets_count_with_the_transaction(bench: Bench) -> None:
    topic = bench.topic()
    group = f"group-of-{topic}"
    producer = bench.producer()
    ends = [(producer.commit, 5), (producer.abort, 5), (producer.commit, 15)]
    for number, (end, wanted) in enumerate(ends):
        producer.begin()
        part = rows(f"{number}-", 3)
        producer.send(topic, part)
        producer.offsets(group, {(topic, 0): 5 * (number + 1)})
        end()
        assert bench.committed(group, topic) == wanted
    bench.assert_reads(topic, values(rows("0-", 3), rows("2-", 3)))


def test_many_partitions_in_one_transaction(bench: Bench) -> None:
    topic = bench.topic(50)
    producer = bench.producer()
    for word, end in (("no", producer.abort), ("yes", producer.commit)):
        producer.begin()
        producer.send(topic, rows(word, 200, 50), wait=True)
        end()
    bench.assert_reads(topic, values(rows("yes", 200, 50)))


def test_transactions_follow_each_other_without_pause(bench: Bench) -> None:
    topic = bench.topic()
    producer = bench.producer()
    began = time.monotonic()
    for number in range(50):
        producer.begin()
        producer.send(topic, rows(f"{number}-", 3))
        producer.commit()
    took_ms = (time.monotonic() - began) * 1000 / 50
    bench.assert_reads(topic, values(*(rows(f"{number}-", 3) for number in range(50))))
    print(f"{bench.kind}: {took_ms:.1f} ms for a transaction")
    assert took_ms < 200


def test_administrators_see_and_end_transactions(txn_cluster: Cluster, txn_jvm: None) -> None:
    """Use the Java client, the only one with all of these requests."""
    bench = Bench(txn_cluster, "java", "test_administrators")
    topic = bench.topic(1)
    producer = bench.producer()
    producer.begin()
    producer.send(topic, [(0, "open")], wait=True)

    def ask(*, abort: bool = False, fence: bool = False) -> Any:
        settings = {"bootstrap.servers": bench.servers}
        return Java.jvm.run("admin", settings=settings, id=bench.name, topic=topic, abort=abort, fence=fence)

    seen = ask()
    assert f"{bench.name} Ongoing" in seen["listed"]
    assert (seen["state"], seen["partitions"], seen["producers"]) == ("Ongoing", 1, [0])
    seen = ask(abort=True)
    assert ask()["producers"] == [-1], "the transaction has ended in the partition"
    ask(fence=True)
    expect((Fenced, Failed), lambda: producer.send(topic, [(0, "late")], wait=True), producer.commit)
    assert bench.read(topic) == []
    bench.close()
