"""Compaction of one log: which records are kept, and what readers see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.records.batch import DELETE_HORIZON_BIT
from ottla.records.build import build_batch
from ottla.records.control import end_txn_marker
from ottla.storage.cleaning.plan import plan_clean
from ottla.storage.errors import CorruptLog
from ottla.storage.log import PartitionLog, open_log
from ottla.storage.log_config import LogConfig
from ottla.testing.files import FaultyFiles
from tests.support.storage.cleaning import batches_of, clean, data_of, plain_kernel

DIRECTORY = "/data/topic-0"
NOW_MS = 1_000_000
DAY_MS = 86_400_000


@pytest.fixture(params=["compiled", "pure"], autouse=True)
def each_kernel(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "pure":
        with plain_kernel():
            yield
    else:
        pytest.importorskip("ottla.records._kernel", exc_type=ImportError)
        yield


def open_test_log(files: FaultyFiles | None = None, **configs: object) -> PartitionLog:
    if files is None:
        files = FaultyFiles()
        files.mkdir("/data")
        files.sync_dir("")
    given = {"cleanup.policy": "compact", "segment.bytes": 1 << 20, "index.interval.bytes": 100}
    config = LogConfig(given | {name.replace("_", "."): value for name, value in configs.items()})
    return open_log(files, DIRECTORY, config, now_ms=NOW_MS)


def put(
    log: PartitionLog, *pairs: tuple[str | None, str | None], now_ms: int = NOW_MS, **options: int
) -> int:
    """Append one batch; returns its first offset."""
    rows = [
        (now_ms, None if key is None else key.encode(), None if value is None else value.encode(), ())
        for key, value in pairs
    ]
    return log.append_internal(build_batch(rows, **options), 0, now_ms).first_offset


def roll(log: PartitionLog, now_ms: int = NOW_MS) -> None:
    log.roll(now_ms)
    log.flush(now_ms)


def left(log: PartitionLog) -> list[tuple[int, str | None, str | None]]:
    return [
        (offset, None if record.key is None else record.key.decode(), record.value and record.value.decode())
        for offset, record in data_of(log).items()
    ]


def test_the_last_record_of_each_key_keeps_its_offset() -> None:
    log = open_test_log()
    put(log, ("a", "1"), ("b", "1"), ("a", "2"))
    put(log, ("c", "1"), ("b", "2"))
    roll(log)
    put(log, ("a", "3"))
    assert clean(log, NOW_MS)
    assert left(log) == [(2, "a", "2"), (3, "c", "1"), (4, "b", "2"), (5, "a", "3")]
    assert log.cleaned_offset == 5
    assert not clean(log, NOW_MS)


def test_the_active_segment_and_unstable_records_are_not_cleaned() -> None:
    log = open_test_log()
    for value in "123":
        put(log, ("a", value))
        roll(log)
    assert plan_clean(log, 2, NOW_MS)[:2] == (0, 2)
    assert plan_clean(log, 0, NOW_MS)[:2] == (0, 0)
    assert clean(log, NOW_MS, stable_offset=2)
    assert left(log) == [(1, "a", "2"), (2, "a", "3")]


def test_unsynced_segments_are_not_cleaned() -> None:
    log = open_test_log()
    put(log, ("a", "1"))
    roll(log)
    put(log, ("a", "2"))
    log.roll(NOW_MS)
    assert plan_clean(log, 2, NOW_MS).upper_offset == 1


def test_dirty_ratio_and_compaction_lags() -> None:
    log = open_test_log(min_compaction_lag_ms=1000, max_compaction_lag_ms=5000)
    put(log, ("a", "1"))
    roll(log)
    put(log, ("a", "2"), now_ms=NOW_MS + 3000)
    roll(log)
    assert plan_clean(log, 2, NOW_MS + 500).upper_offset == 0
    plan = plan_clean(log, 2, NOW_MS + 3500)
    assert (plan.upper_offset, plan.ratio, plan.overdue) == (1, 1.0, False)
    assert plan_clean(log, 2, NOW_MS + 5001).overdue
    log.cleaned_offset = 1
    plan = plan_clean(log, 2, NOW_MS + 7000)
    assert (plan.first_dirty, plan.clean_bytes, plan.dirty_bytes) == (1, 70, 70)
    assert not plan.is_due(log.config) and plan_clean(log, 2, NOW_MS + 8001).is_due(log.config)


def test_a_cleaned_offset_outside_the_log_is_reset_to_its_start() -> None:
    log = open_test_log()
    for value in "1234":
        put(log, ("a", value))
        roll(log)
    log.cleaned_offset = 99
    assert plan_clean(log, 4, NOW_MS).first_dirty == 0
    log.cleaned_offset = 1
    log.advance_log_start_offset(2)
    assert plan_clean(log, 4, NOW_MS).first_dirty == 2


def test_records_without_a_key_are_removed() -> None:
    log = open_test_log()
    put(log, (None, "1"), ("a", "1"))
    put(log, (None, "2"))
    put(log, ("b", "2"))
    roll(log)
    assert clean(log, NOW_MS)
    assert left(log) == [(1, "a", "1"), (3, "b", "2")]


@pytest.mark.parametrize("codec", range(5))
def test_tombstones_are_kept_for_delete_retention_ms(codec: int) -> None:
    log = open_test_log(delete_retention_ms=1000)
    put(log, ("a", "1"), ("b", "1"), codec=codec)
    put(log, ("a", None), ("c", "1"), now_ms=NOW_MS + 5, codec=codec)
    roll(log)
    assert clean(log, NOW_MS + 10)
    kept = [(1, "b", "1"), (2, "a", None), (3, "c", "1")]
    assert left(log) == kept
    header, records = batches_of(log)[1]
    assert header.attributes == DELETE_HORIZON_BIT | codec
    assert header.delete_horizon_ms == NOW_MS + 1010
    assert [record.timestamp for record in records] == [NOW_MS + 5] * 2
    for now_ms in (NOW_MS + 1009, NOW_MS + 1010):
        put(log, ("d", str(now_ms)))
        roll(log)
        assert clean(log, now_ms)
        gone = now_ms == NOW_MS + 1010
        assert ((2, "a", None) in left(log)) is not gone
    assert batches_of(log)[1][0].delete_horizon_ms == NOW_MS + 1010


@pytest.mark.parametrize("codec", range(5))
def test_batches_keep_their_codec_offsets_and_headers(codec: int) -> None:
    log = open_test_log()
    for turn in range(50):
        rows = [
            (NOW_MS + turn, b"%d" % (turn * 7 % 13), bytes([turn]) * 200, (("h", b"x"), ("n", None)))
            for _ in range(3)
        ]
        log.append_internal(build_batch(rows, codec=codec), 4, NOW_MS)
    before = batches_of(log)
    roll(log)
    assert clean(log, NOW_MS, chunk_bytes=100)
    after = batches_of(log)
    assert 13 <= len(after) < 20
    for header, records in after:
        was, were = next(pair for pair in before if pair[0].base_offset == header.base_offset)
        same = ("attributes", "base_timestamp", "last_offset_delta", "leader_epoch")
        assert all(getattr(header, name) == getattr(was, name) for name in same)
        assert all(record in were for record in records)


def test_log_append_times_are_kept() -> None:
    log = open_test_log()
    rows = [(5, b"a", b"1", ()), (5, b"b", b"1", ())]
    log.append_internal(build_batch(rows, log_append_time_ms=NOW_MS), 0, NOW_MS)
    put(log, ("b", "2"))
    roll(log)
    assert clean(log, NOW_MS)
    assert data_of(log)[0].timestamp == NOW_MS


def test_small_segments_are_merged() -> None:
    log = open_test_log(segment_bytes=1000)
    counts = []
    for value in ("x" * 100, "y", "z"):
        for turn in range(40):
            put(log, (f"key{turn}", value))
        roll(log)
        before = len(log.segments)
        assert clean(log, NOW_MS)
        counts.append((before, len(log.segments)))
        assert len(data_of(log)) == 40
        assert max(segment.size for segment in log.segments) <= 1000
    assert counts[0][0] == counts[0][1], "nothing is obsolete, no segments can be merged"
    assert counts[2][1] < counts[1][1], "emptied segments are merged by the next cleaning"


def test_a_full_map_ends_the_cleaning_early() -> None:
    log = open_test_log()
    for turn in range(3000):
        put(log, (f"key{turn % 1500}", str(turn)))
    roll(log)
    assert clean(log, NOW_MS, buffer_bytes=1, load_factor=0.5)
    assert log.cleaned_offset == 512
    assert len(data_of(log)) == 3000
    turns = 0
    while clean(log, NOW_MS, buffer_bytes=1, load_factor=0.5):
        turns += 1
    assert 5 <= turns <= 7
    assert log.cleaned_offset == 3000
    assert [record.value for record in data_of(log).values()] == [b"%d" % i for i in range(1500, 3000)]


def test_headers_of_the_last_batches_of_a_producer_are_kept() -> None:
    log = open_test_log()
    for sequence in range(5):
        put(log, ("a", "1"), producer_id=7, producer_epoch=1, base_sequence=sequence)
    put(log, ("a", "2"), ("a", "3"), producer_id=7, producer_epoch=1, base_sequence=5)
    put(log, ("a", "4"))
    roll(log)
    assert clean(log, NOW_MS)
    found = batches_of(log)
    assert [header.base_sequence for header, _ in found] == [1, 2, 3, 4, 5, -1]
    (kept, records), (_, last) = found[4:]
    assert (kept.base_offset, kept.last_offset, kept.base_sequence, kept.last_sequence) == (5, 6, 5, 6)
    assert (kept.records_count, kept.max_timestamp, records) == (0, NOW_MS, [])
    assert last[0].value == b"4"
    log.producers.snapshots.remove_above(-1)
    log.producers.state = None
    assert log.producer_state.entries[7].last_sequence == 6
    assert len(log.producer_state.entries[7].batches) == 5
    assert log.producer_state.entries[7].producer_epoch == 1


def in_txn(
    log: PartitionLog, producer_id: int, sequence: int, *pairs: tuple[str, str | None], epoch: int = 0
) -> int:
    rows = [(NOW_MS, key.encode(), None if value is None else value.encode(), ()) for key, value in pairs]
    batch = build_batch(
        rows, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
    )
    return log.append_internal(batch, 0, NOW_MS).first_offset


def end(log: PartitionLog, producer_id: int, *, commit: bool, epoch: int = 0) -> int:
    batch = end_txn_marker(producer_id, epoch, commit=commit, coordinator_epoch=3, timestamp_ms=NOW_MS)
    return log.append_internal(batch, 0, NOW_MS).first_offset


def test_aborted_records_are_removed_and_make_nothing_obsolete() -> None:
    log = open_test_log(delete_retention_ms=1000)
    put(log, ("a", "1"))
    in_txn(log, 7, 0, ("a", "aborted"), ("b", "aborted"))
    in_txn(log, 8, 0, ("b", "2"))
    end(log, 7, commit=False)
    end(log, 8, commit=True)
    for sequence in range(2, 7):
        in_txn(log, 7, sequence, ("c", str(sequence)))
    end(log, 7, commit=True)
    roll(log)
    assert clean(log, NOW_MS)
    assert left(log) == [(0, "a", "1"), (3, "b", "2"), (10, "c", "6")]
    markers = [header.base_offset for header, _ in batches_of(log) if header.is_control]
    assert markers == [4, 5, 11], "the abort marker is removed later, once no batch is left"
    assert [entry.producer_id for entry in log.aborted_transactions(0, 12)] == [7]
    for now_ms, expected_markers in ((NOW_MS, [4, 5, 11]), (NOW_MS + 1000, [5, 11])):
        put(log, ("z", str(now_ms)))
        roll(log)
        assert clean(log, now_ms)
        assert [header.base_offset for header, _ in batches_of(log) if header.is_control] == expected_markers
        assert log.aborted_transactions(0, 12) == []
    assert left(log)[:3] == [(0, "a", "1"), (3, "b", "2"), (10, "c", "6")]


def test_a_transaction_open_before_the_dirty_part_is_not_confused_with_an_aborted_one() -> None:
    log = open_test_log()
    in_txn(log, 7, 0, ("a", "aborted"))
    end(log, 7, commit=False)
    roll(log)
    assert clean(log, NOW_MS)
    in_txn(log, 7, 1, ("a", "1"))
    end(log, 7, commit=True)
    in_txn(log, 7, 2, ("a", "2"))
    end(log, 7, commit=True)
    roll(log)
    assert clean(log, NOW_MS)
    assert left(log) == [(4, "a", "2")]


def test_a_marker_above_the_range_ends_a_transaction_in_it() -> None:
    log = open_test_log()
    put(log, ("a", "1"))
    in_txn(log, 7, 0, ("a", "aborted"))
    roll(log)
    end(log, 7, commit=False)
    assert clean(log, NOW_MS)
    assert left(log) == [(0, "a", "1")]
    assert [header.records_count for header, _ in batches_of(log)] == [1, 0, 1]


def test_the_newest_marker_of_a_producer_without_data_is_kept_as_a_header() -> None:
    """Its epoch fences; in transaction version 2 every transaction has its own epoch."""
    log = open_test_log(delete_retention_ms=0)
    for turn in range(5):
        in_txn(log, 7, -1, ("a", str(turn)), epoch=turn)
        end(log, 7, commit=True, epoch=turn + 1)
    in_txn(log, 8, -1, ("a", "5"))
    end(log, 8, commit=True)
    roll(log)
    for turn in range(3):
        put(log, ("b", str(turn)))
        roll(log)
        assert clean(log, NOW_MS + turn)
    kept = [(header.base_offset, header.records_count) for header, _ in batches_of(log) if header.is_control]
    assert kept == [(9, 0), (11, 1)]


@pytest.mark.parametrize("reopened", [False, True])
def test_markers_without_sequences_are_removed(reopened: bool) -> None:
    """As coordinators write them: the last data batch is known nevertheless."""
    log = open_test_log(delete_retention_ms=0)
    for turn in range(5):
        in_txn(log, 7, -1, ("a", str(turn)))
        end(log, 7, commit=True)
    roll(log)
    for turn in range(3):
        put(log, ("b", str(turn)))
        roll(log)
        if reopened:
            log.close(NOW_MS)
            log = open_log(log.files, DIRECTORY, log.config, now_ms=NOW_MS, clean=True)
        assert clean(log, NOW_MS + turn)
    kept = [(header.base_offset, header.records_count) for header, _ in batches_of(log)]
    assert kept == [(8, 1), (9, 1), (12, 1)]


def test_a_read_in_a_gap_returns_the_next_batch() -> None:
    log = open_test_log(segment_bytes=300)
    for turn in range(30):
        put(log, ("a", str(turn)), now_ms=NOW_MS + turn)
        log.flush(NOW_MS)
    put(log, ("end", "1"), now_ms=NOW_MS + 100)
    assert clean(log, NOW_MS)
    survivors = [header.last_offset for header, _ in batches_of(log)]
    for offset in range(log.log_end_offset):
        region = log.read(offset, 1)
        assert region.nbytes
        found = batches_of_region(region.read())
        assert found[0] == next(last for last in survivors if last >= offset)
    wanted = log.offset_for_timestamp(NOW_MS + 3)
    assert wanted is not None and wanted.offset == next(iter(data_of(log)))
    top = log.max_timestamp_offset()
    assert top is not None and top.offset == 30
    assert log.leader_epochs.end_offset_for(0, log.log_end_offset)[1] == log.log_end_offset


def batches_of_region(data: bytes) -> list[int]:
    from ottla.records.batch import iter_headers

    return [header.last_offset for _, header in iter_headers(data)]


def test_the_largest_timestamp_of_an_emptied_batch_is_skipped() -> None:
    log = open_test_log()
    put(log, ("a", "1"), now_ms=NOW_MS + 50, producer_id=7, producer_epoch=0, base_sequence=0)
    put(log, ("b", "1"), now_ms=NOW_MS + 20)
    put(log, ("a", "2"), now_ms=NOW_MS + 10)
    roll(log)
    assert clean(log, NOW_MS)
    found = log.max_timestamp_offset()
    assert found is not None and (found.timestamp, found.offset) == (NOW_MS + 20, 1)


def test_a_follower_appends_batches_with_gaps() -> None:
    leader = open_test_log(segment_bytes=300)
    for turn in range(30):
        put(leader, (f"k{turn % 3}", str(turn)))
        leader.flush(NOW_MS)
    assert clean(leader, NOW_MS)
    follower = open_test_log()
    while follower.log_end_offset < leader.log_end_offset:
        data = leader.read(follower.log_end_offset, 200).read()
        assert follower.append_as_follower(data, NOW_MS).last_offset < leader.log_end_offset
    assert data_of(follower) == data_of(leader)
    assert follower.leader_epochs.entries() == leader.leader_epochs.entries() == [(0, 0)]
    # A log with gaps is recovered after a crash.
    again = open_log(follower.files, DIRECTORY, follower.config, now_ms=NOW_MS)
    assert data_of(again) == data_of(leader)


def test_an_epoch_that_began_in_a_gap_starts_at_the_followers_log_end() -> None:
    """Otherwise a third replica could keep records that it wrote under the older epoch."""
    leader = open_test_log()
    for epoch, value in ((0, "1"), (0, "2"), (1, "3"), (1, "4"), (1, "5")):
        batch = build_batch([(NOW_MS, b"a", value.encode(), ())])
        leader.append_internal(batch, epoch, NOW_MS)
    roll(leader)
    follower = open_test_log()
    follower.append_as_follower(leader.read(0, 1).read(), NOW_MS)
    assert clean(leader, NOW_MS)
    follower.append_as_follower(leader.read(1, 1 << 20).read(), NOW_MS)
    assert leader.leader_epochs.entries() == [(0, 0), (1, 2)]
    assert follower.leader_epochs.entries() == [(0, 0), (1, 1)]


def test_a_followers_segment_begins_where_its_log_ends() -> None:
    """Also before a gap, so that a segment lost in a power failure is not taken for compacted."""
    log = open_test_log(segment_bytes=200)
    for offset in (0, 5, 40):
        batch = build_batch([(NOW_MS, b"a", b"x" * 100, ())], base_offset=offset)
        log.append_as_follower(bytes(batch), NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 6]
    assert [log.read(offset, 1).read()[:8] for offset in (1, 5, 6)] == [
        number.to_bytes(8, "big") for number in (5, 5, 40)
    ]
    log.flush(NOW_MS)
    again = open_log(log.files, DIRECTORY, log.config, now_ms=NOW_MS, recovery_point=0)
    assert again.log_end_offset == 41
    log.segments[1].remove()
    again = open_log(log.files, DIRECTORY, log.config, now_ms=NOW_MS, recovery_point=0)
    assert again.log_end_offset == 1


def test_a_damaged_batch_stops_the_cleaning() -> None:
    files = FaultyFiles()
    files.mkdir("/data")
    log = open_test_log(files)
    put(log, ("a", "1"), ("b", "2"))
    put(log, ("a", "2"))
    roll(log)
    files.flip_bit(f"{DIRECTORY}/{0:020d}.log", 70)
    with pytest.raises(CorruptLog):
        clean(log, NOW_MS)


def test_unreadable_batches_with_valid_checksums_are_kept() -> None:
    log = open_test_log()
    batch = build_batch([(1, b"a", b"1", ())])
    from ottla.records.batch import read_header, seal

    header = read_header(batch)
    garbage = bytearray(61) + b"no zstd"
    seal(garbage, header._replace(attributes=4))
    log.append_internal(garbage, 0, NOW_MS)
    put(log, ("a", "2"))
    roll(log)
    assert clean(log, NOW_MS)
    region = log.read(0, 1 << 20).read()
    assert b"no zstd" in region


def test_cleaning_keeps_the_modification_time() -> None:
    files = FaultyFiles()
    files.mkdir("/data")
    files.now_ms = 5000
    log = open_test_log(files)
    put(log, ("a", "1"), ("a", "2"))
    roll(log)
    files.now_ms = 9000
    assert clean(log, NOW_MS)
    assert files.modified_ms(f"{DIRECTORY}/{0:020d}.log") == 5000


def test_retention_deletes_cleaned_segments() -> None:
    log = open_test_log(cleanup_policy="compact,delete", retention_ms=1000)
    put(log, ("a", "1"), ("a", "2"))
    roll(log)
    put(log, ("b", "1"), now_ms=NOW_MS + 5000)
    assert clean(log, NOW_MS)
    assert log.delete_old_segments(NOW_MS + 5000, 3) == 1
    assert left(log) == [(2, "b", "1")]


def test_a_region_of_a_replaced_segment_stays_readable() -> None:
    log = open_test_log()
    put(log, ("a", "1"), ("b", "1"))
    put(log, ("a", "2"))
    roll(log)
    regions = [(log.read(0, 1 << 20), log.read(0, 1 << 20).read())]
    for turn in range(3):
        put(log, ("a", str(turn)), ("b", str(turn)))
        roll(log)
        assert clean(log, NOW_MS + turn)
        regions.append((log.read(0, 1 << 20), log.read(0, 1 << 20).read()))
    assert all(region.read() == data for region, data in regions)
