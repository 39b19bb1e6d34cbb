"""Fetch, request by request: sessions, long polls, limits, epochs and every refusal's error code."""

from __future__ import annotations

import os
import threading
import time
import uuid

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_request import FetchPartition
from tests.support.interop.wire import Wire, batch_of, fetch_request, records_of

NO_PARTITIONS: list[FetchPartition] = []


def partitions_from(offsets: dict[int, int], max_bytes: int = 1_000_000) -> list[FetchPartition]:
    return [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
        for index, offset in offsets.items()
    ]


def answered_partitions(answer) -> dict[int, list[bytes]]:
    return {
        data.partition_index: [record.value for record in records_of(data.records)]
        for topic in answer.responses
        for data in topic.partitions
    }


# -- sizes


@pytest.mark.parametrize("size", [1, 100, 60_000, 65_536 - 70, 65_536, 200_000, 1_000_000])
def test_records_of_any_size(wire, topic, size):
    value = os.urandom(size)
    wire.produce(topic, batch_of(value))
    wire.produce(topic, batch_of(b"next"))
    assert [record.value for record in wire.records(topic)] == [value, b"next"]


def test_many_megabytes_in_one_response_and_requests_after_it(wire, topic):
    values = [os.urandom(900_000) for _ in range(12)]
    for value in values:
        wire.produce(topic, batch_of(value))
    big = wire.send(fetch_request(topic, partition_max_bytes=50_000_000), 12)
    small = wire.send(fetch_request(topic, offset=11, partition_max_bytes=1), 12)
    data = wire.receive(big).responses[0].partitions[0]
    assert [record.value for record in records_of(data.records)] == values
    data = wire.receive(small).responses[0].partitions[0]
    assert [record.value for record in records_of(data.records)] == values[11:]


def test_slow_readers_get_all_data(servers, wire, topic):
    values = [os.urandom(1_000_000) for _ in range(8)]
    for value in values:
        wire.produce(topic, batch_of(value))
    with Wire(servers) as slow:
        sent = [slow.send(fetch_request(topic, partition_max_bytes=50_000_000), 12) for _ in range(5)]
        assert wire.produce(topic, batch_of(b"nobody waits for the slow one")).error_code == 0
        time.sleep(0.2)
        for each in sent:
            data = slow.receive(each).responses[0].partitions[0]
            assert [record.value for record in records_of(data.records)][:8] == values


def test_the_first_batch_is_complete_whatever_the_limits(wire, topic):
    wire.produce(topic, batch_of(b"x" * 5000))
    wire.produce(topic, batch_of(b"y" * 5000))
    for limits in ({"max_bytes": 1}, {"partition_max_bytes": 1}, {"max_bytes": 0, "partition_max_bytes": 0}):
        found = records_of(wire.fetch(topic, **limits).records)
        assert [record.value[:1] for record in found] == [b"x"], limits


def test_max_bytes_is_shared_by_the_partitions(wire, new_topic):
    topic = new_topic(partitions=3)
    for partition in range(3):
        for _ in range(4):
            wire.produce(topic, batch_of(b"x" * 1000), partition=partition)
    request = fetch_request(topic, max_bytes=2500, partitions=partitions_from(dict.fromkeys(range(3), 0)))
    found = answered_partitions(wire.ask(request, 12))
    assert set(found) == {0, 1, 2}
    assert len(found[0]) == 2
    assert sum(map(len, found.values())) == 2


def test_an_offset_inside_a_batch_finds_that_batch(wire, topic):
    wire.produce(topic, batch_of(b"a"))
    wire.produce(topic, batch_of(*(b"%d" % n for n in range(10))))
    found = records_of(wire.fetch(topic, offset=5).records)
    assert found[0].offset == 1
    assert found[-1].offset == 10


# -- offsets and names


def test_offsets_out_of_range(wire, topic):
    wire.produce(topic, batch_of(b"a", b"b"))
    for offset in (3, 100, -1):
        data = wire.fetch(topic, offset=offset, max_wait_ms=5000)
        assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    at_end = wire.fetch(topic, offset=2)
    assert (at_end.error_code, bytes(at_end.records or b"")) == (0, b"")
    assert (at_end.high_watermark, at_end.log_start_offset) == (2, 0)


