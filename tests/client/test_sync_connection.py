"""The blocking connection: responses in pieces, together, late, or missing."""

from __future__ import annotations

import asyncio
import time

import pytest

from ottla.client.blocking.connection import SyncConnection
from ottla.client.errors import RequestTimeoutError
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.metadata_response import MetadataResponse


def metadata_of(*names: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])


def names_in(answer: MetadataResponse) -> list[str | None]:
    return [topic.name for topic in answer.topics]


def on_connection(with_stub, work, *, piece_bytes: int | None = None) -> None:
    async def scenario(stub):
        stub.piece_bytes = piece_bytes
        stub.add_topic("small")
        stub.add_topic("large", partitions=1_000)

        def blocking() -> None:
            connection = SyncConnection("127.0.0.1", stub.port)
            try:
                work(stub, connection)
            finally:
                connection.close()

        await asyncio.to_thread(blocking)

    with_stub(scenario)


@pytest.mark.parametrize("piece_bytes", [1, 3, 5, 64, 5_000])
def test_responses_in_pieces(with_stub, piece_bytes):
    def work(stub, connection):
        for _ in range(2):
            assert names_in(connection.request(metadata_of("small"), MetadataResponse)) == ["small"]
        assert not connection.has_answer()

    on_connection(with_stub, work, piece_bytes=piece_bytes)


def test_responses_that_arrive_together(with_stub):
    asked = [("small",), ("large",), ("small", "large"), ("small",), ("small", "small")]

    def work(stub, connection):
        for names in asked:
            connection.send(metadata_of(*names))
        while len(stub.requests) < 1 + len(asked):
            time.sleep(0.01)
        time.sleep(0.05)
        for names in asked:
            assert connection.has_answer()
            answer = connection.receive(MetadataResponse)
            assert names_in(answer) == list(names)
            assert [len(topic.partitions) for topic in answer.topics] == [
                1_000 if name == "large" else 1 for name in names
            ]
        assert not connection.has_answer()
        assert connection.is_idle

    on_connection(with_stub, work)


def test_a_timed_out_request_closes_the_connection(with_stub):
    def work(stub, connection):
        assert names_in(connection.request(metadata_of("small"), MetadataResponse)) == ["small"]
        stub.plans["Metadata"].append(stub.SILENCE)
        start_s = time.monotonic()
        with pytest.raises(RequestTimeoutError, match=r"no response to Metadata v[0-9]+ within 200 ms"):
            connection.request(metadata_of("small"), MetadataResponse, timeout_ms=200)
        assert 0.19 < time.monotonic() - start_s < 5
        assert not connection.is_open

    on_connection(with_stub, work)
