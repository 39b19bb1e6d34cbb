"""Consume: what is there already, from memory and from the disk, by one, by ten, by a group; and the tail."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from bench.batches import QUIET, produce_records
from bench.broker import BenchError
from bench.peers.contest import Effort, Figures, Scenario, Stopwatch
from bench.peers.costs import moved, read
from bench.peers.fleet import Fleet
from bench.peers.scenarios.produce import texts
from ottla.client import NewTopic

TOPIC = "consume"
PARTITIONS = 4
RECORD_BYTES = 1024
MANY = 10
GROUP_MEMBERS = 4
AT_ONCE = 10_000
POLL_SECONDS = 0.5
SILENCE_SECONDS_MAX = 60
TAIL_SHARE = 4  # of the bytes: both sides work at the same time


def consume(fleet: Fleet, effort: Effort) -> Figures:
    records = effort.consume_bytes // RECORD_BYTES
    if not _is_filled(fleet):
        _fill(fleet, records)
    found: Figures = {}
    found |= _measured(fleet, "catch-up from cold start", 1, records, lambda: _assigned(fleet), cold=True)
    found |= _measured(fleet, "catch-up, in memory", 1, records, lambda: _assigned(fleet))
    found |= _measured(fleet, f"{MANY} consumers", MANY, records // 4, lambda: _assigned(fleet))
    group = f"group-{os.urandom(4).hex()}"
    found |= _measured(
        fleet,
        f"group of {GROUP_MEMBERS}",
        GROUP_MEMBERS,
        records,
        lambda: _subscribed(fleet, group),
        shared=True,
    )
    found |= _tail(fleet, records // TAIL_SHARE)
    return found


def _is_filled(fleet: Fleet) -> bool:
    return any(name.startswith(f"{TOPIC}-") for name in os.listdir(fleet.brokers[0].data_dir))


def _fill(fleet: Fleet, records: int) -> None:
    fleet.create_topic(NewTopic(TOPIC, PARTITIONS, 1))
    produce_records(_producer(fleet), TOPIC, texts(RECORD_BYTES), records)


def _producer(fleet: Fleet) -> Any:
    from confluent_kafka import Producer

    return Producer(
        {**QUIET, "bootstrap.servers": fleet.address, "linger.ms": 50, "batch.size": 65_536, "acks": "all"}
    )


def _measured(
    fleet: Fleet,
    name: str,
    readers: int,
    records: int,
    make: Callable[[], Any],
    *,
    cold: bool = False,
    shared: bool = False,
) -> Figures:
    if cold:
        forget_pages(fleet.brokers[0].data_dir)
    clients = [make() for _ in range(readers)]
    wanted = Count(records, readers, shared=shared)
    watch = Stopwatch(fleet)
    wanted.read_all(clients)
    took_s, used = watch.stop()
    for client in clients:
        client.close()
    return read(name, wanted.total * RECORD_BYTES, took_s, used, goal=1)


class Count:
    """Threads that read until each has its number of records, or all together have theirs."""

    def __init__(self, records: int, readers: int, *, shared: bool) -> None:
        self.total = records if shared else records * readers
        self._records = records
        self._shared = shared
        self._read = [0] * readers
        self._last_s = time.monotonic()

    def read_all(self, clients: Sequence[Any]) -> None:
        threads = [
            threading.Thread(target=self._run, args=(seat, client)) for seat, client in enumerate(clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if sum(self._read) < self.total:
            raise BenchError(f"{sum(self._read)} of {self.total} records were read")

    def _run(self, seat: int, client: Any) -> None:
        while not self._is_done(seat) and time.monotonic() - self._last_s < SILENCE_SECONDS_MAX:
            messages = client.consume(AT_ONCE, POLL_SECONDS)
            if messages:
                self._read[seat] += len(messages)
                self._last_s = time.monotonic()

    def _is_done(self, seat: int) -> bool:
        return (sum(self._read) if self._shared else self._read[seat]) >= self._records


def _config(fleet: Fleet, group: str) -> dict[str, Any]:
    return {
        **QUIET,
        "bootstrap.servers": fleet.address,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "check.crcs": False,
        # When its queue is full librdkafka rests for a second by default: a fast server would seem slow.
        "fetch.queue.backoff.ms": 1,
    }


def _assigned(fleet: Fleet) -> Any:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    client = Consumer(_config(fleet, "alone"))
    client.assign([TopicPartition(TOPIC, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    return client


def _subscribed(fleet: Fleet, group: str) -> Any:
    from confluent_kafka import Consumer

    client = Consumer(_config(fleet, group))
    client.subscribe([TOPIC])
    return client


def _tail(fleet: Fleet, records: int) -> Figures:
    """A reader that waits for what a producer writes at the same time."""
    from confluent_kafka import OFFSET_END, Consumer, TopicPartition

    topic = f"tail-{os.urandom(4).hex()}"
    fleet.create_topic(NewTopic(topic, 1, 1))
    client = Consumer(_config(fleet, "tail"))
    client.assign([TopicPartition(topic, 0, OFFSET_END)])
    producer = _producer(fleet)
    _await_flow(producer, client, topic)
    wanted = Count(records, 1, shared=True)
    writer = threading.Thread(target=produce_records, args=(producer, topic, texts(RECORD_BYTES), records))
    watch = Stopwatch(fleet)
    writer.start()
    wanted.read_all([client])
    writer.join()
    took_s, used = watch.stop()
    client.close()
    fleet.delete_topic(topic)
    return moved("tail, with its producer", records * RECORD_BYTES, took_s, used, goal=1)


def _await_flow(producer: Any, client: Any, topic: str) -> None:
    """Until the reader has one record: its position is known from then on. What came before is taken away."""
    deadline_s = time.monotonic() + SILENCE_SECONDS_MAX
    sent = received = 0
    while not received or received < sent:
        if not received:
            producer.produce(topic, b"knock")
            producer.flush(10)
            sent += 1
        message = client.poll(0.1)
        if message is not None and not message.error():
            # The first to arrive tells how many of the knocks were before the reader's place.
            sent -= message.offset() if not received else 0
            received += 1
        if time.monotonic() > deadline_s:
            raise BenchError("the reader of the tail gets nothing")


def forget_pages(directory: str) -> None:
    """Write the segments out and drop their pages, so that the next reader goes to the disk."""
    for root, _, names in os.walk(directory):
        for name in names:
            if name.endswith(".log"):
                descriptor = os.open(os.path.join(root, name), os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(descriptor)


SCENARIOS = (Scenario("consume", "Consume 1 KB records in batches of 64 KB, librdkafka", consume),)
