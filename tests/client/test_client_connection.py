"""Connections: negotiation, pipelining, timeouts, and peers that are not brokers."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client import (
    ClusterClient,
    Connection,
    ConnectionFailedError,
    NotKafkaError,
    RequestTimeoutError,
    UnsupportedApiError,
)
from ottla.client.blocking.connection import SyncConnection
from ottla.client.core.frame_receiver import BUFFER_BYTES, FrameReceiver
from ottla.client.errors import STALE_METADATA
from ottla.client.options import parse_bootstrap
from ottla.protocol.errors import RETRIABLE, DecodeError
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.messages.metadata_response import MetadataResponse


def test_errors_that_a_metadata_refresh_may_fix_are_retriable():
    assert STALE_METADATA < RETRIABLE


def test_negotiates_the_newest_common_version(with_stub):
    async def scenario(stub):
        stub.versions[3] = (0, 7)
        connection = await Connection.open("127.0.0.1", stub.port)
        assert connection.version_for(3) == 7
        assert connection.version_for(3, at_most=5) == 5
        assert connection.version_for(1) == 18
        answer = await connection.request(MetadataRequest(topics=None), MetadataResponse)
        assert answer.cluster_id == "stub"
        assert [(name, version) for name, version, _ in stub.requests] == [
            ("ApiVersions", 5),
            ("Metadata", 7),
        ]
        await connection.close()

    with_stub(scenario)


@pytest.mark.parametrize("highest", [0, 1, 2, 3, 4])
def test_api_versions_is_retried_in_a_version_both_know(with_stub, highest):
    async def scenario(stub):
        stub.versions[18] = (0, highest)
        connection = await Connection.open("127.0.0.1", stub.port)
        assert [(name, version) for name, version, _ in stub.requests] == [("ApiVersions", highest)]
        assert connection.version_for(3) == 13
        await connection.close()
        blocking = await asyncio.to_thread(SyncConnection, "127.0.0.1", stub.port)
        assert [(name, version) for name, version, _ in stub.requests[1:]] == [("ApiVersions", highest)]
        assert blocking.version_for(3) == 13
        blocking.close()

    with_stub(scenario)


def test_a_refused_api_versions_response_may_have_only_its_code(with_stub):
    async def scenario(stub):
        first_id, code = (1).to_bytes(4, "big"), (35).to_bytes(2, "big")
        refusal = (len(first_id) + len(code)).to_bytes(4, "big") + first_id + code
        stub.plans["ApiVersions"].append(refusal)
        connection = await Connection.open("127.0.0.1", stub.port)
        await connection.close()
        stub.plans["ApiVersions"].append(refusal)
        blocking = await asyncio.to_thread(SyncConnection, "127.0.0.1", stub.port)
        blocking.close()
        assert [version for _, version, _ in stub.requests] == [5, 0, 5, 0]

    with_stub(scenario)


def test_missing_api_and_no_common_version_are_named(with_stub):
    async def scenario(stub):
        del stub.versions[35]
        stub.versions[1] = (30, 40)
        connection = await Connection.open("127.0.0.1", stub.port)
        with pytest.raises(
            UnsupportedApiError, match=f"127.0.0.1:{stub.port}: the broker does not offer DescribeLogDirs"
        ):
            connection.version_for(35)
        with pytest.raises(UnsupportedApiError, match="no common version of Fetch: the broker offers 30-40"):
            connection.version_for(1)
        await connection.close()

    with_stub(scenario)


def test_many_requests_may_be_in_flight(with_stub):
    async def scenario(stub):
        stub.add_topic("a", 3)
        connection = await Connection.open("127.0.0.1", stub.port)
        answers = await asyncio.gather(
            *(connection.request(MetadataRequest(topics=None), MetadataResponse) for _ in range(200))
        )
        assert all(len(answer.topics[0].partitions) == 3 for answer in answers)
        await connection.close()

    with_stub(scenario)


def test_a_silent_broker_is_a_timeout_and_the_connection_ends(with_stub):
    async def scenario(stub):
        stub.plans["Metadata"].append(stub.SILENCE)
        connection = await Connection.open("127.0.0.1", stub.port)
        with pytest.raises(
            RequestTimeoutError, match=f"127.0.0.1:{stub.port}: no response to Metadata v13 within 30 ms"
        ):
            await connection.request(MetadataRequest(topics=None), MetadataResponse, timeout_ms=30)
        assert not connection.is_open
        with pytest.raises(ConnectionFailedError):
            await connection.request(MetadataRequest(topics=None), MetadataResponse)
        await connection.close()

    with_stub(scenario)


def test_refused_connection_names_the_address(with_stub):
    async def scenario(stub):
        await stub.stop()
        await stub.server.wait_closed()
        with pytest.raises(
            ConnectionFailedError, match=f"127.0.0.1:{stub.port}: cannot connect.*is a broker running"
        ):
            await Connection.open("127.0.0.1", stub.port)

    with_stub(scenario)


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\xff\xff\xff\xff",
        b"\0\0\0\0",
        b"\0\0\0\x04\0\0\x12\x34",
        b"\0\0\0\x0a\0\0\0\x01\0\0\x7f\xff\xff\xff",
    ],
)
def test_an_invalid_response_closes_the_connection(with_stub, garbage):
    async def scenario(stub):
        stub.plans["ApiVersions"].append(garbage)
        with pytest.raises(NotKafkaError, match="is it a Kafka broker"):
            await Connection.open("127.0.0.1", stub.port)

    with_stub(scenario)


def test_a_connection_closed_by_the_broker_fails_all_pending_requests(with_stub):
    async def scenario(stub):
        stub.plans["Metadata"].append(stub.CLOSE)
        connection = await Connection.open("127.0.0.1", stub.port)
        ask = MetadataRequest(topics=None)
        results = await asyncio.gather(
            *(connection.request(ask, MetadataResponse) for _ in range(3)), return_exceptions=True
        )
        assert [type(result) for result in results] == [ConnectionFailedError] * 3
        assert f"127.0.0.1:{stub.port}" in str(results[0])
        await connection.close()

    with_stub(scenario)


def test_the_cluster_client_reconnects(with_stub):
    async def scenario(stub):
        stub.add_topic("a")
        async with ClusterClient(stub.bootstrap) as cluster:
            await cluster.refresh(None)
            next(iter(cluster._connections.values()))._transport.abort()
            await asyncio.sleep(0.01)
            assert await cluster.refresh(["a"]) == {}
            assert stub.connections == 2

    with_stub(scenario)


def test_a_dead_bootstrap_server_is_skipped(with_stub):
    async def scenario(stub):
        async with ClusterClient(["127.0.0.1:1", stub.bootstrap]) as cluster:
            await cluster.refresh(None)
            assert list(cluster.view.nodes) == [1]

    with_stub(scenario)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("a, b:1 ,[::1]:5", [("a", 9092), ("b", 1), ("::1", 5)]),
        ("PLAINTEXT://h:7", [("h", 7)]),
        ("[::1]", [("::1", 9092)]),
    ],
)
def test_bootstrap_addresses(text, addresses):
    assert parse_bootstrap(text) == addresses


@pytest.mark.parametrize("text", ["", "a:b", "a:0", "a:70000", ":9092", "a,,b"])
def test_bad_bootstrap_addresses_are_refused(text):
    with pytest.raises(ValueError, match="expected HOST:PORT"):
        parse_bootstrap(text)


@given(
    sizes=st.lists(st.sampled_from([4, 5, 100, 5_000, 40_000, 70_000, 200_000]), min_size=1, max_size=8),
    chunks=st.lists(st.sampled_from([1, 3, 4, 5, 7, 1_000, BUFFER_BYTES, 300_000]), min_size=1, max_size=12),
)
def test_frames_do_not_depend_on_the_split_of_the_bytes(sizes, chunks):
    frames = [bytes([index]) * size for index, size in enumerate(sizes)]
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    receiver = FrameReceiver(1_000_000)
    received = []
    position = turn = 0
    while position < len(stream):
        memory = receiver.memory()
        assert len(memory) > 0
        # Tiny chunks only matter at frame boundaries: a few of each, then large ones.
        chunk = chunks[turn] if turn < len(chunks) else 50_000
        count = min(len(memory), chunk, len(stream) - position)
        memory[:count] = stream[position : position + count]
        received += receiver.received(count)
        position += count
        turn += 1
    assert received == frames


def test_a_frame_beyond_the_limit_is_refused():
    receiver = FrameReceiver(100)
    receiver.memory()[:4] = (101).to_bytes(4, "big")
    with pytest.raises(DecodeError, match="101"):
        receiver.received(4)
