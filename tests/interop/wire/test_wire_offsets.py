"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords, request by request."""

from __future__ import annotations

import time
import uuid

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.records.build import build_batch
from tests.support.interop.wire import batch_of

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = range(-1, -7, -1)
START_MS = int(time.time()) * 1000 - 3_600_000  # too recent for retention


def delete_before(wire, topic: str, offset: int, partition: int = 0):
    query = DeleteRecordsTopic(
        name=topic, partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)]
    )
    (answered,) = wire.ask(DeleteRecordsRequest(topics=[query], timeout_ms=5000)).topics
    return answered.partitions[0]


def epoch_end(wire, topic: str, epoch: int, *, current: int = -1, partition: int = 0, version: int = 4):
    query = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[query])]
    )
    (answered,) = wire.ask(request, version).topics
    return answered.partitions[0]


def at(wire, topic: str, timestamp: int, **how) -> tuple[int, int]:
    found = wire.list_offsets(topic, timestamp, **how)
    assert found.error_code == 0, ErrorCode(found.error_code)
    return found.offset, found.timestamp


# -- special offsets


def test_an_empty_partition(wire, topic):
    assert at(wire, topic, LATEST) == (0, -1)
    assert at(wire, topic, EARLIEST) == (0, -1)
    assert at(wire, topic, MAX_TIMESTAMP) == (-1, -1)
    assert at(wire, topic, EARLIEST_LOCAL) == (0, -1)
    assert at(wire, topic, LATEST_TIERED) == (-1, -1)
    assert at(wire, topic, START_MS) == (-1, -1)


def test_special_offsets_of_a_partition(wire, topic):
    for n, ms in enumerate((10, 50, 30)):
        wire.produce(topic, batch_of(b"%d" % n, timestamp_ms=START_MS + ms))
    delete_before(wire, topic, 1)
    assert at(wire, topic, LATEST) == (3, -1)
    assert at(wire, topic, LATEST, isolation_level=1) == (3, -1)
    assert at(wire, topic, EARLIEST) == (1, -1)
    assert at(wire, topic, EARLIEST_LOCAL) == (1, -1)
    assert at(wire, topic, MAX_TIMESTAMP) == (1, START_MS + 50)


def test_the_max_timestamp_is_found_inside_a_batch(wire, topic):
    rows = [(START_MS + ms, None, b"x", ()) for ms in (5, 90, 20)]
    for codec in (0, 4):
        wire.produce(topic, bytes(build_batch(rows, codec=codec)))
        rows[1] = (rows[1][0] + 1, None, b"x", ())
    assert at(wire, topic, MAX_TIMESTAMP) == (4, START_MS + 91)


@pytest.mark.parametrize(
    ("timestamp", "first_version"),
    [(LATEST, 1), (EARLIEST, 1), (MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9)],
)
def test_special_timestamps_are_refused_by_versions_that_do_not_know_them(
    wire, topic, timestamp, first_version
):
    wire.produce(topic, batch_of(b"x"))
    for version in range(1, 11):
        found = wire.list_offsets(topic, timestamp, version=version)
        known = version >= first_version
        assert found.error_code == (ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_VERSION), version


# -- by time


def test_offsets_by_time(wire, topic):
    for n in range(20):
        wire.produce(topic, batch_of(b"x", timestamp_ms=START_MS + n * 10))
    assert at(wire, topic, 0) == (0, START_MS)
    assert at(wire, topic, START_MS) == (0, START_MS)
    assert at(wire, topic, START_MS + 1) == (1, START_MS + 10)
    assert at(wire, topic, START_MS + 100) == (10, START_MS + 100)
    assert at(wire, topic, START_MS + 190) == (19, START_MS + 190)
    assert at(wire, topic, START_MS + 191) == (-1, -1)


@pytest.mark.parametrize("codec", range(5))
def test_offsets_by_time_inside_a_batch(wire, topic, codec):
    rows = [(START_MS + n * 10, None, b"x" * 100, ()) for n in range(50)]
    wire.produce(topic, bytes(build_batch(rows, codec=codec)))
    assert at(wire, topic, START_MS + 305) == (31, START_MS + 310)


def test_offsets_by_time_with_decreasing_timestamps(wire, topic):
    for ms in (50, 10, 70, 20, 90):
        wire.produce(topic, batch_of(b"x", timestamp_ms=START_MS + ms))
    assert at(wire, topic, START_MS + 15) == (0, START_MS + 50)
    assert at(wire, topic, START_MS + 60) == (2, START_MS + 70)
    assert at(wire, topic, START_MS + 80) == (4, START_MS + 90)


