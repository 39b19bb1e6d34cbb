"""Producer state: sequences, fencing, transactions, snapshots, last stable offset."""

from __future__ import annotations

import random

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.records.batch import SEQUENCE_MAX, BatchHeader, RecordsError, iter_headers, read_header
from ottla.records.build import build_batch
from ottla.records.checksum import crc32c
from ottla.records.control import end_txn_marker
from ottla.storage.index.txn_index import AbortedTransaction
from ottla.storage.log import PartitionLog, open_log
from ottla.storage.log_config import LogConfig
from ottla.storage.producers.markers import read_marker
from ottla.storage.producers.snapshot_format import CorruptSnapshot, decode_snapshot, encode_snapshot
from ottla.storage.producers.state import ProducerState
from ottla.testing.files import FaultyFiles


def header(sequence: int, count: int = 1, *, epoch: int = 0, pid: int = 7, txn: bool = False) -> BatchHeader:
    records = [(1000 + i, None, b"v", ()) for i in range(count)]
    return read_header(
        build_batch(records, producer_id=pid, producer_epoch=epoch, base_sequence=sequence, transactional=txn)
    )


def refused(state: ProducerState, batch: BatchHeader) -> ErrorCode:
    with pytest.raises(RecordsError) as caught:
        state.check(batch)
    return caught.value.code


def appended(*batches: BatchHeader, offset: int = 0) -> ProducerState:
    state = ProducerState(offset)
    for batch in batches:
        assert state.check(batch) is None
        state.update(batch, offset)
        offset += batch.last_offset_delta + 1
    return state


