"""A bank: tellers transfer money between accounts in transactions, inspectors check what read_committed
consumers see, and the sum of all accounts must stay the same.

Accounts are in the partitions of one topic. A transfer writes two rows, one for each account: -amount and
+amount, in one partition or in two. Rows of aborted transfers are marked, and must never be read.

An inspector reads each partition up to its last stable offset. Markers reach partitions one after the other,
so half of a transfer between two partitions may be visible for a moment. Within one partition that is not
allowed, and a committed transfer must become completely visible.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.support.interop import transactions
from tests.support.interop.transaction_thread import ABORT, COMMIT, LEAVE, TransactionThread
from tests.support.interop.transactions import TxnProducer

PARTITIONS = 4
ACCOUNTS = 12
WHOLE_WITHIN_S = 40
SEEN = "committed"
NEVER = "aborted"


class Row(NamedTuple):
    """`mate` is the partition of the other row."""

    transfer: str
    fate: str
    account: int
    amount: int
    mate: int

    def text(self) -> str:
        return ":".join(map(str, self))

    @classmethod
    def of(cls, text: str) -> Row:
        transfer, fate, account, amount, mate = text.split(":")
        return cls(transfer, fate, int(account), int(amount), int(mate))


class Teller(TransactionThread[str]):
    """Runs transfers with one transactional id; every fifth is aborted. With `leaves`, every `leaves`-th
    transfer is abandoned, and another instance continues."""

    def __init__(self, kind: str, servers: str, topic: str, number: int, leaves: int = 0) -> None:
        super().__init__(lambda: transactions.KINDS[kind](servers, f"{topic}-{number}", timeout_ms=10_000))
        self._topic = topic
        self._number = number
        self._leaves = leaves
        self._random = random.Random(number)

    def transact(self, producer: TxnProducer) -> bool:
        self.begun += 1
        name = f"{self._number}-{self.begun}"
        end = ABORT if self.begun % 5 == 4 else COMMIT
        left, right = self._random.sample(range(ACCOUNTS), 2)
        amount = self._random.randrange(1, 100)
        fate = SEEN if end == COMMIT else NEVER
        halves = [
            (place_of(left), Row(name, fate, left, -amount, place_of(right)).text()),
            (place_of(right), Row(name, fate, right, amount, place_of(left)).text()),
        ]
        if self._leaves and self.begun % self._leaves == 0:
            end = LEAVE
        is_waiting = self.begun % 2 == 0
        return self.attempt(producer, name, lambda: producer.send(self._topic, halves, wait=is_waiting), end)


def place_of(account: int) -> int:
    return account % PARTITIONS


class Inspector(threading.Thread):
    """Reads all committed rows repeatedly; a row that was read must not change."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._servers = servers
        self._topic = topic
        self._stopped = threading.Event()
        self.rows: list[dict[int, Row]] = [{} for _ in range(PARTITIONS)]
        self.looks = 0
        self.crash: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._stopped.is_set():
                self.look()
        except BaseException as error:
            self.crash = error

    def stop(self) -> None:
        self._stopped.set()
        self.join(60)
        assert not self.is_alive()
        if self.crash is not None:
            raise AssertionError(f"after {self.looks} looks") from self.crash

    def look(self) -> None:
        """Read a snapshot: it contains the previous one, and the sum of each partition is 0."""
        snapshot = read_rows(self._servers, self._topic)
        for partition, (before, now) in enumerate(zip(self.rows, snapshot, strict=True)):
            gone = [offset for offset in before if now.get(offset) != before[offset]]
            assert not gone, f"partition {partition}: rows disappeared: {gone[:5]}"
            aborted = [row for row in now.values() if row.fate == NEVER]
            assert not aborted, f"partition {partition}: rows of aborted transfers: {aborted[:5]}"
            within = [row for row in now.values() if row.mate == partition]
            assert sum(row.amount for row in within) == 0, f"partition {partition}: a partial transfer"
        self.rows = snapshot
        self.looks += 1


def read_rows(servers: str, topic: str) -> list[dict[int, Row]]:
    """Return the rows of each partition by offset, up to the last stable offset."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "inspector",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
    )
    found: list[dict[int, Row]] = [{} for _ in range(PARTITIONS)]
    consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    ended: dict[int, bool] = {}
    limit = time.monotonic() + 60
    while len(ended) < PARTITIONS:
        assert time.monotonic() < limit, f"only {sorted(ended)} could be read"
        message: Any = consumer.poll(1)
        if message is None:
            continue
        if message.error() is None:
            found[message.partition()][message.offset()] = Row.of(message.value().decode())
        elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
            ended[message.partition()] = True
    consumer.close()
    return found


def create_bank(servers: str, topic: str, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, replicas)])[topic].result()


def audit(tellers: list[Teller], inspector: Inspector) -> None:
    """Check after the end that each transfer is completely visible or not at all, as its teller was told."""
    limit = time.monotonic() + WHOLE_WITHIN_S
    while True:
        inspector.look()
        halves: dict[str, list[Row]] = {}
        for rows in inspector.rows:
            for row in rows.values():
                halves.setdefault(row.transfer, []).append(row)
        torn = [name for name, rows in halves.items() if len(rows) != 2]
        missing = [name for teller in tellers for name in teller.committed if name not in halves]
        if not torn and not missing:
            break
        assert time.monotonic() < limit, (torn[:5], missing[:5])
        time.sleep(0.2)
    assert sum(row.amount for rows in halves.values() for row in rows) == 0
    aborted = [name for teller in tellers for name in teller.aborted if name in halves]
    assert not aborted, f"read though they were aborted: {aborted[:5]}"
    known = {name for teller in tellers for name in (*teller.committed, *teller.unsure)}
    assert set(halves) <= known


def run_bank(
    kind: str,
    servers: str,
    topic: str,
    seconds: float,
    disturb: Callable[[], None],
    *,
    tellers: int = 3,
    leaves: int = 0,
) -> tuple[list[Teller], Inspector]:
    """Run tellers and inspectors while `disturb` is called repeatedly, then audit."""
    made = [Teller(kind, servers, topic, number, leaves) for number in range(tellers)]
    inspector = Inspector(servers, topic)
    threads: list[Teller | Inspector] = [*made, inspector]
    for thread in threads:
        thread.start()
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        disturb()
        for thread in threads:
            if thread.crash is not None:
                raise AssertionError(f"{thread.name} ended") from thread.crash
    for teller in made:
        teller.stop()
    inspector.stop()
    audit(made, inspector)
    return made, inspector
