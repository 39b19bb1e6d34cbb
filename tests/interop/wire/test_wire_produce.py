"""Produce, request by request: idempotence, acknowledgements, limits and every refusal's error code."""

from __future__ import annotations

import struct
import time
import uuid

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.build import build_batch
from tests.support.interop.wire import Wire, batch_of

SEQUENCE_MAX = 2**31 - 1


def numbered(producer: tuple[int, int], sequence: int, *values: bytes) -> bytes:
    return batch_of(*values, producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence)


# -- idempotent producers


def test_a_batch_sent_again_gets_its_first_offset_and_is_stored_once(wire, topic):
    producer = wire.init_producer()
    wire.produce(topic, batch_of(b"before"))
    batch = numbered(producer, 0, b"a", b"b")
    assert wire.produce(topic, batch).base_offset == 1
    wire.produce(topic, batch_of(b"between"))
    again = wire.produce(topic, batch)
    assert (again.error_code, again.base_offset) == (0, 1)
    assert [record.value for record in wire.records(topic)] == [b"before", b"a", b"b", b"between"]


def test_the_last_five_batches_are_remembered(wire, topic):
    producer = wire.init_producer()
    batches = [numbered(producer, n, b"%d" % n) for n in range(7)]
    assert [wire.produce(topic, batch).base_offset for batch in batches] == list(range(7))
    assert [wire.produce(topic, batch).base_offset for batch in batches[2:]] == [2, 3, 4, 5, 6]
    for forgotten in batches[:2]:
        answer = wire.produce(topic, forgotten)
        assert answer.error_code in (
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        )
    assert len(wire.records(topic)) == 7


@pytest.mark.parametrize("sequence", [2, 5, 0])
def test_a_gap_or_a_step_back_in_the_sequence_is_refused(wire, topic, sequence):
    producer = wire.init_producer()
    assert wire.produce(topic, numbered(producer, 0, b"0")).error_code == 0
    answer = wire.produce(topic, numbered(producer, sequence, b"x", b"y"))
    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert answer.base_offset == -1
    assert len(wire.records(topic)) == 1
    assert wire.produce(topic, numbered(producer, 1, b"1")).base_offset == 1


def test_sequences_wrap_around(wire, topic):
    producer = wire.init_producer()
    first = numbered(producer, SEQUENCE_MAX - 1, b"a", b"b", b"c")  # the last sequence is 0
    assert wire.produce(topic, first).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER  # of a new topic
    assert wire.produce(topic, numbered(wire.init_producer(), 0, b"somebody else's")).base_offset == 0
    assert wire.produce(topic, first).base_offset == 1  # no state yet: any first sequence is accepted
    assert wire.produce(topic, numbered(producer, 1, b"d")).base_offset == 4
    assert wire.produce(topic, first).base_offset == 1


def test_an_older_epoch_is_fenced_and_a_newer_one_starts_at_zero(wire, topic):
    producer_id, _ = wire.init_producer()
    assert wire.produce(topic, numbered((producer_id, 3), 0, b"a")).error_code == 0
    old = wire.produce(topic, numbered((producer_id, 2), 0, b"b"))
    assert old.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    midway = wire.produce(topic, numbered((producer_id, 4), 1, b"c"))
    assert midway.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert wire.produce(topic, numbered((producer_id, 4), 0, b"d")).base_offset == 1


def test_sequences_are_kept_per_partition(wire, new_topic):
    topic = new_topic(partitions=2)
    producer = wire.init_producer()
    assert wire.produce(topic, numbered(producer, 0, b"a")).base_offset == 0
    assert wire.produce(topic, numbered(producer, 0, b"b"), partition=1).base_offset == 0
    assert wire.produce(topic, numbered(producer, 1, b"c"), partition=1).base_offset == 1
    assert wire.produce(topic, numbered(producer, 1, b"d")).base_offset == 1


def test_five_batches_in_flight_are_all_taken_in_order(wire, topic):
    producer = wire.init_producer()
    sent = [wire.send_produce(topic, numbered(producer, n, b"%d" % n)) for n in range(5)]
    answers = [wire.receive(each).responses[0].partition_responses[0] for each in sent]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, n) for n in range(5)]


def test_producer_ids_are_unique(wire, servers):
    with Wire(servers) as other:
        ids = [connection.init_producer()[0] for _ in range(20) for connection in (wire, other)]
    assert len(set(ids)) == 40


# -- acknowledgements


def test_acks_0_is_not_answered_and_stored(wire, topic):
    wire.send_produce(topic, batch_of(b"silent"), acks=0)
    loud = wire.produce(topic, batch_of(b"loud"), acks=1)  # the next response belongs to this request
    assert loud.base_offset == 1
    assert [record.value for record in wire.records(topic)] == [b"silent", b"loud"]


def test_an_error_with_acks_0_closes_the_connection(servers, wire, topic):
    with Wire(servers) as doomed:
        doomed.send_produce("no-such-" + uuid.uuid4().hex, batch_of(b"x"), acks=0)
        assert doomed.is_closed_by_broker()
    assert wire.produce(topic, batch_of(b"others live on")).error_code == 0


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_refused(wire, topic, acks):
    assert wire.produce(topic, batch_of(b"x"), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert wire.records(topic) == []


# -- errors


def test_unknown_topics_partitions_and_ids(wire, topic):
    unknown = "unknown-" + uuid.uuid4().hex
    assert wire.produce(unknown, batch_of(b"x")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert wire.produce(topic, batch_of(b"x"), partition=9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    data = TopicProduceData(
        topic_id=uuid.uuid4().bytes, partition_data=[PartitionProduceData(index=0, records=batch_of(b"x"))]
    )
    answer = wire.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]), 13)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert answer.responses[0].topic_id == data.topic_id