def test_sequences_must_be_consecutive() -> None:
    state = appended(header(0, 3), header(3, 2))
    assert state.check(header(5)) is None
    assert refused(state, header(6)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(state, header(4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_start_at_any_sequence() -> None:
    assert appended(header(42), offset=1).check(header(43)) is None


def test_in_an_empty_log_a_producer_starts_at_zero() -> None:
    """Otherwise the second of two batches in flight could be accepted after the first was rejected."""
    state = ProducerState()
    assert refused(state, header(17)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(header(0)) is None
    assert state.check(header(-1)) is None


def test_sequences_wrap_to_zero() -> None:
    state = appended(header(SEQUENCE_MAX - 1, 2), offset=1)
    assert state.check(header(0)) is None
    assert refused(state, header(1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    inside = appended(header(SEQUENCE_MAX, 3), offset=1)
    assert inside.entries[7].last_sequence == 1
    assert inside.check(header(2)) is None


def test_the_last_five_batches_are_recognised() -> None:
    state = appended(*(header(i * 2, 2) for i in range(7)))
    for number in range(2, 7):
        duplicate = state.check(header(number * 2, 2))
        assert duplicate is not None
        assert (duplicate.first_offset, duplicate.last_offset) == (number * 2, number * 2 + 1)
    assert refused(state, header(2, 2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(state, header(12, 1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_fences_the_old_and_starts_at_zero() -> None:
    state = appended(header(0, epoch=3))
    assert refused(state, header(1, epoch=2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(state, header(1, epoch=4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    state.update(header(0, epoch=4), 1)
    assert state.check(header(1, epoch=4)) is None
    assert refused(state, header(1, epoch=3)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_coordinators_have_no_sequence() -> None:
    state = appended(header(-1, epoch=2), header(-1, epoch=2))
    assert state.check(header(-1, epoch=3)) is None
    assert refused(state, header(-1, epoch=1)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_non_transactional_batches_are_rejected_in_a_transaction() -> None:
    state = appended(header(0, txn=True))
    assert refused(state, header(1)) == ErrorCode.INVALID_TXN_STATE
    assert state.check(header(1, txn=True)) is None


def test_markers_of_fenced_producers_and_coordinators() -> None:
    state = appended(header(0, epoch=2, txn=True))
    state.check_marker(7, 2, 5)
    assert state.end_transaction(header(-1, epoch=2), 1, 5, aborted=False) is not None
    with pytest.raises(RecordsError) as caught:
        state.check_marker(7, 1, 5)
    assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(RecordsError) as caught:
        state.check_marker(7, 2, 4)
    assert caught.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    state.check_marker(99, 0, 0)


def test_a_marker_with_a_higher_epoch_resets_the_sequence() -> None:
    state = appended(header(0, 3, epoch=2, txn=True))
    state.end_transaction(header(-1, epoch=3), 3, 1, aborted=True)
    assert state.check(header(0, epoch=3, txn=True)) is None
    assert refused(state, header(3, epoch=3, txn=True)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_last_stable_offset() -> None:
    state = ProducerState()
    assert state.last_stable_offset(50) == 50
    state.update(header(0, 10, pid=1, txn=True), 0)
    state.update(header(0, 10, pid=2, txn=True), 10)
    assert state.last_stable_offset(20) == 0
    done = state.end_transaction(header(-1, pid=1), 20, 0, aborted=True)
    assert done is not None
    assert state.aborted_entry(done) == AbortedTransaction(1, 0, 20, 10)
    assert state.last_stable_offset(20) == 0, "the marker is not committed yet"
    assert state.last_stable_offset(21) == 10
    done = state.end_transaction(header(-1, pid=2), 21, 0, aborted=True)
    assert done is not None
    assert state.aborted_entry(done) == AbortedTransaction(2, 10, 21, 22)
    assert state.last_stable_offset(22) == 22
    assert state.end_transaction(header(-1, pid=2), 22, 0, aborted=True) is None


def test_producers_with_open_transactions_do_not_expire() -> None:
    state = ProducerState()
    state.update(header(0, pid=1), 0)
    state.update(header(0, pid=2, txn=True), 1)
    assert state.expire(1000 + 99, 100) == 0
    assert state.expire(1000 + 100, 100) == 1
    assert list(state.entries) == [2]


def test_snapshot_bytes() -> None:
    state = ProducerState()
    state.update(header(5, 3, epoch=2, pid=0x0102030405, txn=True), 100)
    body = bytes.fromhex(
        "00000001"
        "0000000102030405 0002 00000007 0000000000000066 00000002 00000000000003ea ffffffff 0000000000000064"
    )
    expected = b"\0\1" + crc32c(body).to_bytes(4, "big") + body
    assert encode_snapshot(state.entries.values()) == expected
    assert len(expected) == 10 + 46


def test_snapshot_round_trip() -> None:
    state = appended(header(0, 3, pid=1), header(9, 1, pid=2, txn=True), header(3, 2, pid=1))
    state.end_transaction(header(-1, pid=3, epoch=4), 6, 8, aborted=True)
    again = ProducerState()
    again.load(decode_snapshot(encode_snapshot(state.entries.values())), 7)
    assert again.map_end_offset == 7
    assert again.check(header(5, pid=1)) is None
    assert again.check(header(3, 2, pid=1)) == state.check(header(3, 2, pid=1))
    assert refused(again, header(7, pid=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert again.last_stable_offset(7) == 3
    assert [entry.producer_id for entry in again.ongoing()] == [2]
    with pytest.raises(RecordsError):
        again.check_marker(3, 4, 7)


def test_every_damaged_byte_of_a_snapshot_is_detected() -> None:
    data = encode_snapshot(appended(header(0, 3)).entries.values())
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x40
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(bytes(damaged))
    for length in range(len(data)):
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(data[:length])


def _log_of_producers(files: FaultyFiles, count: int) -> PartitionLog:
    log = open_log(files, "/data/t-0", LogConfig({"segment.bytes": 1 << 20}), now_ms=1000)
    for sequence in range(count):
        data = build_batch([(1000, None, b"v", ())], producer_id=9, producer_epoch=0, base_sequence=sequence)
        log.append_internal(data, 0, 1000)
    return log


def _described(state: ProducerState) -> list[object]:
    return [
        (entry.producer_id, entry.producer_epoch, entry.batches[-1], entry.current_txn_first_offset)
        for entry in state.entries.values()
    ]


def test_a_truncation_that_touches_no_producer_keeps_the_state() -> None:
    files = FaultyFiles()
    files.mkdir("/data")
    log = _log_of_producers(files, 50)
    for _ in range(10):
        log.append_internal(build_batch([(1000, None, b"v", ())]), 0, 1000)
    state = log.producer_state
    log.truncate_to(55)
    assert log.producers.state is state
    assert state.map_end_offset == 55
    log.truncate_to(40)
    # It is rebuilt by the truncation, not by the next append.
    rebuilt = log.producers.state
    assert rebuilt is not None and rebuilt is not state
    assert rebuilt.entries[9].last_sequence == 39


def test_the_state_after_a_truncation_is_that_of_a_full_replay() -> None:
    """Random producers, transactions and epochs: the replay that skips batches finds the same state."""
    rng = random.Random(7)
    files = FaultyFiles()
    files.mkdir("/data")
    log = open_log(files, "/data/t-0", LogConfig({"segment.bytes": 4000}), now_ms=1000)
    epochs: dict[int, int] = {}
    sequences: dict[int, int] = {}
    open_transactions: set[int] = set()
    for _ in range(400):
        producer_id = rng.randrange(4)
        epoch = epochs.setdefault(producer_id, 0)
        transactional = producer_id % 2 == 1
        if producer_id in open_transactions and rng.random() < 0.2:
            log.append_internal(
                end_txn_marker(
                    commit=rng.random() < 0.5,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    coordinator_epoch=1,
                    timestamp_ms=1000,
                ),
                0,
                1000,
            )
            open_transactions.discard(producer_id)
            continue
        if not transactional and rng.random() < 0.05:
            epochs[producer_id] = epoch = epoch + 1
            sequences[producer_id] = 0
        sequence = sequences.get(producer_id, 0)
        data = build_batch(
            [(1000, None, b"v", ())],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        log.append_internal(data, 0, 1000)
        sequences[producer_id] = sequence + 1
        if transactional:
            open_transactions.add(producer_id)
    for offset in range(399, 0, -7):
        log.truncate_to(offset)
        expected = ProducerState()
        for segment in log.segments:
            update_from(expected, segment.log.read(0, segment.size))
        state = log.producers.state
        assert state is not None
        assert sorted(map(str, _described(state))) == sorted(map(str, _described(expected)))
        assert state.last_stable_offset(offset) == expected.last_stable_offset(offset)


def update_from(state: ProducerState, data: bytes) -> None:
    for position, header in iter_headers(data):
        if not header.is_control:
            state.update(header, header.base_offset)
            continue
        marker = read_marker(data, position, header)
        assert marker is not None
        state.end_transaction(header, header.base_offset, marker.coordinator_epoch, aborted=marker.aborted)