def test_unknown_topics_partitions_and_ids_are_reported_at_once(wire, topic):
    began = time.monotonic()
    unknown = wire.fetch("unknown-" + uuid.uuid4().hex, max_wait_ms=5000)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    data = wire.fetch(topic, partition=7, max_wait_ms=5000)
    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = wire.ask(fetch_request(uuid.uuid4().bytes, max_wait_ms=5000))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert time.monotonic() - began < 4


@pytest.mark.parametrize("version", range(4, 18))
def test_every_version_of_fetch_reads(wire, topic, version):
    wire.produce(topic, batch_of(b"x", b"y"))
    name = wire.topic_id(topic) if version >= 13 else topic
    answer = wire.ask(fetch_request(name), version)
    assert answered_partitions(answer) == {0: [b"x", b"y"]}
    assert answer.responses[0].partitions[0].high_watermark == 2


def test_leader_epochs_are_checked(wire, topic):
    wire.produce(topic, batch_of(b"x"))
    epoch = wire.list_offsets(topic, -1).leader_epoch
    assert wire.fetch(topic, current_leader_epoch=epoch).error_code == 0
    ahead = wire.fetch(topic, current_leader_epoch=epoch + 1)
    assert ahead.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_read_committed_sees_everything_where_there_are_no_transactions(wire, topic):
    producer_id, producer_epoch = wire.init_producer()
    wire.produce(topic, batch_of(b"plain"))
    batch = batch_of(b"idempotent", producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=0)
    wire.produce(topic, batch)
    data = wire.fetch(topic, isolation_level=1)
    assert [record.value for record in records_of(data.records)] == [b"plain", b"idempotent"]
    assert (data.last_stable_offset, data.high_watermark) == (2, 2)
    assert data.aborted_transactions == []
    assert wire.fetch(topic).aborted_transactions is None


# -- long polls


def test_a_long_poll_ends_when_a_record_arrives(servers, wire, topic):
    with Wire(servers) as reader:
        sent = reader.send(fetch_request(topic, max_wait_ms=15_000), 12)
        time.sleep(0.1)
        began = time.monotonic()
        wire.produce(topic, batch_of(b"wake up"))
        assert answered_partitions(reader.receive(sent)) == {0: [b"wake up"]}
        assert time.monotonic() - began < 5


def test_a_long_poll_waits_for_min_bytes(servers, wire, topic):
    with Wire(servers) as reader:
        sent = reader.send(fetch_request(topic, max_wait_ms=15_000, min_bytes=3000), 12)
        for _ in range(3):
            wire.produce(topic, batch_of(b"x" * 1000))
            time.sleep(0.02)
        assert len(answered_partitions(reader.receive(sent))[0]) == 3


def test_a_long_poll_ends_with_what_there_is_when_time_is_up(wire, topic):
    wire.produce(topic, batch_of(b"a little"))
    began = time.monotonic()
    data = wire.fetch(topic, max_wait_ms=300, min_bytes=1_000_000)
    waited = time.monotonic() - began
    assert [record.value for record in records_of(data.records)] == [b"a little"]
    assert 0.28 <= waited < 5


def test_a_long_poll_ends_when_the_topic_is_deleted(servers, wire, topic):
    with Wire(servers) as reader:
        sent = reader.send(fetch_request(topic, max_wait_ms=15_000), 12)
        time.sleep(0.1)
        wire.delete_topic(topic)
        began = time.monotonic()
        data = reader.receive(sent).responses[0].partitions[0]
        assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert time.monotonic() - began < 5


def test_responses_keep_the_order_of_requests_after_a_long_poll(wire, new_topic):
    quiet, busy = new_topic(), new_topic()
    polls = wire.send(fetch_request(quiet, max_wait_ms=400), 12)
    produced = wire.send_produce(busy, batch_of(b"x"))
    assert wire.receive(polls).responses[0].topic == quiet
    assert wire.receive(produced).responses[0].partition_responses[0].base_offset == 0


def test_many_readers_of_one_partition_are_all_woken(servers, wire, topic):
    readers = [Wire(servers) for _ in range(20)]
    try:
        sent = [reader.send(fetch_request(topic, max_wait_ms=15_000), 12) for reader in readers]
        time.sleep(0.2)
        wire.produce(topic, batch_of(b"all"))
        for reader, each in zip(readers, sent, strict=True):
            assert answered_partitions(reader.receive(each)) == {0: [b"all"]}
    finally:
        for reader in readers:
            reader.close()


# -- sessions


