"""After a restart a producer may retry any of its last five batches, not only the one in the snapshot."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.records.batch import RecordsError
from ottla.records.build import build_batch
from ottla.records.validate import AppendRules, check_produce
from ottla.storage.log import AppendResult, PartitionLog, open_log
from ottla.storage.log_config import LogConfig
from ottla.testing.files import FaultyFiles

NOW = 1_000_000
DIRECTORY = "/data/topic-0"


@pytest.fixture
def files() -> FaultyFiles:
    made = FaultyFiles()
    made.mkdir("/data")
    made.sync_dir("/")
    return made


def open_test_log(files: FaultyFiles, *, clean: bool) -> PartitionLog:
    return open_log(files, DIRECTORY, LogConfig(None), now_ms=NOW, clean=clean)


def produce(
    log: PartitionLog, producer_id: int, sequence: int, *, size: int = 20, epoch: int = 0
) -> AppendResult:
    data = build_batch(
        [(NOW, None, bytes(size), ())], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )
    return log.append_as_leader(check_produce(data, AppendRules(), NOW), 0, NOW)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("size", [20, 100_000])
@pytest.mark.parametrize("roll_at", [None, 9, 6])
def test_retries_of_the_last_five_batches_are_recognised(
    files: FaultyFiles, clean: bool, size: int, roll_at: int | None
) -> None:
    log = open_test_log(files, clean=False)
    for sequence in range(10):
        if sequence == roll_at:
            log.roll(NOW)
        for producer_id in (1, 2):
            produce(log, producer_id, sequence, size=size)
    if clean:
        log.close(NOW)
    again = open_test_log(files, clean=clean)
    for sequence in range(5, 10):
        answer = produce(again, 2, sequence, size=size)
        assert answer.duplicate and answer.first_offset == 2 * sequence + 1
    with pytest.raises(RecordsError) as refused:
        produce(again, 2, 4, size=size)
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not produce(again, 2, 10, size=size).duplicate


def test_batches_of_an_older_epoch_are_not_recalled(files: FaultyFiles) -> None:
    log = open_test_log(files, clean=False)
    for sequence in range(3):
        produce(log, 1, sequence)
    produce(log, 1, 0, epoch=1)
    log.close(NOW)
    again = open_test_log(files, clean=True)
    assert produce(again, 1, 0, epoch=1).duplicate
    assert len(again.producer_state.entries[1].batches) == 1


def test_the_log_is_searched_once_and_only_for_possible_retries(files: FaultyFiles) -> None:
    log = open_test_log(files, clean=False)
    produce(log, 1, 0)
    for sequence in range(40):
        produce(log, 2, sequence, size=100_000)
    log.close(NOW)
    again = open_test_log(files, clean=True)
    before = files.reads
    assert not produce(again, 2, 40, size=100_000).duplicate
    assert files.reads - before < 5, "the next batch needs no search"
    assert produce(again, 2, 38, size=100_000).duplicate
    assert 0 < files.reads - before < 40, "the search reads no more of the log than needed"
    before = files.reads
    for sequence in (7, 8):
        with pytest.raises(RecordsError):
            produce(again, 2, sequence)
    assert files.reads == before, "an out-of-order batch causes no second search"
