"""A group member that reads, commits, and records every event with its time.

Runs on a thread (`Reader`) or, to be killed, as a process that writes events to its stdout (`ReaderProcess`).
The clock is the monotonic one of the machine, which all processes share. Events:

    (ns, "+", partition, 0)      assigned
    (ns, "r", partition, offset) read
    (ns, "c", partition, offset) committed up to this offset, acknowledged
    (ns, "-", partition, 0)      revoked: recorded before the client releases it
    (ns, "x", partition, 0)      lost: the client has learnt that it is no longer the owner
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka

from tests.support.processes import ROOT, python_module

Event = tuple[int, str, int, int]
STOP_S = 20.0
COMMIT_TRIES_MAX = 5
COMMIT_EVERY = 10

PROTOCOLS: dict[str, dict[str, Any]] = {
    "cooperative": {
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": 8000,
        "heartbeat.interval.ms": 200,
    },
    "consumer": {"group.protocol": "consumer"},
}


class Consuming:
    """The work of a member, on a thread or in a process."""

    def __init__(self, settings: dict[str, Any], topic: str, tell: Callable[[Event], Any]) -> None:
        self._topic = topic
        self._tell = tell
        self._next: dict[int, int] = {}  # read and not committed
        self._count = 0
        self._leaving = False
        self.going = threading.Event()  # cleared while the member is stalled
        self.going.set()
        self.refusals: list[Any] = []
        self._consumer = confluent_kafka.Consumer(
            {
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 500,
                "fetch.wait.max.ms": 100,
                **settings,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._given, on_revoke=self._revoked, on_lost=self._lost)

    def step(self) -> None:
        self.going.wait()
        message: Any = self._consumer.poll(0.05)
        if message is not None and message.error() is None:
            self._note("r", message.partition(), message.offset())
            self._next[message.partition()] = message.offset() + 1
            self._count += 1
        if self._next and (message is None or self._count >= COMMIT_EVERY):
            self._count = 0
            self._commit(list(self._next))

    def leave(self) -> None:
        self._commit(list(self._next), COMMIT_TRIES_MAX)
        for each in self._consumer.assignment():
            self._note("-", each.partition)
        self._leaving = True
        self._consumer.close()

    def _note(self, what: str, partition: int, offset: int = 0) -> None:
        self._tell((time.monotonic_ns(), what, partition, offset))

    def _given(self, _: Any, given: list[Any]) -> None:
        for each in given:
            self._note("+", each.partition)

    def _revoked(self, _: Any, taken: list[Any]) -> None:
        if self._leaving:
            return
        partitions = [each.partition for each in taken]
        self._commit([each for each in partitions if each in self._next], COMMIT_TRIES_MAX)
        for each in partitions:
            self._next.pop(each, None)
            self._note("-", each)

    def _lost(self, _: Any, lost: list[Any]) -> None:
        if self._leaving:
            return
        for each in lost:
            self._next.pop(each.partition, None)
            self._note("x", each.partition)

    def _commit(self, partitions: list[int], tries: int = 1) -> None:
        """Commit; a rejected commit is not a failure, because the next owner rereads the records."""
        for left in reversed(range(tries)):
            places = [
                confluent_kafka.TopicPartition(self._topic, each, self._next[each]) for each in partitions
            ]
            if not places:
                return
            try:
                done = self._consumer.commit(offsets=places, asynchronous=False)
            except confluent_kafka.KafkaException as error:
                self.refusals.append(error.args[0].name())
                if left:
                    time.sleep(0.05)
                continue
            for each in done:
                if each.error is None:
                    self._note("c", each.partition, each.offset)
                    self._next.pop(each.partition, None)
                else:
                    self.refusals.append(each.error.name())
            partitions = [each for each in partitions if each in self._next]


class Watched:
    """The recorded events of a member."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.events: list[Event] = []
        self.failure: str | None = None
        self.killed = False

    def __repr__(self) -> str:
        reads = sum(what == "r" for _, what, _, _ in self.events)
        return f"{self.name}: owns {sorted(self.owned())}, read {reads}, {self.failure or 'no failure'}"

    def owned(self) -> set[int]:
        owned: set[int] = set()
        for _, what, partition, _ in list(self.events):
            if what == "+":
                owned.add(partition)
            elif what in "-x":
                owned.discard(partition)
        return owned

    def moves(self) -> int:
        """Return the number of assignments, revocations and losses."""
        return sum(what in "+-x" for _, what, _, _ in list(self.events))

    def stop(self) -> None:
        raise NotImplementedError


class Reader(Watched):
    """A member on a thread."""

    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        super().__init__(str(settings["client.id"]))
        self._stopping = False
        self.work = Consuming(settings, topic, self.events.append)
        self._thread = threading.Thread(target=self._run, daemon=True, name=self.name)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping:
                self.work.step()
            self.work.leave()
        except Exception as error:
            self.failure = repr(error)

    def stop(self) -> None:
        self.begin_to_stop()
        self._thread.join(STOP_S)
        assert not self._thread.is_alive(), self

    def begin_to_stop(self) -> None:
        self._stopping = True
        self.work.going.set()


class ReaderProcess(Watched):
    """A member in a separate process, to be killed."""

    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        super().__init__(str(settings["client.id"]))
        self._process = subprocess.Popen(
            python_module("tests.support.groups_e2e.reader", json.dumps(settings), topic),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):
                ns, what, partition, offset = json.loads(line)
                self.events.append((ns, what, partition, offset))

    def kill(self) -> int:
        """Send SIGKILL; return the time just before."""
        before_ns = time.monotonic_ns()
        self.killed = True
        self._process.kill()
        self._process.wait()
        self._thread.join(STOP_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self.events += [(before_ns, "x", each, 0) for each in self.owned()]
        return before_ns

    def stop(self) -> None:
        if not self.killed:
            self.kill()


def main() -> None:
    work = Consuming(json.loads(sys.argv[1]), sys.argv[2], lambda event: print(json.dumps(event), flush=True))
    while True:
        work.step()


if __name__ == "__main__":
    main()
