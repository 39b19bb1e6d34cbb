"""Disks that do not answer, with real threads: what does not need them goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.testing.files import FaultyFiles
from tests.support.interop.memory_broker import MemoryBroker, memory_broker
from tests.support.interop.wire import Wire, batch_of
from tests.support.waiting import wait_until

LATE_S = 10  # far above what a loaded machine needs, far below the hang


def create(wire: Wire, name: str, partitions: int = 1) -> float:
    """Create a topic; return how long it took."""
    began_s = time.monotonic()
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    answer = wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
    assert answer.topics[0].error_code == ErrorCode.NONE
    return time.monotonic() - began_s


@contextmanager
def producing(node: MemoryBroker, topic: str, partitions: list[int]) -> Iterator[list[int]]:
    """Produce to each partition, each with its own connection; yields the error codes that came back."""
    codes: list[int] = []

    def produce(partition: int) -> None:
        with Wire(node.servers) as wire:
            codes.append(wire.produce(topic, batch_of(b"x"), partition=partition).error_code)

    threads = [threading.Thread(target=produce, args=(each,), daemon=True) for each in partitions]
    for thread in threads:
        thread.start()
    try:
        yield codes
    finally:
        node.files.answer()
        for thread in threads:
            thread.join(LATE_S)
            assert not thread.is_alive()


def test_many_slow_flushes_delay_neither_metadata_nor_heartbeats() -> None:
    files = FaultyFiles()
    settings = {"broker.session.timeout.ms": 1000, "broker.heartbeat.interval.ms": 100}
    with memory_broker(files, **settings) as node, Wire(node.servers) as wire:
        wire.create_topic("t", 32, **{"flush.messages": 1})
        files.hang_under("/data/t-")
        with producing(node, "t", list(range(32))) as codes:
            parts = node.broker.partitions.of_topic("t").values()
            wait_until(lambda: all(each.log.log_end_offset for each in parts), "all records are appended")
            began_s = time.monotonic()
            for number in range(5):
                assert create(wire, f"during-{number}") < LATE_S
            while time.monotonic() - began_s < 2:  # two sessions
                assert not node.broker.metadata.image.brokers[1].fenced
                time.sleep(0.05)
            assert codes == []
            files.answer()
            wait_until(lambda: len(codes) == 32)
        assert set(codes) == {0}
