"""The fast path of Produce responds as the handler does, byte for byte, and changes nothing when it fails."""

from __future__ import annotations

import asyncio
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.api.records.produce_fast_path import FIRST_VERSION
from ottla.broker.net.connection import Connection
from ottla.broker.node import Node
from ottla.config.load import broker_config
from ottla.protocol.frames import encode_request, read_response_header
from ottla.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse
from ottla.protocol.uuids import ZERO_UUID
from ottla.records.batch import iter_headers
from ottla.records.build import build_batch
from ottla.storage.errors import DiskFull
from ottla.storage.files import OsFile
from ottla.storage.log.flush_job import FlushJob


class Collector:
    """Replaces the socket."""

    busy = False

    def __init__(self) -> None:
        self.data = b""

    def send(self, parts: list[Any]) -> None:
        self.data += b"".join(parts)

    def close(self) -> None:
        pass


class Bench:
    """A broker and one connection that is fed frames by hand."""

    def __init__(self, broker: Node) -> None:
        self.broker = broker
        self.fast_path = broker.dispatcher.fast_path
        self.connection = Connection(broker.listeners[0], broker.dispatcher, 1 << 24)
        self.sender = self.connection._sender = Collector()  # type: ignore[assignment]

    async def create(self, name: str, configs: dict[str, str] | None = None) -> None:
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=2,
                    replication_factor=1,
                    configs=[CreatableTopicConfig(name=k, value=v) for k, v in (configs or {}).items()],
                )
            ]
        )
        await self.broker.controller.ask(request)

    async def send_together(self, frames: list[bytes]) -> list[bytes]:
        """Send frames in one read; return the responses."""
        data = await self.send(b"".join(frames))
        answers = []
        while data or len(answers) < len(frames):
            if len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
                await asyncio.sleep(0.001)
                data = data + self.sender.data[sum(map(len, answers)) + len(data) :]  # type: ignore[attr-defined]
                continue
            size = 4 + struct.unpack_from(">i", data)[0]
            answers.append(data[:size])
            data = data[size:]
        return answers

    async def send(self, frame: bytes) -> bytes:
        self.sender.data = b""  # type: ignore[attr-defined]
        space = self.connection.get_buffer(0)
        while len(space) < len(frame):
            self.connection._buffer._replace(2 * self.connection._buffer.capacity_bytes)
            space = self.connection.get_buffer(0)
        space[: len(frame)] = frame
        self.connection.buffer_updated(len(frame))
        while not self.sender.data:  # type: ignore[attr-defined]
            await asyncio.sleep(0.001)
        return self.sender.data  # type: ignore[attr-defined,no-any-return]

    def frame(
        self,
        version: int,
        topic: str,
        *,
        correlation_id: int = 7,
        client: str | None = "tester",
        **batch: Any,
    ) -> bytes:
        rows = batch.pop("rows", None) or [(int(time.time() * 1000), b"k", b"v" * 200, ())]
        acks = batch.pop("acks", 1)
        index = batch.pop("index", 0)
        image = self.broker.metadata.image.topics_by_name.get(topic)
        data = PartitionProduceData(index=index, records=bytes(build_batch(rows, **batch)))
        message = ProduceRequest(
            acks=acks,
            timeout_ms=5000,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    topic_id=image.topic_id if image is not None and version >= 13 else ZERO_UUID,
                    partition_data=[data],
                )
            ],
        )
        return encode_request(version, correlation_id, client, message)


def run(tmp_path: Any, scenario: Callable[[Bench], Any]) -> None:
    async def main() -> None:
        config = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
        broker = Node(broker_config(config))
        await broker.start()
        try:
            bench = Bench(broker)
            await bench.create("t")
            await asyncio.wait_for(scenario(bench), 20)
        finally:
            await broker.stop()

    asyncio.run(main())


def answer_of(version: int, data: bytes) -> tuple[int, PartitionProduceResponse]:
    assert struct.unpack_from(">i", data)[0] == len(data) - 4
    correlation_id, pos = read_response_header(0, version, data[4:])
    response = ProduceResponse.decode(version, data[4:], pos)
    ((answer,),) = [topic.partition_responses for topic in response.responses]
    return correlation_id, answer


