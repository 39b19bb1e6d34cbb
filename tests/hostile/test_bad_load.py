"""Load: many partitions in one request, many connections, stalled peers. Memory stays bounded."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzzing.batches import ordinary_batch
from fuzzing.peer import Peer
from fuzzing.target import HEALTHY_TOPIC, TargetBroker, fetch_request, produce, produce_request
from ottla.protocol.errors import ErrorCode
from ottla.protocol.frames import encode_request
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.build import build_batch

MB = 1 << 20
MANY = 10_000
API_VERSIONS = ApiVersionsRequest(client_software_name="x", client_software_version="1")
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def peers(target: TargetBroker) -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


# -- 10,000 partitions in one request


def test_create_topics(target: TargetBroker, peer: Peer) -> None:
    for topics in (
        [CreatableTopic(name="wide", num_partitions=MANY + 1, replication_factor=1)],
        [CreatableTopic(name="wide", num_partitions=2**31 - 1, replication_factor=1)],
        [CreatableTopic(name=f"wide-{n}", num_partitions=1, replication_factor=1) for n in range(MANY + 1)],
    ):
        answer = peer.call(CreateTopicsRequest(topics=topics, timeout_ms=5000), 7)
        assert {topic.error_code for topic in answer.topics} == {ErrorCode.POLICY_VIOLATION}
        target.check()


def test_create_partitions(target: TargetBroker, peer: Peer) -> None:
    for count in (MANY + 100, 2**31 - 1):
        topic = CreatePartitionsTopic(name=HEALTHY_TOPIC, count=count, assignments=None)
        answer = peer.call(CreatePartitionsRequest(topics=[topic], timeout_ms=5000), 3)
        assert answer.results[0].error_code in (ErrorCode.INVALID_PARTITIONS, ErrorCode.POLICY_VIOLATION)


def test_fetch(target: TargetBroker, peer: Peer) -> None:
    before_bytes = target.rss_bytes()
    partitions = [FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=MB) for n in range(MANY)]
    topic = FetchTopic(topic=HEALTHY_TOPIC, partitions=partitions)
    answer = peer.call(FetchRequest(max_wait_ms=0, session_epoch=-1, topics=[topic]), 12)
    codes = [partition.error_code for partition in answer.responses[0].partitions]
    assert codes == [0] + [UNKNOWN] * (MANY - 1)
    assert target.rss_bytes() < before_bytes + 50 * MB


def test_one_partition_named_10_000_times_in_a_fetch(target: TargetBroker, peer: Peer) -> None:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MB)
    topic = FetchTopic(topic=HEALTHY_TOPIC, partitions=[wanted] * MANY)
    answer = peer.call(FetchRequest(max_wait_ms=0, max_bytes=MB, session_epoch=-1, topics=[topic]), 12)
    total_bytes = sum(len(found.records) for found in answer.responses[0].partitions)
    assert 0 < total_bytes <= MB


def test_list_offsets(target: TargetBroker, peer: Peer) -> None:
    asked = [ListOffsetsPartition(partition_index=n, timestamp=1) for n in range(MANY)]
    topic = ListOffsetsTopic(name=HEALTHY_TOPIC, partitions=asked)
    answer = peer.call(ListOffsetsRequest(replica_id=-1, topics=[topic]), 7)
    codes = [partition.error_code for partition in answer.topics[0].partitions]
    assert codes == [0] + [UNKNOWN] * (MANY - 1)


def test_one_partition_named_10_000_times_in_list_offsets(target: TargetBroker, peer: Peer) -> None:
    asked = ListOffsetsPartition(partition_index=0, timestamp=1)
    topic = ListOffsetsTopic(name=HEALTHY_TOPIC, partitions=[asked] * MANY)
    answer = peer.call(ListOffsetsRequest(replica_id=-1, topics=[topic]), 7)
    assert {found.error_code for found in answer.topics[0].partitions} == {ErrorCode.INVALID_REQUEST}


def test_produce(target: TargetBroker, peer: Peer) -> None:
    batch = bytes(ordinary_batch(int(time.time() * 1000), 1))
    data = [PartitionProduceData(index=n, records=batch) for n in range(1, MANY + 1)]
    topic = TopicProduceData(name=HEALTHY_TOPIC, partition_data=data)
    answer = peer.call(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic]), 9)
    assert {found.error_code for found in answer.responses[0].partition_responses} == {UNKNOWN}


def test_metadata(target: TargetBroker, peer: Peer) -> None:
    topics = [MetadataRequestTopic(name=f"none-{n}") for n in range(MANY)]
    answer = peer.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9)
    assert len(answer.topics) == MANY
    assert {topic.error_code for topic in answer.topics} == {UNKNOWN}


def test_metadata_that_would_create_more_than_10_000_topics_creates_none(
    target: TargetBroker, peer: Peer
) -> None:
    topics = [MetadataRequestTopic(name=f"many-{n}") for n in range(MANY + 1)]
    answer = peer.call(MetadataRequest(topics=topics, allow_auto_topic_creation=True), 9)
    assert 0 not in {topic.error_code for topic in answer.topics}
    assert not [t for t in peer.call(MetadataRequest(topics=None), 9).topics if t.name.startswith("many-")]
    assert target.wait_for_log("count=10001").count("not created") == 2  # two lines, not one per name


def test_a_topic_named_10_000_times_is_described_once(target: TargetBroker, peer: Peer) -> None:
    wide = CreatableTopic(name="a-hundred", num_partitions=100, replication_factor=1)
    peer.call(CreateTopicsRequest(topics=[wide], timeout_ms=5000), 7)
    answer = peer.call(MetadataRequest(topics=[MetadataRequestTopic(name="a-hundred")] * MANY), 9)
    assert sum(len(topic.partitions) for topic in answer.topics) == 100


def test_a_resource_named_10_000_times_is_described_once(target: TargetBroker, peer: Peer) -> None:
    resource = DescribeConfigsResource(resource_type=2, resource_name=HEALTHY_TOPIC, configuration_keys=None)
    answer = peer.call(DescribeConfigsRequest(resources=[resource] * MANY, include_documentation=True), 4)
    assert len(answer.results) == 1


def test_fetch_sessions_do_not_pile_up(target: TargetBroker, peer: Peer) -> None:
    before_bytes = target.rss_bytes()
    partitions = [FetchPartition(partition=n) for n in range(50_000)]
    topic = FetchTopic(topic=HEALTHY_TOPIC, partitions=partitions)
    sessions = [
        peer.call(FetchRequest(max_wait_ms=0, session_epoch=0, topics=[topic]), 12).session_id
        for _ in range(5)
    ]
    assert sessions[0] > 0 and sessions[-1] == 0
    assert target.rss_bytes() < before_bytes + 250 * MB
    for session_id in sessions:
        peer.call(FetchRequest(max_wait_ms=0, session_id=session_id, session_epoch=-1), 12)


# -- connections


def test_announced_bytes_take_no_memory_until_they_arrive(
    target: TargetBroker, peers: contextlib.ExitStack
) -> None:
    before_bytes = target.rss_bytes()
    for _ in range(200):
        peer = peers.enter_context(Peer(target.address))
        peer.send(struct.pack(">ihhih", 100 * MB, 0, 9, 1, -1) + bytes(1024))
    target.check(rss_bytes_max=before_bytes + 16 * MB)


def test_incomplete_requests_do_not_delay_others(target: TargetBroker, peers: contextlib.ExitStack) -> None:
    request = encode_request(3, 5, "slow", API_VERSIONS)
    slow = [peers.enter_context(Peer(target.address)) for _ in range(300)]
    for n, peer in enumerate(slow):
        peer.send(request[: n % len(request)])
    target.check()
    for n, peer in enumerate(slow):
        peer.send(request[n % len(request) :])
    for peer in slow:
        assert peer.answer(18, 3, 5).error_code == 0


def test_hundreds_of_connections_are_served(target: TargetBroker, peers: contextlib.ExitStack) -> None:
    before_bytes = target.rss_bytes()
    crowd = [peers.enter_context(Peer(target.address)) for _ in range(400)]
    for peer in crowd:
        assert peer.call(API_VERSIONS, 3).error_code == 0
    target.check(rss_bytes_max=before_bytes + 32 * MB)


def test_closed_connections_leave_no_memory(tmp_path: Path) -> None:
    with TargetBroker(str(tmp_path)) as target:
        for turn in range(3):
            for n in range(500):
                with Peer(target.address) as peer:
                    peer.send(struct.pack(">i", 100) if n % 2 else b"")
            target.check()
            if turn == 0:
                before_bytes = target.rss_bytes()
        assert target.rss_bytes() < before_bytes + 2 * MB


def test_a_peer_that_never_reads_is_bounded(target: TargetBroker) -> None:
    with Peer(target.address, receive_buffer_bytes=4096) as peer:
        before_bytes = target.rss_bytes()
        request = encode_request(9, 1, "deaf", MetadataRequest(topics=None)) * 100
        peer.socket.settimeout(1)
        sent_bytes = 0
        with contextlib.suppress(TimeoutError):  # the socket buffer is full: the broker no longer reads
            while sent_bytes < 100 * MB:
                sent_bytes += peer.socket.send(request)
        assert sent_bytes < 100 * MB
        target.check(rss_bytes_max=before_bytes + 16 * MB)


def test_a_peer_that_never_reads_its_records(target: TargetBroker, peer: Peer) -> None:
    """Each response has a megabyte of the log, which stays there until it can be sent."""
    values = [(int(time.time() * 1000), None, bytes(900_000), ())]
    offset = produce(peer, HEALTHY_TOPIC, bytes(build_batch(values)))
    before_bytes = target.rss_bytes()
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            deaf = stack.enter_context(Peer(target.address, receive_buffer_bytes=4096))
            for n in range(200):
                deaf.send(encode_request(12, n, "deaf", fetch_request(HEALTHY_TOPIC, offset)))
        target.check(rss_bytes_max=before_bytes + 32 * MB)


def test_long_polls_of_many_connections_end_with_them(target: TargetBroker) -> None:
    def poll_and_leave() -> None:
        with contextlib.ExitStack() as stack:
            for _ in range(50):
                peer = stack.enter_context(Peer(target.address))
                waiting = fetch_request("a-quiet-one", 0, max_wait_ms=2**31 - 1)
                peer.send(b"".join(encode_request(12, n, "poll", waiting) for n in range(200)))
            target.check()

    wide = CreatableTopic(name="a-quiet-one", num_partitions=1, replication_factor=1)
    target.healthy.call(CreateTopicsRequest(topics=[wide], timeout_ms=5000), 7)
    poll_and_leave()
    before_bytes = target.rss_bytes()
    for _ in range(3):
        poll_and_leave()
    assert target.rss_bytes() < before_bytes + 16 * MB


def test_long_client_ids_are_not_remembered(target: TargetBroker, peer: Peer) -> None:
    batch = bytes(ordinary_batch(int(time.time() * 1000), 1))
    before_bytes = target.rss_bytes()
    for n in range(3000):
        client_id = f"{n:06}" + "x" * 30_000
        peer.send(encode_request(9, n, client_id, produce_request(HEALTHY_TOPIC, batch)))
        assert peer.answer(0, 9, n).responses[0].partition_responses[0].error_code == 0
    target.check(rss_bytes_max=before_bytes + 24 * MB)


# -- limits that are set


def test_connection_count_and_idle_limits(tmp_path: Path) -> None:
    settings = {"max.connections": "5", "connections.max.idle.ms": "1000"}
    with TargetBroker(str(tmp_path), settings) as target, contextlib.ExitStack() as stack:
        four = [stack.enter_context(Peer(target.address)) for _ in range(4)]
        for peer in four[:2]:
            assert peer.call(API_VERSIONS, 3).error_code == 0
        four[3].send(b"\0\0")  # half a length
        extra = stack.enter_context(Peer(target.address))
        assert extra.closed_by_broker()
        target.wait_for_log("connection refused: 5 connections are open (max.connections)")
        for _ in range(5):
            time.sleep(0.3)
            target.check()  # the connection in use is not idle
        for peer in four:
            assert peer.closed_by_broker(within_s=1)
        assert stack.enter_context(Peer(target.address)).call(API_VERSIONS, 3).error_code == 0