def test_one_bad_partition_does_not_affect_the_others(wire, new_topic):
    topic = new_topic(partitions=2)
    spoilt = bytearray(batch_of(b"bad"))
    spoilt[-1] ^= 1
    parts = [
        PartitionProduceData(index=0, records=bytes(spoilt)),
        PartitionProduceData(index=1, records=batch_of(b"good")),
        PartitionProduceData(index=2, records=batch_of(b"nowhere")),
    ]
    request = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=parts)]
    )
    (answered,) = wire.ask(request, 9).responses
    assert [part.error_code for part in answered.partition_responses] == [
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert [record.value for record in wire.records(topic, partition=1)] == [b"good"]
    assert wire.records(topic) == []


def magic(number: int) -> bytes:
    batch = bytearray(batch_of(b"x"))
    batch[16] = number
    return bytes(batch)


def count(number: int) -> bytes:
    """Return a batch with a wrong record count and a valid checksum."""
    from ottla.records.checksum import crc32c

    batch = bytearray(batch_of(b"x", b"y"))
    struct.pack_into(">i", batch, 57, number)
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return bytes(batch)


@pytest.mark.parametrize(
    ("batch", "allowed"),
    [
        (b"", {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE}),
        (
            b"\0" * 61,
            {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT},
        ),
        (batch_of(b"x")[:-1], {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}),
        (batch_of(b"x") + b"tail", {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}),
        (magic(0), {ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.INVALID_RECORD}),
        (magic(1), {ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.INVALID_RECORD}),
        (count(3), {ErrorCode.INVALID_RECORD}),
        (count(1), {ErrorCode.INVALID_RECORD}),
        (count(-1), {ErrorCode.INVALID_RECORD}),
        (batch_of(b"x", control=True), {ErrorCode.INVALID_RECORD}),
        (batch_of(b"x") + batch_of(b"y"), {ErrorCode.INVALID_RECORD}),
    ],
    ids=[
        "empty",
        "zeros",
        "short",
        "tail",
        "magic0",
        "magic1",
        "count3",
        "count1",
        "count-1",
        "control",
        "two",
    ],
)
def test_bad_batches_are_refused_and_leave_no_trace(wire, topic, batch, allowed):
    answer = wire.produce(topic, batch)
    assert answer.error_code in allowed, ErrorCode(answer.error_code)
    assert wire.produce(topic, batch_of(b"good")).base_offset == 0


def test_records_without_keys_are_refused_one_by_one_where_keys_are_needed(wire, new_topic):
    topic = new_topic(**{"cleanup.policy": "compact"})
    now_ms = int(time.time() * 1000)
    rows = [
        (now_ms, b"k", b"v", ()),
        (now_ms, None, b"v", ()),
        (now_ms, b"k", None, ()),
        (now_ms, None, None, ()),
    ]
    for codec in (0, 1):
        answer = wire.produce(topic, bytes(build_batch(rows, codec=codec)))
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert [each.batch_index for each in answer.record_errors] == [1, 3]
        assert answer.error_message
    assert wire.produce(topic, bytes(build_batch(rows[:1]))).base_offset == 0


def test_timestamps_outside_the_allowed_window_are_refused(wire, new_topic):
    topic = new_topic(**{"message.timestamp.before.max.ms": 60_000, "message.timestamp.after.max.ms": 60_000})
    now_ms = int(time.time() * 1000)
    for timestamp_ms in (now_ms - 120_000, now_ms + 120_000):
        answer = wire.produce(topic, batch_of(b"x", timestamp_ms=timestamp_ms))
        assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert wire.produce(topic, batch_of(b"x", timestamp_ms=now_ms - 30_000)).error_code == 0


def test_a_batch_of_exactly_max_message_bytes_fits_and_one_byte_more_does_not(wire, new_topic):
    topic = new_topic(**{"max.message.bytes": 100_000})
    frame = len(batch_of(b"x" * 50_000)) - 50_000
    assert wire.produce(topic, batch_of(b"x" * (100_000 - frame))).error_code == 0
    answer = wire.produce(topic, batch_of(b"x" * (100_000 - frame + 1)))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_larger_than_a_segment_is_refused(wire, new_topic):
    topic = new_topic(**{"segment.bytes": 1_048_576, "max.message.bytes": 5_000_000})
    answer = wire.produce(topic, batch_of(b"x" * 2_000_000))
    assert answer.error_code == ErrorCode.RECORD_LIST_TOO_LARGE


def test_zstd_needs_a_version_that_knows_it(wire, topic):
    batch = batch_of(b"x" * 100, codec=4)
    assert wire.produce(topic, batch, version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert wire.produce(topic, batch, version=7).error_code == 0


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_of_produce_stores_and_answers(wire, topic, version):
    answer = wire.produce(topic, batch_of(b"x"), version=version)
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, 0, -1)
    if version >= 5:
        assert answer.log_start_offset == 0
