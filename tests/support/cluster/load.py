"""An idempotent producer at full speed that records acknowledgements, and a reader that checks them."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.support.waiting import wait_until

QUEUED_MAX = 2000
READ_TIMEOUT_S = 60.0


class Load:
    """Sends numbered records to every partition until `stop`; then `check` reads all of them."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        partitions: int,
        *,
        value_bytes: int = 100,
        config: dict[str, Any] | None = None,
    ) -> None:
        self.topic = topic
        self.partitions = partitions
        self.acked: dict[int, dict[int, int]] = defaultdict(dict)  # partition -> number -> offset
        self.newest: dict[int, int] = defaultdict(lambda: -1)  # number acknowledged last
        self.acked_count = 0
        self.ack_times: dict[int, list[float]] = defaultdict(list)
        self.errors: list[KafkaError] = []
        self._bootstrap_servers = bootstrap_servers
        self._padding = b"." * value_bytes
        self._sent: Counter[int] = Counter()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
                **(config or {}),
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop, and wait until every record is acknowledged or failed."""
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()

    def await_acks(self, more: int, timeout_s: float = 30.0) -> None:
        """Wait until `more` additional records are acknowledged."""
        wait_until(self._reaches(self.acked_count + more), f"{more} more records", timeout_s)

    def await_all_partitions(self, timeout_s: float = 30.0) -> None:
        """Wait until every partition has acknowledged a new record."""
        self.await_partitions(range(self.partitions), timeout_s)

    def await_partitions(self, partitions: Iterable[int], timeout_s: float = 30.0) -> None:
        """Wait until each of these has acknowledged a record sent after this call."""
        sent = {partition: self._sent[partition] for partition in partitions}
        wait_until(
            lambda: all(self.newest[partition] >= number for partition, number in sent.items()),
            f"a new record in each of the partitions {list(sent)}",
            timeout_s,
        )

    def longest_gap_s(self, since: float) -> float:
        """Return the longest time without an acknowledgement of any partition after `since`."""
        gaps = []
        for times in self.ack_times.values():
            later = [since, *(each for each in times if each > since)]
            gaps += [after - before for before, after in itertools.pairwise(later)]
        return max(gaps, default=0.0)

    def check(self) -> int:
        """Check that every acknowledged record is at its offset, once, in order; return the record count."""
        found = self._read_back()
        for partition in range(self.partitions):
            values = found[partition]
            numbers = [number for _, number in values]
            assert numbers == sorted(set(numbers)), f"partition {partition}: out of order or duplicated"
            offset_of = {number: offset for offset, number in values}
            lost = [number for number in self.acked[partition] if number not in offset_of]
            assert not lost, f"partition {partition}: {len(lost)} acknowledged records lost, e.g. {lost[:5]}"
            moved = {n: (o, offset_of[n]) for n, o in self.acked[partition].items() if offset_of[n] != o}
            assert not moved, f"partition {partition}: not at the acknowledged offsets: {moved}"
        return sum(map(len, found.values()))

    # -- internals

    def _reaches(self, count: int) -> Callable[[], bool]:
        return lambda: self.acked_count >= count

    def _run(self) -> None:
        producer = self._producer
        while not self._stop.is_set():
            if len(producer) >= QUEUED_MAX:
                producer.poll(0.01)
                continue
            for partition in range(self.partitions):
                number = self._sent[partition]
                self._sent[partition] = number + 1
                value = b"%d %b" % (number, self._padding)
                producer.produce(self.topic, value, partition=partition, on_delivery=self._delivered)
            producer.poll(0)
        producer.flush(60)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.errors.append(error)
            return
        partition = message.partition()
        number = int(message.value().split()[0])
        self.acked[partition][number] = message.offset()
        self.newest[partition] = max(self.newest[partition], number)
        self.acked_count += 1
        self.ack_times[partition].append(time.monotonic())

    def _read_back(self) -> dict[int, list[tuple[int, int]]]:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap_servers,
                "group.id": "reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        try:
            consumer.assign([TopicPartition(self.topic, each, 0) for each in range(self.partitions)])
            at_end: set[int] = set()
            deadline = time.monotonic() + READ_TIMEOUT_S
            while len(at_end) < self.partitions:
                assert time.monotonic() < deadline, f"only {sorted(at_end)} were read to the end"
                message: Any
                for message in consumer.consume(1000, 0.2):
                    error = message.error()
                    if error is None:
                        number = int(message.value().split()[0])
                        found[message.partition()].append((message.offset(), number))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        at_end.add(message.partition())
        finally:
            consumer.close()
        return found
