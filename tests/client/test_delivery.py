"""Delivery on both shells: brokers and connections fail, and each record is written once, in order."""

from __future__ import annotations

import asyncio
import random

import pytest

from ottla.client import BrokerError, ConnectionFailedError, RecordTooLargeError, UnknownTopicError
from ottla.client.core.partitioner import partition_for_key
from ottla.protocol.errors import ErrorCode
from ottla.records.batch import iter_headers
from tests.support.client.stub import StubBroker

VALUES = [b"value %03d" % n for n in range(100)]


def values_in(stub, partition: int = 0) -> list[bytes]:
    return [record.value for record in stub.records("t", partition)]


def producer_ids(stub, partition: int = 0) -> list[int]:
    headers = [header for batch in stub.logs["t", partition] for _, header in iter_headers(batch)]
    return [header.producer_id for header in headers]


def deliver(shell, with_stub, prepare, *, partitions: int = 1, connection=None, **options):
    """Write VALUES in small batches to a stub with the faults of `prepare`; return the stub."""

    async def scenario(stub):
        stub.add_topic("t", partitions)
        prepare(stub)
        writer = shell.writer(stub.bootstrap, connection=connection, batch_bytes=300, **options)
        for number, value in enumerate(VALUES):
            await writer.write([value], partition=number % partitions)
        await writer.flush()
        await writer.close()
        return stub

    return with_stub(scenario)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["all", 1])
def test_records_arrive_whole_and_in_order(shell, with_stub, compression, acks):
    stub = deliver(shell, with_stub, lambda stub: None, compression=compression, acks=acks)
    assert values_in(stub) == VALUES
    assert {request.acks for request in stub.asked("Produce")} == {-1 if acks == "all" else 1}


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize(
    "fault",
    [
        "close",
        "silence",
        "written, then closed",
        "written, then timed out",
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ],
)
def test_a_fault_neither_loses_nor_repeats_records(shell, with_stub, fault, partitions):
    def prepare(stub):
        act = fault_of(stub, fault)
        stub.plans["Produce"].extend([stub.produce, act, stub.produce, act])

    connection = {"request_timeout_ms": 300}
    stub = deliver(shell, with_stub, prepare, partitions=partitions, connection=connection)
    for partition in range(partitions):
        assert values_in(stub, partition) == VALUES[partition::partitions]


def fault_of(stub, fault):
    def write_then(request):
        response = stub.produce(request)
        if fault == "written, then closed":
            return stub.CLOSE
        for topic in response.responses:
            for row in topic.partition_responses:
                row.error_code = ErrorCode.REQUEST_TIMED_OUT
        return response

    if fault in ("close", "silence"):
        return {"close": stub.CLOSE, "silence": stub.SILENCE}[fault]
    if isinstance(fault, ErrorCode):
        return lambda request: stub.produce(request, error=fault)
    return write_then


@pytest.mark.parametrize("seed", range(12))
def test_random_faults_neither_lose_nor_repeat_records(shell, with_stub, seed):
    dice = random.Random(seed)
    faults = ["close", "written, then closed", "written, then timed out", ErrorCode.NOT_LEADER_OR_FOLLOWER]

    def prepare(stub):
        for _ in range(30):
            act = stub.produce if dice.random() < 0.5 else fault_of(stub, dice.choice(faults))
            stub.plans["Produce"].append(act)
        stub.plans["Metadata"].extend(stub.CLOSE for _ in range(dice.randrange(3)))

    stub = deliver(shell, with_stub, prepare, partitions=3)
    for partition in range(3):
        assert values_in(stub, partition) == VALUES[partition::3]


def test_a_lost_sequence_reseals_only_the_refused_batch(shell, with_stub):
    """Partition 1 was written without a response: with a new producer id it would be written twice."""

    def prepare(stub):
        def act(request):
            response = stub.produce(request)
            for topic in response.responses:
                for row in topic.partition_responses:
                    row.error_code = ErrorCode.REQUEST_TIMED_OUT
                    if row.index == 0:
                        stub.logs["t", 0].clear()
                        stub.ends["t", 0] = 0
                        stub.sequences = {key: n for key, n in stub.sequences.items() if key[1] != 0}
                        row.error_code = ErrorCode.UNKNOWN_PRODUCER_ID
            return response

        stub.plans["Produce"].extend([act, act])

    stub = deliver(shell, with_stub, prepare, partitions=2)
    assert values_in(stub, 0) == VALUES[0::2]
    assert values_in(stub, 1) == VALUES[1::2]
    # The first batch of partition 1 kept the id under which it was sent; later ones have the new one.
    old, new = producer_ids(stub, 1)[0], producer_ids(stub, 0)[0]
    assert old != new and producer_ids(stub, 1)[-1] == new


