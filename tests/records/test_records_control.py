"""Control batches against independent readers and handwritten bytes."""

from __future__ import annotations

import pytest
from aiokafka.record.control_record import ControlRecord as AioControlRecord
from kafka.record.default_records import DefaultRecordBatch
from kio.schema.leader_change_message.v1.data import LeaderChangeMessage as KioLeaderChangeMessage
from kio.serial import entity_reader

from ottla.protocol.errors import DecodeError
from ottla.protocol.messages.kraft_version_record import KRaftVersionRecord
from ottla.protocol.messages.leader_change_message import LeaderChangeMessage
from ottla.protocol.messages.leader_change_message import Voter as LeaderVoter
from ottla.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from ottla.protocol.messages.voters_record import Endpoint, KRaftVersionFeature, Voter, VotersRecord
from ottla.records import control
from ottla.records.batch import CorruptBatch, crc_ok, read_header
from ottla.records.control import ControlRecord, parse_control_key, parse_control_record
from ottla.records.record import Record, iter_records


def records_of(buf: bytearray) -> list[Record]:
    header = read_header(buf)
    assert crc_ok(buf, 0, header)
    assert header.is_control
    return list(iter_records(buf, 0, header))


@pytest.mark.parametrize("commit", [True, False])
def test_end_txn_marker(commit):
    buf = control.end_txn_marker(
        77, 3, commit=commit, coordinator_epoch=9, timestamp_ms=1000, base_offset=50, leader_epoch=4
    )
    header = read_header(buf)
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, -1)
    assert (header.base_offset, header.leader_epoch, header.records_count) == (50, 4, 1)
    (record,) = records_of(buf)
    assert record.key == bytes([0, 0, 0, int(commit)])
    assert record.value == bytes([0, 0, 0, 0, 0, 9])
    parsed = parse_control_record(record)
    assert (parsed.offset, parsed.control_type) == (50, control.COMMIT if commit else control.ABORT)
    assert parsed.message.coordinator_epoch == 9

    theirs = DefaultRecordBatch(bytes(buf))
    assert theirs.validate_crc()
    assert theirs.is_control_batch
    (marker,) = list(theirs)
    assert (marker.commit, marker.abort) == (commit, not commit)
    assert AioControlRecord.parse(record.key) == AioControlRecord(0, int(commit))


def test_leader_change():
    voters = [LeaderVoter(voter_id=n, voter_directory_id=bytes([n]) * 16) for n in (1, 2)]
    message = LeaderChangeMessage(version=1, leader_id=2, voters=voters, granting_voters=voters[1:])
    buf = control.leader_change_batch(message, 1000, base_offset=8, leader_epoch=6)
    header = read_header(buf)
    assert not header.is_transactional
    assert (header.producer_id, header.leader_epoch, header.base_offset) == (-1, 6, 8)
    (record,) = records_of(buf)
    assert record.key == b"\0\0\0\2"
    theirs, read_bytes = entity_reader(KioLeaderChangeMessage)(record.value, 0)
    assert read_bytes == len(record.value)
    assert (theirs.version, theirs.leader_id) == (1, 2)
    assert [int(voter.voter_id) for voter in theirs.voters] == [1, 2]
    parsed = parse_control_record(record)
    assert parsed.control_type == control.LEADER_CHANGE
    assert parsed.message.leader_id == 2
    assert [voter.voter_directory_id for voter in parsed.message.granting_voters] == [b"\2" * 16]


def test_version_of_the_message_decides_its_encoding():
    message = LeaderChangeMessage(version=0, leader_id=2, voters=[LeaderVoter(voter_id=2)])
    (record,) = records_of(control.leader_change_batch(message, 0, leader_epoch=1))
    assert record.value == bytes([0, 0, 0, 0, 0, 2, 2, 0, 0, 0, 2, 0, 1, 0])
    assert parse_control_record(record).message.version == 0


def test_snapshot_ends():
    (record,) = records_of(control.snapshot_header_batch(123, 1000, leader_epoch=1))
    assert (record.key, record.value) == (b"\0\0\0\3", b"\0\0" + (123).to_bytes(8, "big") + b"\0")
    assert parse_control_record(record).message.last_contained_log_timestamp == 123
    (record,) = records_of(control.snapshot_footer_batch(1000, base_offset=9, leader_epoch=1))
    assert (record.key, record.value) == (b"\0\0\0\4", b"\0\0\0")
    assert parse_control_record(record).control_type == control.SNAPSHOT_FOOTER


def test_snapshot_of_a_dynamic_quorum():
    voter = Voter(
        voter_id=1,
        voter_directory_id=b"d" * 16,
        endpoints=[Endpoint(name="CONTROLLER", host="localhost", port=9093)],
        kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    )
    buf = control.snapshot_header_batch(
        5,
        1000,
        leader_epoch=1,
        kraft_version=KRaftVersionRecord(kraft_version=1),
        voters=VotersRecord(voters=[voter]),
    )
    parsed = [parse_control_record(record) for record in records_of(buf)]
    assert [record.control_type for record in parsed] == [3, 5, 6]
    assert isinstance(parsed[0].message, SnapshotHeaderRecord)
    assert parsed[1].message.kraft_version == 1
    assert parsed[2].message.voters[0].endpoints[0].port == 9093
    assert [record.offset for record in parsed] == [0, 1, 2]


def test_single_quorum_records():
    (record,) = records_of(control.kraft_version_batch(1, 1000, leader_epoch=2))
    assert (record.key, record.value) == (b"\0\0\0\5", b"\0\0\0\1\0")
    (record,) = records_of(control.voters_batch(VotersRecord(), 1000, leader_epoch=2))
    assert (record.key, record.value) == (b"\0\0\0\6", b"\0\0\1\0")


def test_unknown_types_are_skipped_and_longer_keys_read():
    assert parse_control_record(Record(4, 0, b"\0\0\0\x63", b"?")) == ControlRecord(4, 99, None)
    assert parse_control_key(b"\0\1\0\1more") == (1, 1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\0\0\0", b""),
        (b"\xff\xff\0\1", b""),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0"),
        (b"\0\0\0\1", b"\xff\xff\0\0\0\0"),
        (b"\0\0\0\1", b"\0\0\0"),
        (b"\0\0\0\2", b"\0\1\0"),
        (b"\0\0\0\3", None),
    ],
)
def test_invalid_control_records(key, value):
    with pytest.raises((CorruptBatch, DecodeError)):
        parse_control_record(Record(0, 0, key, value))