def open_session(wire: Wire, topic_id: bytes, partitions: int) -> int:
    wanted = partitions_from(dict.fromkeys(range(partitions), 0))
    answer = wire.ask(fetch_request(topic_id, session=(0, 0), partitions=wanted))
    assert answer.session_id > 0
    assert set(answered_partitions(answer)) == set(range(partitions))
    return answer.session_id


def test_a_session_returns_only_changed_partitions(wire, new_topic):
    topic = new_topic(partitions=100)
    topic_id = wire.topic_id(topic)
    session = open_session(wire, topic_id, 100)
    nothing = wire.ask(fetch_request(None, session=(session, 1), partitions=NO_PARTITIONS))
    assert (nothing.error_code, nothing.session_id, nothing.responses) == (0, session, [])
    wire.produce(topic, batch_of(b"news"), partition=42)
    news = wire.ask(fetch_request(None, session=(session, 2), partitions=NO_PARTITIONS))
    assert answered_partitions(news) == {42: [b"news"]}
    # Returned again until the reader advances.
    again = wire.ask(fetch_request(None, session=(session, 3), partitions=NO_PARTITIONS))
    assert answered_partitions(again) == {42: [b"news"]}
    moved = wire.ask(fetch_request(topic_id, session=(session, 4), partitions=partitions_from({42: 1})))
    assert answered_partitions(moved) == {}


def test_a_session_long_poll_wakes_for_a_partition_that_the_request_does_not_name(servers, wire, new_topic):
    topic = new_topic(partitions=10)
    with Wire(servers) as reader:
        session = open_session(reader, wire.topic_id(topic), 10)
        request = fetch_request(None, session=(session, 1), partitions=NO_PARTITIONS, max_wait_ms=15_000)
        sent = reader.send(request)
        timer = threading.Timer(0.1, lambda: wire.produce(topic, batch_of(b"here"), partition=7))
        timer.start()
        began = time.monotonic()
        assert answered_partitions(reader.receive(sent)) == {7: [b"here"]}
        assert time.monotonic() - began < 5
        timer.join()


def test_partitions_join_and_leave_a_session(wire, new_topic):
    topic = new_topic(partitions=3)
    topic_id = wire.topic_id(topic)
    session = open_session(wire, topic_id, 1)
    joined = wire.ask(fetch_request(topic_id, session=(session, 1), partitions=partitions_from({2: 0})))
    assert set(answered_partitions(joined)) == {2}
    left = wire.ask(fetch_request(topic_id, session=(session, 2), partitions=NO_PARTITIONS, forgotten=[0]))
    assert left.error_code == 0
    for partition in range(3):
        wire.produce(topic, batch_of(b"%d" % partition), partition=partition)
    news = wire.ask(fetch_request(None, session=(session, 3), partitions=NO_PARTITIONS))
    assert answered_partitions(news) == {2: [b"2"]}


def test_session_errors(wire, topic):
    topic_id = wire.topic_id(topic)
    session = open_session(wire, topic_id, 1)

    def code(session_id: int, epoch: int, version: int = 17) -> int:
        request = fetch_request(None, session=(session_id, epoch), partitions=NO_PARTITIONS)
        answer = wire.ask(request, version)
        assert answer.responses == []
        return answer.error_code

    assert code(session, 2) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert code(session + 1, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert code(session, 1, version=12) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert code(session, 1) == 0
    assert code(session, -1) == 0  # closes it
    assert code(session, 2) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_small_max_bytes_starves_no_partition_of_a_session(wire, new_topic):
    topic = new_topic(partitions=4)
    topic_id = wire.topic_id(topic)
    session = open_session(wire, topic_id, 4)
    for partition in range(4):
        wire.produce(topic, batch_of(b"%d" % partition), partition=partition)
    served = []
    for epoch in range(1, 5):
        request = fetch_request(None, session=(session, epoch), partitions=NO_PARTITIONS, max_bytes=1)
        found = answered_partitions(wire.ask(request))
        served += [partition for partition, values in found.items() if values]
    assert sorted(served) == [0, 1, 2, 3]


def test_a_deleted_topic_is_reported_in_its_sessions(wire, new_topic):
    topic = new_topic(partitions=2)
    session = open_session(wire, wire.topic_id(topic), 2)
    wire.delete_topic(topic)
    answer = wire.ask(fetch_request(None, session=(session, 1), partitions=NO_PARTITIONS))
    codes = {data.error_code for found in answer.responses for data in found.partitions}
    assert codes == {ErrorCode.UNKNOWN_TOPIC_ID}