def test_metadata_that_expires_at_once_still_names_the_leader(shell, with_stub):
    connection = {"metadata_max_age_ms": 0}
    stub = deliver(shell, with_stub, lambda stub: None, partitions=3, connection=connection)
    for partition in range(3):
        assert values_in(stub, partition) == VALUES[partition::3]


def test_without_batching_every_record_is_a_batch(shell, with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        writer = shell.writer(stub.bootstrap, connection={"retry_backoff_ms": 0}, batch_bytes=0)
        await writer.write(VALUES[:3])
        await writer.flush()
        await writer.close()
        assert values_in(stub) == VALUES[:3]
        assert len(stub.logs["t", 0]) == 3

    with_stub(scenario)


def test_without_a_delivery_timeout_nothing_is_retried(shell, with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        stub.plans["Produce"].append(lambda request: stub.produce(request, error=ErrorCode.REQUEST_TIMED_OUT))
        writer = shell.writer(stub.bootstrap, delivery_timeout_ms=0)
        await writer.write(VALUES[:1])
        with pytest.raises(BrokerError, match="REQUEST_TIMED_OUT"):
            await writer.flush()
        await writer.close()
        assert len(stub.asked("Produce")) == 1

    with_stub(scenario)


def test_acks_0_has_no_response_and_no_producer_id(shell, with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        writer = shell.writer(stub.bootstrap, acks=0)
        await writer.write(VALUES)
        await writer.flush()
        while len(values_in(stub)) < len(VALUES):
            await asyncio.sleep(0.005)
        await writer.close()
        assert values_in(stub) == VALUES
        assert stub.asked("InitProducerId") == []

    with_stub(scenario)


def test_an_error_that_is_not_retriable_is_raised_at_once(shell, with_stub):
    async def scenario(stub):
        stub.add_topic("t")

        def refuse(request):
            answer = stub.produce(request, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            answer.responses[0].partition_responses[0].error_message = "not for you"
            return answer

        stub.plans["Produce"].append(refuse)
        writer = shell.writer(stub.bootstrap)
        await writer.write(VALUES[:1])
        with pytest.raises(
            BrokerError, match=r"topic 't' partition 0: TOPIC_AUTHORIZATION_FAILED \(29\): not for you"
        ) as caught:
            await writer.flush()
        assert caught.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert len(stub.asked("Produce")) == 1
        await writer.close()

    with_stub(scenario)


def test_a_batch_too_large_is_split_and_a_record_too_large_is_named(shell, with_stub):
    async def scenario(stub):
        stub.add_topic("t")

        def limited(request):
            stub.plans["Produce"].append(limited)
            size = len(request.topic_data[0].partition_data[0].records)
            return stub.produce(request, error=ErrorCode.MESSAGE_TOO_LARGE if size > 400 else 0)

        stub.plans["Produce"].append(limited)
        writer = shell.writer(stub.bootstrap)
        small = [b"%02d" % n * 45 for n in range(20)]
        await writer.write(small)
        await writer.flush()
        assert values_in(stub) == small
        await writer.write([b"x" * 500])
        with pytest.raises(RecordTooLargeError, match="topic 't' partition 0"):
            await writer.flush()
        await writer.close()

    with_stub(scenario)


def test_a_batch_fails_after_the_delivery_time_out(shell, with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        stub.plans["Produce"].extend([stub.CLOSE] * 1000)
        writer = shell.writer(stub.bootstrap, delivery_timeout_ms=150)
        await writer.write(VALUES[:1])
        with pytest.raises(ConnectionFailedError, match="connection"):
            await writer.flush()
        await writer.close()

    with_stub(scenario)


def test_the_producer_id_comes_from_a_broker_that_answers(shell, with_stub):
    def prepare(stub):
        stub.plans["InitProducerId"].append(stub.CLOSE)

    stub = deliver(shell, with_stub, prepare)
    assert values_in(stub) == VALUES
    assert len(stub.asked("InitProducerId")) == 2


@pytest.mark.parametrize("metadata_version", [0, 1, 3, 8])
def test_old_brokers_get_old_versions(shell, with_stub, metadata_version):
    def prepare(stub):
        stub.versions.update({3: (0, metadata_version), 0: (0, 13)})

    stub = deliver(shell, with_stub, prepare)
    assert values_in(stub) == VALUES
    assert {version for name, version, _ in stub.requests if name == "Metadata"} == {metadata_version}
    # Without topic ids in Metadata there are none for Produce either.
    assert {version for name, version, _ in stub.requests if name == "Produce"} == {12}


def test_an_unknown_topic_is_named(shell, with_stub):
    async def scenario(stub):
        writer = shell.writer(stub.bootstrap, "nope", connection={"retry_timeout_ms": 100})
        with pytest.raises(
            UnknownTopicError, match=r"topic 'nope': UNKNOWN_TOPIC_OR_PARTITION \(3\).*create"
        ):
            await writer.write(VALUES)
        await writer.close()
        requests = [request for request in stub.asked("Metadata") if request.topics]
        assert requests and all(request.allow_auto_topic_creation for request in requests)

    with_stub(scenario)


def test_keys_choose_partitions_as_in_the_java_client(shell, with_stub):
    async def scenario(stub):
        stub.add_topic("t", 5)
        writer = shell.writer(stub.bootstrap)
        keys = [b"%d" % n for n in range(20)]
        for key in keys:
            await writer.write([key], key=key)
        await writer.flush()
        await writer.close()
        for partition in range(5):
            expected = [key for key in keys if partition_for_key(key, 5) == partition]
            assert values_in(stub, partition) == expected

    with_stub(scenario)


def test_a_partitioner_is_a_callable(shell, with_stub):
    asked = []

    def choose(topic: str, key: bytes | None, count: int) -> int | None:
        asked.append((topic, key, count))
        return None if key == b"java" else 2

    async def scenario(stub):
        stub.add_topic("t", 4)
        writer = shell.writer(stub.bootstrap, partitioner=choose)
        await writer.write([b"a"], key=b"mine")
        await writer.write([b"b"], key=b"java")
        await writer.write([b"c"])
        await writer.write([b"d"], partition=3)
        await writer.flush()
        await writer.close()
        found = {value: p for p in range(4) for value in values_in(stub, p)}
        assert found == {b"a": 2, b"b": partition_for_key(b"java", 4), b"c": 2, b"d": 3}
        assert asked[:3] == [("t", b"mine", 4), ("t", b"java", 4), ("t", None, 4)]
        wrong = shell.writer(stub.bootstrap, partitioner=lambda topic, key, count: count)
        with pytest.raises(UnknownTopicError, match=r"partition 4.*partitions 0 to 3"):
            await wrong.write([b"x"])
        await wrong.close()

    with_stub(scenario)


async def second_node(stub) -> StubBroker:
    other = StubBroker(2)
    other.join(stub)
    await other.start()
    return other


@pytest.mark.parametrize("hints", [False, True])
def test_records_follow_the_leader(shell, with_stub, hints):
    async def scenario(stub):
        stub.add_topic("t")
        stub.gives_hints = hints
        other = await second_node(stub)
        writer = shell.writer(stub.bootstrap, batch_bytes=300)
        await writer.write(VALUES[:50])
        await writer.flush()
        stub.move_leader("t", 0, 2)
        metadata_requests = len(stub.asked("Metadata")) + len(other.asked("Metadata"))
        await writer.write(VALUES[50:])
        await writer.flush()
        await writer.close()
        assert values_in(stub) == VALUES
        assert other.asked("Produce")
        refreshed = len(stub.asked("Metadata")) + len(other.asked("Metadata")) > metadata_requests
        assert refreshed == (not hints)

    with_stub(scenario)


def test_records_go_to_the_next_leader_after_a_crash(shell, with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        other = await second_node(stub)
        writer = shell.writer(stub.bootstrap, batch_bytes=300)
        await writer.write(VALUES[:50])
        await writer.flush()
        await stub.crash()
        stub.move_leader("t", 0, 2)
        await writer.write(VALUES[50:])
        await writer.flush()
        await writer.close()
        assert values_in(other) == VALUES

    with_stub(scenario)
