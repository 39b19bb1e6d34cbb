"""Topic configs that are changed while the topic is in use count from the next request on."""

from __future__ import annotations

import glob
import os
import time

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.records.batch import read_header
from ottla.records.compression import CODEC_BY_NAME
from tests.support.interop.wire import batch_of
from tests.support.waiting import wait_until

DAY_MS = 86_400_000


def now_ms() -> int:
    return int(time.time() * 1000)


def first_header(wire, topic: str, offset: int):
    return read_header(bytes(wire.fetch(topic, offset=offset).records))


def segments(cluster, topic: str) -> list[str]:
    return sorted(glob.glob(os.path.join(cluster.data_dir, f"{topic}-0", "*.log")))


def test_max_message_bytes(wire, topic):
    batch = batch_of(b"x" * 5000)
    assert wire.produce(topic, batch).error_code == 0
    wire.alter(topic, **{"max.message.bytes": 4000})
    assert wire.produce(topic, batch).error_code == ErrorCode.MESSAGE_TOO_LARGE
    wire.alter(topic, **{"max.message.bytes": None})
    assert wire.produce(topic, batch).base_offset == 1


def test_segment_bytes(ottla_cluster, wire, topic):
    for _ in range(3):
        wire.produce(topic, batch_of(b"x" * 600_000))
    assert len(segments(ottla_cluster, topic)) == 1
    wire.alter(topic, **{"segment.bytes": 1_048_576})
    for _ in range(3):
        wire.produce(topic, batch_of(b"y" * 600_000))
    assert len(segments(ottla_cluster, topic)) >= 3
    assert [len(record.value) for record in wire.records(topic)] == [600_000] * 6


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_compression_type(wire, topic, codec):
    sent_as = "gzip" if codec != "gzip" else "none"
    batch = batch_of(b"compress me " * 100, b"and me " * 50, codec=CODEC_BY_NAME[sent_as])
    wire.produce(topic, batch)
    assert first_header(wire, topic, 0).codec == CODEC_BY_NAME[sent_as]
    wire.alter(topic, **{"compression.type": codec})
    assert wire.produce(topic, batch).base_offset == 2
    expected = CODEC_BY_NAME["none" if codec == "uncompressed" else codec]
    assert first_header(wire, topic, 2).codec == expected
    values = [record.value for record in wire.records(topic)]
    assert values == [b"compress me " * 100, b"and me " * 50] * 2


@pytest.mark.parametrize("codec", range(5))
def test_log_append_time(wire, topic, codec):
    old = now_ms() - DAY_MS
    wire.produce(topic, batch_of(b"created", timestamp_ms=old, codec=codec))
    wire.alter(topic, **{"message.timestamp.type": "LogAppendTime"})
    before = now_ms()
    answer = wire.produce(topic, batch_of(b"appended", b"too", timestamp_ms=old, codec=codec))
    after = now_ms()
    assert before <= answer.log_append_time_ms <= after
    created, appended, too = wire.records(topic)
    assert created.timestamp == old
    assert appended.timestamp == too.timestamp == answer.log_append_time_ms
    header = first_header(wire, topic, 1)
    assert header.is_log_append_time
    assert header.codec == codec
    found = wire.list_offsets(topic, before)
    assert (found.offset, found.timestamp) == (1, answer.log_append_time_ms)


def test_timestamp_bounds(wire, topic):
    old = batch_of(b"old", timestamp_ms=now_ms() - DAY_MS)
    assert wire.produce(topic, old).error_code == 0
    wire.alter(topic, **{"message.timestamp.before.max.ms": 1000})
    assert wire.produce(topic, old).error_code == ErrorCode.INVALID_TIMESTAMP


def test_cleanup_policy(wire, topic):
    assert wire.produce(topic, batch_of(b"no key")).error_code == 0
    wire.alter(topic, **{"cleanup.policy": "compact,delete"})
    assert wire.produce(topic, batch_of(b"no key")).error_code == ErrorCode.INVALID_RECORD


def test_retention_ms(wire, topic):
    wire.produce(topic, batch_of(b"old", timestamp_ms=now_ms() - DAY_MS))
    wire.alter(topic, **{"retention.ms": 3_600_000})
    wait_until(lambda: wire.list_offsets(topic, -2).offset == 1)
    assert wire.fetch(topic, offset=0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert wire.produce(topic, batch_of(b"new")).base_offset == 1
    assert [record.value for record in wire.records(topic, 1)] == [b"new"]


def test_retention_bytes_and_the_delay_before_files_go(ottla_cluster, wire, new_topic):
    topic = new_topic(**{"segment.bytes": 1_048_576, "file.delete.delay.ms": 0})
    for _ in range(6):
        wire.produce(topic, batch_of(b"x" * 600_000))
    assert wire.list_offsets(topic, -2).offset == 0
    wire.alter(topic, **{"retention.bytes": 1_300_000})
    wait_until(lambda: wire.list_offsets(topic, -2).offset > 0)
    kept = len(wire.records(topic, wire.list_offsets(topic, -2).offset))
    assert 2 <= kept <= 4
    directory = os.path.join(ottla_cluster.data_dir, f"{topic}-0")
    wait_until(lambda: not glob.glob(os.path.join(directory, "*.deleted")))
    assert len(segments(ottla_cluster, topic)) == kept


def test_flush_messages_waits_for_the_disk_and_still_answers(wire, topic):
    assert wire.produce(topic, batch_of(b"0")).base_offset == 0
    wire.alter(topic, **{"flush.messages": 1})
    sent = [wire.send_produce(topic, batch_of(b"%d" % n)) for n in range(1, 20)]
    offsets = [wire.receive(each).responses[0].partition_responses[0].base_offset for each in sent]
    assert offsets == list(range(1, 20))
    wire.alter(topic, **{"flush.messages": 3})
    assert wire.produce(topic, batch_of(b"20")).base_offset == 20
    wire.alter(topic, **{"flush.messages": None, "flush.ms": 10})
    assert wire.produce(topic, batch_of(b"21")).base_offset == 21
    assert len(wire.records(topic)) == 22


def test_broker_wide_defaults_count_for_topics_that_set_nothing(wire, new_topic):
    plain, own = new_topic(), new_topic(**{"max.message.bytes": 9000})
    batch = batch_of(b"x" * 5000)
    wire.alter_brokers(**{"message.max.bytes": 4000})
    try:
        assert wire.produce(plain, batch).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert wire.produce(own, batch).error_code == 0
    finally:
        wire.alter_brokers(**{"message.max.bytes": None})
    assert wire.produce(plain, batch).error_code == 0