@pytest.mark.parametrize("client", ["tester", None, "x" * 200])
@pytest.mark.parametrize("version", range(3, 14))
def test_fast_path_and_handler_respond_alike(tmp_path: Any, version: int, client: str | None) -> None:
    async def scenario(bench: Bench) -> None:
        long = await bench.send(bench.frame(version, "t", client=client))
        assert len(bench.fast_path) == (version >= FIRST_VERSION)
        short = await bench.send(bench.frame(version, "t", client=client))
        bench.fast_path.forget()
        again = await bench.send(bench.frame(version, "t", client=client))
        answers = [answer_of(version, data) for data in (long, short, again)]
        assert [answer.base_offset for _, answer in answers] == [0, 1, 2]
        for _, answer in answers:
            answer.base_offset = 0
        assert answers[0] == answers[1] == answers[2]
        assert {len(long), len(short), len(again)} == {len(long)}

    run(tmp_path, scenario)


def test_the_handler_responds_to_failures_and_nothing_is_appended(tmp_path: Any) -> None:
    async def scenario(bench: Bench) -> None:
        good = bench.frame(9, "t")
        await bench.send(good)
        log = bench.broker.partitions.by_name("t", 0).log  # type: ignore[union-attr]
        damaged = bytearray(good)
        damaged[-10] ^= 1
        for frame, code in (
            (bytes(damaged), 2),
            (bench.frame(9, "t", transactional=True, producer_id=5, producer_epoch=0, base_sequence=0), 53),
        ):
            _, answer = answer_of(9, await bench.send(frame))
            assert answer.error_code == code
            assert log.log_end_offset == 1
        assert answer_of(9, await bench.send(good))[1].base_offset == 1

    run(tmp_path, scenario)


def test_a_duplicate_gets_its_original_offset(tmp_path: Any) -> None:
    async def scenario(bench: Bench) -> None:
        frames = [
            bench.frame(9, "t", producer_id=5, producer_epoch=0, base_sequence=sequence)
            for sequence in range(3)
        ]
        offsets = [answer_of(9, await bench.send(frame))[1].base_offset for frame in [*frames, frames[1]]]
        assert offsets == [0, 1, 2, 1]
        _, answer = answer_of(
            9, await bench.send(bench.frame(9, "t", producer_id=5, producer_epoch=0, base_sequence=9))
        )
        assert answer.error_code == 45

    run(tmp_path, scenario)


def test_partitions_are_not_confused(tmp_path: Any) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.create("tt")
        for _ in range(3):
            for topic, index in (("t", 0), ("t", 1), ("tt", 0), ("tt", 1)):
                await bench.send(bench.frame(9, topic, index=index))
        ends = [p.log.log_end_offset for p in bench.broker.partitions]
        assert ends == [3, 3, 3, 3]

    run(tmp_path, scenario)


def test_acknowledgements_wait_for_the_flush_on_the_fast_path(tmp_path: Any) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.create("durable", {"flush.messages": "1"})
        partition = bench.broker.partitions.by_name("durable", 0)
        assert partition is not None
        for offset in range(5):
            _, answer = answer_of(9, await bench.send(bench.frame(9, "durable")))
            assert (answer.error_code, answer.base_offset) == (0, offset)
            assert partition.log.recovery_point == offset + 1

    run(tmp_path, scenario)


def test_a_deleted_topic_is_forgotten(tmp_path: Any) -> None:
    async def scenario(bench: Bench) -> None:
        from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest

        await bench.send(bench.frame(9, "t"))
        request = DeleteTopicsRequest(topic_names=["t"])
        await bench.broker.controller.ask(request)
        _, answer = answer_of(9, await bench.send(bench.frame(9, "t")))
        assert answer.error_code == 3

    run(tmp_path, scenario)


