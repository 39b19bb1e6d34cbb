"""Members of consumer groups with a common interface, one class per client.

A member consumes on its own thread, records assigned and revoked partitions, and commits what it has read:
regularly, and before partitions are revoked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import aiokafka
import confluent_kafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from tests.support.interop.java import jvm
from tests.support.interop.kafka_python import kafka
from tests.support.waiting import wait_until

WAIT_S = 30.0
SESSION_MS = 6000
QUICK = {
    "group.initial.rebalance.delay.ms": 200,
    "group.min.session.timeout.ms": 1000,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 3000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.migration.policy": "bidirectional",
}
Place = tuple[int, int]  # partition and offset


class Member:
    """The state of a member of any client."""

    def __init__(self, servers: str, group: str, topic: str, instance: str | None = None) -> None:
        self.servers = servers
        self.group = group
        self.topic = topic
        self.instance = instance
        self.events: list[tuple[float, str, int]] = []
        self.records: list[Place] = []
        self.failure: str | None = None
        self._running = True
        self._thread = threading.Thread(target=self._guarded, daemon=True)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({sorted(self.owned())}, {len(self.records)} records, {self.failure})"

    def start(self) -> Member:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Leave the group and wait until that is done."""
        self._running = False
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), self

    def refresh(self) -> None:
        """Update the state from the client."""

    def owned(self) -> set[int]:
        self.refresh()
        owned: set[int] = set()
        for _, what, partition in self.events:
            (owned.add if what == "+" else owned.discard)(partition)
        return owned

    def note(self, what: str, partitions: Sequence[Any]) -> None:
        now = time.time()
        self.events += [(now, what, each.partition) for each in partitions]

    def _guarded(self) -> None:
        try:
            self.run()
        except Exception as error:
            self.failure = repr(error)

    def run(self) -> None:
        raise NotImplementedError


class ConfluentMember(Member):
    SETTINGS: ClassVar[dict[str, Any]] = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 500}

    def run(self) -> None:
        settings = {
            "bootstrap.servers": self.servers,
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **self.SETTINGS,
        }
        if self.instance:
            settings["group.instance.id"] = self.instance
        consumer = confluent_kafka.Consumer(settings)
        consumer.subscribe(
            [self.topic],
            on_assign=lambda _, given: self.note("+", given),
            on_revoke=self._revoked,
            on_lost=lambda _, lost: self.note("-", lost),
        )
        unwritten = 0
        while self._running:
            message: Any = consumer.poll(0.05)
            if message is not None and message.error() is None:
                self.records.append((message.partition(), message.offset()))
                unwritten += 1
            elif unwritten:
                self._commit(consumer)
                unwritten = 0
        self._commit(consumer)
        consumer.close()

    def _revoked(self, consumer: confluent_kafka.Consumer, taken: list[Any]) -> None:
        self._commit(consumer)
        self.note("-", taken)

    def _commit(self, consumer: confluent_kafka.Consumer) -> None:
        # There may be nothing to commit, or the coordinator moves; the next owner then rereads the records.
        with contextlib.suppress(confluent_kafka.KafkaException):
            consumer.commit(asynchronous=False)


class CooperativeMember(ConfluentMember):
    SETTINGS: ClassVar[dict[str, Any]] = {
        **ConfluentMember.SETTINGS,
        "partition.assignment.strategy": "cooperative-sticky",
    }


class ConsumerProtocolMember(ConfluentMember):
    SETTINGS: ClassVar[dict[str, Any]] = {"group.protocol": "consumer"}


class KafkaPythonMember(Member):
    def run(self) -> None:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.servers.split(","),
            group_id=self.group,
            group_instance_id=self.instance,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            partition_assignment_strategy=[kafka.coordinator.assignors.range.RangePartitionAssignor],
        )
        member = self

        class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_revoked(self, revoked: Any) -> None:
                member.note("-", list(revoked))

            def on_partitions_assigned(self, assigned: Any) -> None:
                member.note("+", list(assigned))

        consumer.subscribe([self.topic], listener=Listener())
        while self._running:
            polled = consumer.poll(timeout_ms=50)
            for rows in polled.values():
                self.records += [(row.partition, row.offset) for row in rows]
            if polled:
                try:
                    consumer.commit()
                except kafka.errors.KafkaError:
                    continue
        consumer.close()


