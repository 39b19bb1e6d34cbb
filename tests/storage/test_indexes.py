"""The three indexes: Kafka's format, lookups against brute force, detection of damage."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.files import Files
from ottla.storage.index.index_file import CorruptIndex
from ottla.storage.index.offset_index import OffsetIndex
from ottla.storage.index.time_index import TimeIndex
from ottla.storage.index.txn_index import AbortedTransaction, TxnIndex
from ottla.testing.files import FaultyFiles


def disk() -> FaultyFiles:
    files = FaultyFiles()
    files.mkdir("/d")
    return files


def test_offset_index_bytes() -> None:
    files = disk()
    index = OffsetIndex(files, "/d/i", 1000)
    index.append(1005, 4200)
    index.append(1300, 0x01020304)
    index.write_out()
    assert files.read_bytes("/d/i") == bytes.fromhex("00000005 00001068 0000012c 01020304")


def test_time_index_bytes() -> None:
    files = disk()
    index = TimeIndex(files, "/d/t", 1000)
    index.maybe_append(0x0000018BCFE56800, 1002)
    index.maybe_append(0x0000018BCFE56800, 1003)
    index.maybe_append(0x0000018BCFE56801, 1258)
    index.write_out()
    assert files.read_bytes("/d/t") == bytes.fromhex("0000018bcfe56800 00000002 0000018bcfe56801 00000102")


def test_txn_index_bytes() -> None:
    files = disk()
    index = TxnIndex(files, "/d/x", 0)
    assert not index
    index.append(AbortedTransaction(7, 10, 20, 15))
    expected = "0000 0000000000000007 000000000000000a 0000000000000014 000000000000000f"
    assert files.read_bytes("/d/x") == bytes.fromhex(expected)
    assert index.entries() == [AbortedTransaction(7, 10, 20, 15)]


sorted_entries = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=600).map(
    lambda steps: [
        (sum(s[0] for s in steps[: i + 1]), sum(s[1] for s in steps[: i + 1])) for i in range(len(steps))
    ]
)


@given(entries=sorted_entries, written=st.integers(0, 600), asked=st.integers(-5, 40_000), data=st.data())
def test_offset_lookups_against_brute_force(
    entries: list[tuple[int, int]], written: int, asked: int, data: st.DataObject
) -> None:
    index = OffsetIndex(disk(), "/d/i", 100)
    for number, (relative, position) in enumerate(entries):
        if number == written:
            index.write_out()
        index.append(100 + relative, position)
    assert len(index) == len(entries)
    below = [position for relative, position in entries if 100 + relative <= asked]
    assert index.position_for(asked) == (below[-1] if below else 0)
    before = [position for _, position in entries if position <= asked]
    assert index.position_at_or_before(asked) == (before[-1] if before else 0)
    cut = data.draw(st.integers(0, len(entries)))
    if cut < len(entries):
        index.truncate_to(100 + entries[cut][0], 1 << 30)
        assert [index.entry(i) for i in range(len(index))] == entries[:cut]
        index.append(100 + entries[cut][0], entries[cut][1])
        index.write_out()
        assert [index.entry(i) for i in range(len(index))] == entries[: cut + 1]


@given(entries=sorted_entries, asked=st.integers(-5, 40_000), written=st.booleans())
def test_time_lookups_against_brute_force(entries: list[tuple[int, int]], asked: int, written: bool) -> None:
    index = TimeIndex(disk(), "/d/t", 100)
    for timestamp, relative in entries:
        index.maybe_append(timestamp, 100 + relative)
    if written:
        index.write_out()
    below = [100 + relative for timestamp, relative in entries if timestamp <= asked]
    assert index.offset_for(asked) == (below[-1] if below else 100)
    assert index.last_entry() == ((entries[-1][0], 100 + entries[-1][1]) if entries else (-1, 100))


Index = OffsetIndex | TimeIndex


@pytest.mark.parametrize("make", [OffsetIndex, TimeIndex])
@pytest.mark.parametrize("count", [0, 1, 3, 200])
def test_preallocated_zeros_are_not_entries(make: Callable[[Files, str, int], Index], count: int) -> None:
    files = disk()
    index = make(files, "/d/i", 0)
    for i in range(count):
        index._push(i * 10 + 10, i * 5 + 5)
    index.write_out()
    files.open("/d/i").append(bytes(index.ENTRY.size * 1000))
    again = make(files, "/d/i", 0)
    assert len(again) == count
    again._push(1 << 20, 1 << 20)
    again.write_out()
    assert files.size("/d/i") == index.ENTRY.size * (count + 1)


@pytest.mark.parametrize(
    "damaged",
    [
        "00000001 00000010 00",
        "ffffffff 00000010",
        "00000001 00001000",
        "00000009 00000020 00000003 00000030",
    ],
)
def test_damaged_offset_index_is_detected(damaged: str) -> None:
    files = disk()
    files.open("/d/i").append(bytes.fromhex(damaged))
    with pytest.raises(CorruptIndex):
        OffsetIndex(files, "/d/i", 0).check(0x1000)


@pytest.mark.parametrize(
    "damaged",
    [
        "0000000000000001 0000",
        "0000000000000001 ffffffff",
        "0000000000000009 00000001 0000000000000003 00000002",
    ],
)
def test_damaged_time_index_is_detected(damaged: str) -> None:
    files = disk()
    files.open("/d/t").append(bytes.fromhex(damaged))
    with pytest.raises(CorruptIndex):
        TimeIndex(files, "/d/t", 0).check()


def test_txn_index_truncation_full_disk_and_damage() -> None:
    files = disk()
    index = TxnIndex(files, "/d/x", 5)
    index.append(AbortedTransaction(1, 5, 9, 9))
    files.room_bytes = 0
    index.append(AbortedTransaction(2, 10, 12, 13))
    assert files.size("/d/x") == 34
    assert [entry.producer_id for entry in index.entries()] == [1, 2]
    files.room_bytes = None
    index.append(AbortedTransaction(3, 13, 20, 21))
    assert files.size("/d/x") == 3 * 34
    index.check()
    index.truncate_to(13)
    assert [entry.producer_id for entry in index.entries()] == [1, 2]
    assert files.size("/d/x") == 2 * 34
    files.open("/d/x").append(b"\0")
    with pytest.raises(CorruptIndex):
        index.check()
    files.cut("/d/x", 68)
    files.flip_bit("/d/x", 1)
    with pytest.raises(CorruptIndex, match="version 1"):
        index.check()