def test_requests_received_together_are_appended_together(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(bench: Bench) -> None:
        for index in (0, 1):
            await bench.send(bench.frame(9, "t", index=index))
        writes: list[int] = []
        append_many = OsFile.append_many

        def counted(file: OsFile, pieces: Any) -> None:
            writes.append(len(pieces))
            append_many(file, pieces)

        monkeypatch.setattr(OsFile, "append_many", counted)
        order = [0] * 5 + [1] * 3 + [0] * 2
        frames = [bench.frame(9, "t", index=index, correlation_id=n) for n, index in enumerate(order)]
        answers = [answer_of(9, data) for data in await bench.send_together(frames)]
        assert [correlation_id for correlation_id, _ in answers] == list(range(10))
        assert [answer.base_offset for _, answer in answers] == [1, 2, 3, 4, 5, 1, 2, 3, 6, 7]
        assert writes == [5, 3, 2]
        data = bench.broker.partitions.by_name("t", 0).log.read(0, 1 << 20).read()  # type: ignore[union-attr]
        headers = [header for _, header in iter_headers(data)]
        assert [header.base_offset for header in headers] == list(range(8))

    run(tmp_path, scenario)


def test_a_group_with_duplicates_and_gaps(tmp_path: Any) -> None:
    async def scenario(bench: Bench) -> None:
        def frame(sequence: int) -> bytes:
            return bench.frame(9, "t", producer_id=5, producer_epoch=0, base_sequence=sequence)

        await bench.send(frame(0))
        sequences = [1, 2, 1, 9, 3, 3, 4]
        answers = [answer_of(9, data)[1] for data in await bench.send_together([frame(n) for n in sequences])]
        assert [answer.error_code for answer in answers] == [0, 0, 0, 45, 0, 0, 0]
        assert [answer.base_offset for answer in answers] == [1, 2, 1, -1, 3, 3, 4]

    run(tmp_path, scenario)


def test_a_group_on_a_full_disk_appends_nothing(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(bench: Bench) -> None:
        def frame(sequence: int) -> bytes:
            return bench.frame(9, "t", producer_id=5, producer_epoch=0, base_sequence=sequence)

        await bench.send(frame(0))
        log = bench.broker.partitions.by_name("t", 0).log  # type: ignore[union-attr]

        def no_room(file: OsFile, *_: Any) -> None:
            raise DiskFull(file.path, "no space left on device")

        frames = [frame(n) for n in (1, 2, 3)]
        with monkeypatch.context() as full:
            full.setattr(OsFile, "append_many", no_room)
            full.setattr(OsFile, "append", no_room)
            answers = [answer_of(9, data)[1] for data in await bench.send_together(frames)]
            # Without the first the others are out of order: the producer resends all of them.
            assert [answer.error_code for answer in answers] == [56, 45, 45]
            assert log.log_end_offset == 1
        answers = [answer_of(9, data)[1] for data in await bench.send_together(frames)]
        assert [answer.base_offset for answer in answers] == [1, 2, 3]

    run(tmp_path, scenario)


def test_a_group_waits_for_the_flush(tmp_path: Any) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.create("durable", {"flush.messages": "1"})
        partition = bench.broker.partitions.by_name("durable", 0)
        assert partition is not None
        await bench.send(bench.frame(9, "durable"))
        frames = [bench.frame(9, "durable", correlation_id=n) for n in range(20)]
        answers = [answer_of(9, data) for data in await bench.send_together(frames)]
        assert [(n, answer.base_offset) for n, answer in answers] == [(n, n + 1) for n in range(20)]
        assert partition.log.recovery_point == 21

    run(tmp_path, scenario)


def test_a_duplicate_at_the_end_of_a_group_acknowledges_nothing_early(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last batch of a group is old and committed; the others are not flushed yet and must wait."""

    async def scenario(bench: Bench) -> None:
        def frame(sequence: int) -> bytes:
            return bench.frame(9, "durable", producer_id=5, producer_epoch=0, base_sequence=sequence)

        await bench.create("durable", {"flush.messages": "1"})
        await bench.send(frame(0))
        gate = threading.Event()
        flush = FlushJob.run

        def when_let_go(job: FlushJob) -> None:
            gate.wait(10)
            flush(job)

        monkeypatch.setattr(FlushJob, "run", when_let_go)
        sending = asyncio.ensure_future(bench.send_together([frame(1), frame(2), frame(0)]))
        try:
            await asyncio.sleep(0.05)
            assert not bench.sender.data  # type: ignore[attr-defined]
        finally:
            gate.set()
        assert [answer_of(9, data)[1].base_offset for data in await sending] == [1, 2, 0]

    run(tmp_path, scenario)
