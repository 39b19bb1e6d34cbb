"""Consume: catch-up from memory and from disk, by one, by ten and by a group; and tailing reads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
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
POLL_SECONDS = 0.05  # longest wait for a full poll; the last poll has fewer records
SILENCE_SECONDS_MAX = 60
HEARTBEAT_MS = 300
TAIL_SHARE = 4  # of the bytes: both sides work at the same time


def consume(fleet: Fleet, effort: Effort) -> Figures:
    records = effort.consume_bytes // RECORD_BYTES
    if not _is_filled(fleet):
        _fill(fleet, records)
    found: Figures = {}
    forget_pages(fleet.brokers[0].data_dir)
    found |= _measured(fleet, "catch-up from cold start", _assigned(fleet, 1), records)
    found |= _measured(fleet, "catch-up, in memory", _assigned(fleet, 1), records)
    found |= _measured(fleet, f"{MANY} consumers", _assigned(fleet, MANY), records // 4)
    found |= _measured(fleet, f"group of {GROUP_MEMBERS}", _joined(fleet), records, shared=True)
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
    fleet: Fleet, name: str, clients: Sequence[Any], records: int, *, shared: bool = False
) -> Figures:
    """Measure clients that have their partitions and are paused."""
    wanted = Count(records, len(clients), shared=shared)
    watch = Stopwatch(fleet)
    for client in clients:
        client.resume(client.assignment())
    wanted.read_all(clients)
    took_s, used = watch.stop()
    for client in clients:
        client.close()
    return read(name, wanted.total * RECORD_BYTES, took_s, used, goal=1)


class Count:
    """Threads that read until each, or with `shared` all together, have the number of records."""

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
        while (left := self._left(seat)) > 0 and time.monotonic() - self._last_s < SILENCE_SECONDS_MAX:
            messages = client.consume(min(left, AT_ONCE), POLL_SECONDS)
            if messages:
                self._read[seat] += len(messages)
                self._last_s = time.monotonic()

    def _left(self, seat: int) -> int:
        return self._records - (sum(self._read) if self._shared else self._read[seat])


def _config(fleet: Fleet, group: str) -> dict[str, Any]:
    return {
        **QUIET,
        "bootstrap.servers": fleet.address,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "check.crcs": False,
        # By default librdkafka pauses for a second when its queue is full: a fast server would seem slow.
        "fetch.queue.backoff.ms": 1,
    }


def _assigned(fleet: Fleet, count: int) -> list[Any]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    clients = [Consumer(_config(fleet, "alone")) for _ in range(count)]
    for client in clients:
        _hold(client, [TopicPartition(TOPIC, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    return clients


def _joined(fleet: Fleet) -> list[Any]:
    """Return members after the rebalance: before it, one of them would read all partitions."""
    from confluent_kafka import Consumer

    config = _config(fleet, f"group-{os.urandom(4).hex()}")
    # Members learn of a new member with a heartbeat; nothing else depends on the interval.
    clients = [Consumer({**config, "heartbeat.interval.ms": HEARTBEAT_MS}) for _ in range(GROUP_MEMBERS)]
    for client in clients:
        client.subscribe([TOPIC], on_assign=_hold)
    deadline_s = time.monotonic() + SILENCE_SECONDS_MAX
    while not all(len(client.assignment()) == PARTITIONS // GROUP_MEMBERS for client in clients):
        for client in clients:
            client.poll(0.02)
        if time.monotonic() > deadline_s:
            raise BenchError("the members do not share the partitions")
    return clients


def _hold(client: Any, partitions: list[Any]) -> None:
    client.assign(partitions)
    client.pause(partitions)


def _tail(fleet: Fleet, records: int) -> Figures:
    """Measure a reader at the end of the log while a producer writes."""
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
    """Wait until the reader has a record, so that its position is known, and drain what precedes it."""
    deadline_s = time.monotonic() + SILENCE_SECONDS_MAX
    sent = received = 0
    while not received or received < sent:
        if not received:
            producer.produce(topic, b"knock")
            producer.flush(10)
            sent += 1
        message = client.poll(0.1)
        if message is not None and not message.error():
            # The first value shows how many probes were written before the reader's position.
            sent -= message.offset() if not received else 0
            received += 1
        if time.monotonic() > deadline_s:
            raise BenchError("the tailing reader receives no records")


def forget_pages(directory: str) -> None:
    """Sync the segments and drop their pages, so that the next reader reads from disk."""
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