def test_offsets_by_time_over_many_segments(wire, new_topic):
    topic = new_topic(**{"segment.bytes": 1_048_576, "index.interval.bytes": 0})
    for n in range(30):
        rows = [(START_MS + n * 1000 + i, None, b"x" * 10_000, ()) for i in range(20)]
        wire.produce(topic, bytes(build_batch(rows)))
    for n in (0, 1, 7, 15, 29):
        assert at(wire, topic, START_MS + n * 1000 + 7) == (n * 20 + 7, START_MS + n * 1000 + 7)
        assert at(wire, topic, START_MS + n * 1000 - 500) == (n * 20, START_MS + n * 1000)
    delete_before(wire, topic, 215)
    assert at(wire, topic, 0) == (215, START_MS + 10_015)


def test_records_before_the_log_start_are_not_found_by_time(wire, topic):
    wire.produce(topic, batch_of(*(b"%d" % n for n in range(5)), timestamp_ms=START_MS))
    delete_before(wire, topic, 3)
    assert at(wire, topic, START_MS) == (3, START_MS)


# -- errors


def test_unknown_partitions_wrong_epochs_and_duplicates(wire, topic):
    unknown = wire.list_offsets("unknown-" + uuid.uuid4().hex, LATEST)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert wire.list_offsets(topic, LATEST, partition=3).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    epoch = wire.list_offsets(topic, LATEST).leader_epoch
    assert wire.list_offsets(topic, LATEST, current_leader_epoch=epoch).error_code == 0
    ahead = wire.list_offsets(topic, LATEST, current_leader_epoch=epoch + 1)
    assert ahead.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    twice = [ListOffsetsPartition(partition_index=0, timestamp=LATEST) for _ in range(2)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=twice)])
    answers = wire.ask(request, 7).topics[0].partitions
    assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_REQUEST] * 2


# -- leader epochs


def test_the_end_of_a_leader_epoch(wire, topic):
    wire.produce(topic, batch_of(b"a", b"b"))
    epoch = wire.list_offsets(topic, LATEST).leader_epoch
    for version in (2, 3, 4):
        found = epoch_end(wire, topic, epoch, version=version)
        assert (found.error_code, found.leader_epoch, found.end_offset) == (0, epoch, 2)
    future = epoch_end(wire, topic, epoch + 1)
    assert (future.error_code, future.leader_epoch, future.end_offset) == (0, -1, -1)
    assert epoch_end(wire, topic, epoch, current=epoch + 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert epoch_end(wire, topic, epoch, partition=5).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# -- deleting records


def test_delete_records_moves_the_start_for_every_reader(wire, topic):
    wire.produce(topic, batch_of(*(b"%d" % n for n in range(10))))
    deleted = delete_before(wire, topic, 4)
    assert (deleted.error_code, deleted.low_watermark) == (0, 4)
    assert wire.fetch(topic, offset=3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert [record.offset for record in wire.records(topic, 4)] == list(range(4, 10))
    backwards = delete_before(wire, topic, 2)
    assert (backwards.error_code, backwards.low_watermark) == (0, 4)
    everything = delete_before(wire, topic, -1)
    assert (everything.error_code, everything.low_watermark) == (0, 10)
    assert at(wire, topic, EARLIEST) == at(wire, topic, LATEST) == (10, -1)
    assert wire.produce(topic, batch_of(b"next")).base_offset == 10


def test_delete_records_rejects_unknown_partitions_and_offsets(wire, new_topic):
    topic = new_topic()
    wire.produce(topic, batch_of(b"x"))
    assert delete_before(wire, topic, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete_before(wire, topic, 0, partition=4).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    compacted = new_topic(**{"cleanup.policy": "compact"})
    assert delete_before(wire, compacted, -1).error_code == ErrorCode.POLICY_VIOLATION


def test_fetch_returns_the_new_start_after_delete_records(wire, topic):
    wire.produce(topic, batch_of(b"a", b"b"))
    delete_before(wire, topic, 1)
    assert wire.fetch(topic, offset=1).log_start_offset == 1
    answer = wire.produce(topic, batch_of(b"c", timestamp_ms=int(time.time() * 1000)))
    assert answer.log_start_offset == 1