class AiokafkaMember(Member):
    def run(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self.servers,
            group_id=self.group,
            group_instance_id=self.instance,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            partition_assignment_strategy=(RangePartitionAssignor,),
        )
        member = self

        class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_revoked(self, revoked: Any) -> None:
                member.note("-", list(revoked))

            def on_partitions_assigned(self, assigned: Any) -> None:
                member.note("+", list(assigned))

        await consumer.start()
        consumer.subscribe([self.topic], listener=Listener())
        while self._running:
            polled = await consumer.getmany(timeout_ms=50)
            for rows in polled.values():
                self.records += [(row.partition, row.offset) for row in rows]
            if polled:
                try:
                    await consumer.commit()
                except aiokafka.errors.KafkaError:
                    continue
        self.note("-", list(consumer.assignment()))  # the client does not call the listener on close
        await consumer.stop()


class Jvm:
    """A Java process that runs any number of members."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lock = threading.Lock()

    def run(self, what: str, name: str, **command: Any) -> Any:
        with self._lock:
            assert self.process.stdin is not None and self.process.stdout is not None
            self.process.stdin.write(json.dumps({"do": what, "name": name, **command}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        assert line, "the JVM has ended"
        return json.loads(line)


@contextlib.contextmanager
def java_members() -> Iterator[Jvm]:
    with jvm("GroupDriver") as process:
        yield Jvm(process)


class JavaMember(Member):
    SETTINGS: ClassVar[dict[str, Any]] = {
        "session.timeout.ms": str(SESSION_MS),
        "heartbeat.interval.ms": "500",
    }

    def __init__(self, jvm: Jvm, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._jvm = jvm
        self._name = uuid.uuid4().hex

    def start(self) -> Member:
        settings = {
            "bootstrap.servers": self.servers,
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            **self.SETTINGS,
        }
        if self.instance:
            settings["group.instance.id"] = self.instance
        self._jvm.run("start", self._name, topic=self.topic, settings=settings)
        return self

    def stop(self) -> None:
        self._take(self._jvm.run("stop", self._name))

    def refresh(self) -> None:
        self._take(self._jvm.run("news", self._name))

    def _take(self, news: Any) -> None:
        self.events += [(ms / 1000, what, partition) for ms, what, partition in news["events"]]
        self.records += [(partition, offset) for partition, offset in news["records"]]
        self.failure = news["failure"] or self.failure


class JavaConsumerProtocolMember(JavaMember):
    SETTINGS: ClassVar[dict[str, Any]] = {"group.protocol": "consumer"}


class Load(threading.Thread):
    """Writes to all partitions round-robin until stopped. `written` has the acknowledged records."""

    def __init__(self, servers: str, topic: str, partitions: int, pause_s: float = 0.005) -> None:
        super().__init__(daemon=True)
        self._producer = confluent_kafka.Producer({"bootstrap.servers": servers, "linger.ms": 0})
        self._topic = topic
        self._partitions = partitions
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self.written: set[Place] = set()

    def run(self) -> None:
        count = 0
        while not self._stopping.wait(self._pause_s):
            partition = count % self._partitions
            self._producer.produce(self._topic, b"v", partition=partition, on_delivery=self._delivered)
            self._producer.poll(0)
            count += 1
        assert self._producer.flush(WAIT_S) == 0

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.written.add((message.partition(), message.offset()))

    def stop(self) -> set[Place]:
        self._stopping.set()
        self.join(WAIT_S)
        return self.written


def until_shared(members: Sequence[Member], partitions: int, limit_s: float = WAIT_S) -> None:
    """Wait until every partition has an owner and no member has more than its share."""
    most = -(-partitions // len(members))

    def fair() -> bool:
        owned = [member.owned() for member in members]
        assert all(member.failure is None for member in members), members
        everything = sorted(partition for each in owned for partition in each)
        return everything == list(range(partitions)) and max(map(len, owned)) <= most

    wait_until(fair, members, limit_s)


def assert_one_owner(members: Sequence[Member]) -> None:
    """Check that no partition had two owners at any time, by the events of the members."""
    changes: list[tuple[float, int, int, int]] = []
    for number, member in enumerate(members):
        member.refresh()
        for at, what, partition in member.events:
            # Of simultaneous events, revocations come first: they precede the assignment to another member.
            changes.append((at, 0 if what == "-" else 1, partition, number))
    owners: dict[int, set[int]] = {}
    for at, given, partition, number in sorted(changes):
        having = owners.setdefault(partition, set())
        if given:
            assert not having - {number}, f"partition {partition} has owners {having} and {number} at {at}"
            having.add(number)
        else:
            having.discard(number)


def assert_all_read(members: Sequence[Member], written: set[Place], again_max: int = 0) -> None:
    """Check that every record was read, and at most `again_max` of them more than once."""
    read = Counter(place for member in members for place in member.records)
    missing = written - set(read)
    assert not missing, f"{len(missing)} of {len(written)} were skipped: {sorted(missing)[:5]}"
    again = sum(times - 1 for place, times in read.items() if place in written)
    assert again <= again_max, f"{again} records were read twice"
