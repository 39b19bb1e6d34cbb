"""Power cuts at arbitrary times, on in-memory files that keep only synced data (flush.messages).

The broker continues. Its files are copied between two events, the copy loses unsynced data (all of it or an
arbitrary part), and a second broker starts on the copy.
"""

from __future__ import annotations

import random
import threading
import time

import pytest

from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.testing.files import FaultyFiles
from tests.support.interop.memory_broker import MemoryBroker, memory_broker
from tests.support.interop.wire import Wire, batch_of

READ_BYTES = 30_000  # too small for sendfile: these files have no descriptors


class Writer:
    """Writes numbered records with several requests in flight, and records acknowledgements."""

    def __init__(self, servers: str, topic: str) -> None:
        self.acknowledged: list[bytes] = []  # by offset
        self._servers = servers
        self._topic = topic
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with Wire(self._servers) as wire:
            number = 0
            while not self._ended.is_set():
                sent = []
                for _ in range(4):
                    values = [b"%d" % (number + n) for n in range(3)]
                    sent.append((wire.send_produce(self._topic, batch_of(*values)), values))
                    number += 3
                for request, values in sent:
                    answer = wire.receive(request).responses[0].partition_responses[0]
                    assert (answer.error_code, answer.base_offset) == (0, len(self.acknowledged))
                    self.acknowledged += values
                time.sleep(0.002)

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()


def survivors(files: FaultyFiles, topic: str) -> list[bytes]:
    with memory_broker(files) as again, Wire(again.servers) as wire:
        found = wire.records(topic, partition_max_bytes=READ_BYTES)
        assert [record.offset for record in found] == list(range(len(found)))
        assert wire.produce(topic, batch_of(b"on we go")).base_offset == len(found)
        return [record.value for record in found]


def cut(original: MemoryBroker, rng: random.Random | None) -> FaultyFiles:
    files = original.copy_of_files()
    files.crash(rng)
    return files


@pytest.mark.parametrize(
    "configs", [{"flush.messages": 1}, {"flush.messages": 1, "segment.bytes": 1_048_576}]
)
def test_records_acknowledged_with_flush_messages_survive_a_power_cut(configs):
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    with memory_broker(FaultyFiles()) as original:
        with Wire(original.servers) as wire:
            wire.create_topic("t", **configs)
        writer = Writer(original.servers, "t")
        try:
            for attempt in range(8):
                time.sleep(rng.uniform(0.01, 0.05))
                acknowledged = list(writer.acknowledged)
                files = cut(original, rng if attempt % 2 else None)
                found = survivors(files, "t")
                assert found[: len(acknowledged)] == acknowledged, f"seed {seed}"
                assert found == [b"%d" % n for n in range(len(found))], f"seed {seed}"
        finally:
            writer.stop()
        assert len(writer.acknowledged) > 50


@pytest.mark.parametrize("configs", [{}, {"flush.ms": 20}, {"flush.messages": 40}])
def test_without_flush_messages_a_prefix_survives(configs):
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    with memory_broker(FaultyFiles()) as original:
        with Wire(original.servers) as wire:
            wire.create_topic("t", **configs)
        writer = Writer(original.servers, "t")
        try:
            for _ in range(5):
                time.sleep(rng.uniform(0.01, 0.05))
                found = survivors(cut(original, rng), "t")
                assert found == [b"%d" % n for n in range(len(found))], f"seed {seed}"
            if "flush.ms" in configs:
                synced = len(writer.acknowledged)
                time.sleep(0.5)
                found = survivors(cut(original, None), "t")
                assert len(found) >= synced, "flush.ms has passed"
        finally:
            writer.stop()


def test_an_unsynced_batch_is_synced_before_a_retry_is_acknowledged():
    """The process dies when a batch is in the log but not synced; the client retries after the restart."""
    files = FaultyFiles()
    with memory_broker(files) as original, Wire(original.servers) as wire:
        wire.create_topic("t", **{"flush.messages": 1})
        producer_id, epoch = wire.init_producer()
        batch = batch_of(b"once", producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
        wire.alter("t", **{"flush.messages": None})
        wire.produce("t", batch)
        wire.alter("t", **{"flush.messages": 1})
        killed = original.copy_of_files()
    killed.locks.clear()  # the kernel keeps unsynced writes of a killed process, but not its locks
    with memory_broker(killed) as again, Wire(again.servers) as wire:
        answer = wire.produce("t", batch)
        assert (answer.error_code, answer.base_offset) == (0, 0)
        dark = again.copy_of_files()
    dark.crash()
    assert survivors(dark, "t") == [b"once"]


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_topic_that_was_empty_at_a_restart_keeps_later_records(how):
    files = FaultyFiles()
    with memory_broker(files) as original, Wire(original.servers) as wire:
        wire.create_topic("t", **{"flush.messages": 1})
        killed = original.copy_of_files()
        killed.locks.clear()
    with memory_broker(files if how == "stopped" else killed) as again, Wire(again.servers) as wire:
        assert wire.produce("t", batch_of(b"kept")).error_code == 0
        dark = again.copy_of_files()
    dark.crash()
    assert survivors(dark, "t") == [b"kept"]


def test_acknowledged_metadata_survives_power_cuts():
    rng = random.Random()
    with memory_broker(FaultyFiles()) as original, Wire(original.servers) as wire:
        names = set()
        for round_ in range(5):
            wire.create_topic(f"t{round_}", 2)
            names.add(f"t{round_}")
            if round_ == 3:
                wire.delete_topic("t1")
                names.discard("t1")
            files = cut(original, rng if round_ % 2 else None)
            with memory_broker(files) as again, Wire(again.servers) as other:
                found = {topic.name for topic in other.ask(MetadataRequest(topics=None)).topics}
                assert found == names
                assert other.produce(f"t{round_}", batch_of(b"x"), partition=1).base_offset == 0


def test_producer_ids_are_not_reused_after_a_power_cut():
    with memory_broker(FaultyFiles()) as original, Wire(original.servers) as wire:
        given = {wire.init_producer()[0] for _ in range(5)}
        files = cut(original, None)
    with memory_broker(files) as again, Wire(again.servers) as wire:
        assert wire.init_producer()[0] not in given
